"""Polls until a supplier is ready, at most five times, and orders if stock is low: DBOS."""

import world
from dbos import DBOS, SetWorkflowID


@DBOS.step()
def poll() -> bool:
    return world.poll()


@DBOS.step()
def look() -> int:
    return world.stock()


@DBOS.step()
def order(count: int) -> str:
    return world.order(count)


@DBOS.workflow()
def restock() -> None:
    for number in range(world.POLLS):
        if number:
            DBOS.sleep(world.PAUSE_S)
        if poll():
            break
    else:
        return
    if look() < 10:
        order(10)


DBOS(config={"name": "restock", "system_database_url": "sqlite:///runs.db"})
DBOS.launch()  # takes up what a crash left
with SetWorkflowID("restock"):
    DBOS.start_workflow(restock).get_result()
