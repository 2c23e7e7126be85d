"""A process that sums up the runs of a store: `python summing.py FILE KILLED_AFTER`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from plansmith.app import Plansmith
from plansmith.plan.summary import RunSummary
from plansmith.store.sqlite import SqliteStore


class Mortal(SqliteStore):
    """Its process is killed once it has stored so many times."""

    left = 10**9

    async def keep_summaries(self, summaries: Sequence[tuple[int, RunSummary]]) -> None:
        await super().keep_summaries(summaries)
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(path: str, killed_after: int) -> None:
    store = Mortal(path)
    store.left = killed_after or 10**9
    async with Plansmith(store=store) as smith:
        await smith.runs.lists.sum_up()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
