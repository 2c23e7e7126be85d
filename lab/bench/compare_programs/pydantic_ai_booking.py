"""Reserves items, and releases them if confirming fails: DBOS, as pydantic-ai's docs use it."""

import asyncio
from collections.abc import Sequence

import world
from dbos import DBOS, SetWorkflowID


@DBOS.step()
async def reserve(item: str) -> str:
    return await asyncio.to_thread(world.reserve, item)


@DBOS.step()
async def confirm(reservations: Sequence[str]) -> str:
    return await asyncio.to_thread(world.confirm, reservations)


@DBOS.step()
async def release(reservation: str) -> str:
    return await asyncio.to_thread(world.release, reservation)


@DBOS.workflow()
async def booking() -> None:
    tries = await asyncio.gather(*map(reserve, world.ITEMS), return_exceptions=True)
    reserved = [each for each in tries if isinstance(each, str)]
    try:
        await confirm(reserved)
    except world.Unavailable:
        await asyncio.gather(*map(release, reserved))


async def main() -> None:
    DBOS(config={"name": "booking", "system_database_url": "sqlite:///runs.db"})
    DBOS.launch()  # takes up what a crash left
    with SetWorkflowID("booking"):
        handle = await DBOS.start_workflow_async(booking)
    await handle.get_result()


asyncio.run(main())
