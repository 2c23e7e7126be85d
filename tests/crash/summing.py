"""A process that sums up the runs of a store: `python -m tests.crash.summing FILE KILLED_AFTER`."""

from __future__ import annotations

import asyncio
import sys

from tests.crash.halting import HaltingSqlite

from plansmith.app import Plansmith


async def main(path: str, killed_after: int) -> None:
    store = HaltingSqlite(path)
    store.halt(killed_after, write="keep_summaries")
    async with Plansmith(store=store) as smith:
        await smith.runs.lists.store_summaries()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
