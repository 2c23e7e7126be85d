"""Keeps runs in a store of your own: one text file, one line for each write.

Run it: `python custom_store.py`. It passes the tests of every store: inherit
`JournalStoreContract` of `plansmith.testing.contracts`. One process uses the file at a time.
"""

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plansmith import Plansmith, read_plan, tool
from plansmith.errors import JournalDamaged, StaleWriter, StoreAway
from plansmith.plan.data import Content, Json, content_of, parse_json
from plansmith.plan.events import Event, read_event
from plansmith.plan.summary import RunSummary
from plansmith.ports import News


class LineStore:
    def __init__(self, path: Path) -> None:
        self._runs: dict[str, list[Event]] = {}
        self._news: list[News] = []
        self._values: dict[str, str] = {}
        self._changed = asyncio.Condition()
        self._file = path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise StoreAway(f"another process uses {path}") from None
        self._file.seek(0)
        *lines, torn = self._file.read().split(b"\n")
        self._file.truncate(self._file.tell() - len(torn))  # cut off by a crash: it never happened
        for line in lines:
            stored = json.loads(line)
            self._remember([read_event(each) for each in stored["events"]], stored["values"])

    def _remember(self, events: Sequence[Event], values: dict[str, str]) -> None:
        self._values |= values
        for event in events:
            self._runs.setdefault(event.run, []).append(event)
            self._news.append(News(len(self._news) + 1, event.run, event.number))

    async def _write(self, events: Sequence[Event], values: Sequence[Json | Content]) -> None:
        texts = {each.digest: each.text.decode() for each in map(content_of, values)}
        line = json.dumps({"events": [each.to_json() for each in events], "values": texts}) + "\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(line.encode())
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise StoreAway(f"the file cannot be written: {error}") from error
        if written != len(line):
            self._file.truncate(end)
            raise StoreAway("the disk is full")
        self._remember(events, texts)
        async with self._changed:
            self._changed.notify_all()

    async def append(
        self,
        events: Sequence[Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
    ) -> None:
        for at, event in enumerate(events):
            run = events[0].run
            if (event.run, event.number) != (run, len(self._runs.get(run, [])) + at + 1):
                raise StaleWriter(f"event {event.number} of run {event.run} does not follow")
        if events:
            await self._write(events, values)

    async def put(self, value: Json) -> str:
        await self._write([], [value])
        return content_of(value).digest

    async def get(self, digest: str) -> Json:
        if digest not in self._values:
            raise JournalDamaged(f"no value is stored under {digest}")
        return parse_json(self._values[digest])

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        return self._runs.get(run, [])[max(after, 0) :]

    async def wait(self, run: str, *, after: int = 0) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._runs.get(run, [])) > after)

    async def runs(self) -> Sequence[str]:
        return list(self._runs)

    async def open_runs(self) -> Sequence[str]:
        return [run for run, own in self._runs.items() if own[-1].body.type != "run_finished"]

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        return self._news[max(after, 0) :][:limit]

    async def wait_news(self, after: int) -> int:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._news) > after)
        return len(self._news)

    async def close(self) -> None:
        self._file.close()


@tool(effect="read")
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def main() -> None:
    steps = [{"id": "twice", "tool": "double", "inputs": {"number": 21}}]
    path = Path(tempfile.mkdtemp(), "runs.jsonl")
    async with Plansmith(tools=[double], store=LineStore(path)) as smith:
        run = await smith.do(read_plan({"goal": "Double it", "steps": steps}))
    async with Plansmith(tools=[double], store=LineStore(path)) as later:  # another process, say
        again = await later.get(run.id)
        print(again.status, again.result("twice"))
        print([event.body.type async for event in later.events(run.id)])


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# done 42
# ['run_created', 'plan_proposed', 'run_started', 'step_started', 'step_done', 'run_finished']
