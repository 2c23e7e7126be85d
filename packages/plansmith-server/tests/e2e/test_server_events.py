"""The event stream: replay, snapshot, drafts; cut at any point, no gap and no duplicate."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from tests.unit.server.house import House, plan, serving, tool_step

from plansmith.ports import Delta, TextDelta
from plansmith.testing import ScriptedModel


async def take(stream: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(120), aclosing(stream):  # type: ignore[type-var]
        async for event in stream:
            found.append(event)
            if len(found) == count:
                break
    return found


async def finished(house: House, count: int) -> list[str]:
    """Some runs that are over."""
    ids: list[str] = []
    for number in range(count):
        run = await house.begin(tool_step(f"a{number}"), tool_step("b", after=[f"a{number}"]))
        await house.approve(run)
        ids.append(run["id"])
    for run_id in ids:
        await house.until(run_id, "done")
    return ids


async def test_a_stream_cut_at_random_points_has_no_gap_and_no_duplicate(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        store = house.server_state.smith.store
        chance = random.Random(8)
        going = asyncio.create_task(finished(house, 6))
        seen: list[dict[str, Any]] = []
        after = 0
        while not going.done() or await store.news(after):
            if not (news := await store.news(after)):
                await asyncio.wait([going], timeout=0.02)
                continue
            wanted = min(chance.randint(1, 12), len(news))
            by_header = chance.random() < 0.5
            where: dict[str, Any] = {"headers": {"Last-Event-ID": str(after)}}
            if not by_header or not after:
                where = {"after": after}
            part = await take(house.stream(**where), wanted)
            seen += [each for each in part if each["event"] == "run_event"]
            after = int(seen[-1]["id"]) if seen else after
        kept = [(each.run, each.number) for each in await store.news(0, limit=100_000)]
        assert [(each["data"]["run"], each["data"]["number"]) for each in seen] == kept
        assert [int(each["id"]) for each in seen] == [each["data"]["position"] for each in seen]


async def test_one_run_is_followed_alone_and_who_comes_new_gets_a_snapshot(house: House) -> None:
    one, two = await finished(house, 2)
    count = (await house.get(f"/v1/runs/{two}"))["last"]
    events = await take(house.stream(run=two, after=0), count)
    assert {each["data"]["run"] for each in events} == {two}
    assert one != two
    assert (await house.client.get("/v1/events?run=nobody")).status_code == 404
    for where in ({"after": 10**9}, {"headers": {"Last-Event-ID": "9" * 30}}):
        [first] = await take(house.stream(**where), 1)
        assert first["event"] == "snapshot"
    [first] = await take(house.stream(headers={"Last-Event-ID": "nonsense"}), 1)
    assert first["event"] == "snapshot"
    waiting = await house.begin(tool_step("a", "mail"))
    stream = house.stream()
    first = await anext(stream)
    assert first["event"] == "snapshot"
    assert [each["id"] for each in first["data"]["runs"]] == [waiting["id"]]
    assert first["data"]["position"] == int(first["id"])
    await house.approve(waiting)
    then = await anext(stream)
    assert then["data"]["body"]["type"] == "plan_approved"
    assert then["data"]["position"] == first["data"]["position"] + 1
    await stream.aclose()  # type: ignore[attr-defined]


async def test_twenty_streams_are_all_alive_and_end_with_the_server(house: House) -> None:
    streams = [house.stream() for _ in range(20)]
    assert {(await anext(each))["event"] for each in streams} == {"snapshot"}
    assert house.server_state.metrics.streams == 20
    await house.begin(tool_step("a", "mail"))
    for each in streams:
        assert (await anext(each))["data"]["body"]["type"] == "run_created"
    house.server_state.closing.set()
    for each in streams:
        async for _ in each:
            pass


class Halting(ScriptedModel):
    """Stops speaking before the second step, until it may go on."""

    may = asyncio.Event()

    async def stream(self, *args: Any, **more: Any) -> AsyncIterator[Delta]:
        text = ""
        async for delta in super().stream(*args, **more):
            text += delta.text if isinstance(delta, TextDelta) else ""
            yield delta
            if "two" in text:
                await self.may.wait()


async def test_steps_are_seen_while_they_are_written(tmp_path: Path) -> None:
    decided = {"decision": "plan", "reason": "", "query": "x", "answer": ""}
    model = Halting(decided, plan(tool_step("one"), tool_step("two")))
    async with serving(tmp_path, model=model) as house:
        stream = house.stream()
        await anext(stream)
        run = await house.post("/v1/runs", {"request": "x"}, 202)
        drafts: list[dict[str, Any]] = []
        async with asyncio.timeout(120):
            while not drafts or "step" not in drafts[-1]:
                event = await anext(stream)
                if event["event"] == "draft":
                    assert "id" not in event
                    drafts.append(event["data"])
        assert {each["run"] for each in drafts} == {run["id"]}
        assert drafts[0]["phase"] == "triage"
        assert drafts[-1]["phase"] == "draft"
        assert drafts[-1]["step"]["id"] == "one"
        # Someone who comes now sees what is there already.
        late = house.stream(run=run["id"], after=0)
        async with asyncio.timeout(120):
            while "step" not in (event := await anext(late))["data"]:
                pass
        assert event["data"]["step"]["id"] == "one"
        model.may.set()
        await house.until(run["id"], "reviewing")
        await stream.aclose()  # type: ignore[attr-defined]
        await late.aclose()  # type: ignore[attr-defined]
