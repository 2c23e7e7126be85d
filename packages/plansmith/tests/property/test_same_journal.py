"""R5: the same replies make the same journal, byte for byte, whatever the shape of a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plansmith import Effect, Plan, Plansmith, ToolSpec
from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import Json, canonical_json
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.testing import FakeClock, MemoryStore
from plansmith_cli.replay import replay


class World:
    """Tools that fail, and take their turns, as a story says."""

    def __init__(self, story: Mapping[str, Mapping[str, Any]]) -> None:
        self._story = story
        self.calls = 0

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="look", effect=Effect.READ), ToolSpec(name="act")]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        self.calls += 1
        behaviour = self._story[str(arguments["name"])]
        for _ in range(behaviour["turns"]):
            await asyncio.sleep(0)
        if call.attempt <= behaviour["busy"]:
            raise ToolBusy("later")
        if behaviour["fails"]:
            raise ToolFailed(f"{tool} is closed")
        return {"list": list(range(behaviour["turns"])), "name": arguments["name"]}


class Ticking(FakeClock):
    """A clock on which no two looks are the same moment, as on a real one; waiting is a turn."""

    def now(self) -> datetime:
        self._elapsed += 0.001
        return super().now()

    async def sleep(self, seconds: float) -> None:
        del seconds
        await asyncio.sleep(0)


@st.composite
def stories(draw: Any) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    behaviour: dict[str, dict[str, Any]] = {}
    for number in range(draw(st.integers(1, 9))):
        name = f"s{number}"
        earlier = [each["id"] for each in steps]
        after = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        call = {"tool": draw(st.sampled_from(["look", "act"])), "inputs": {"name": name}}
        behaviour[name] = {
            "turns": draw(st.integers(0, 6)),
            "busy": draw(st.sampled_from([0, 0, 0, 1, 2, 5])),
            "fails": draw(st.sampled_from([False, False, False, True])),
        }
        if draw(st.integers(0, 4)) == 0:
            width = draw(st.integers(1, 3))
            steps.append({"id": name, "over": [1, 2, 3], "each": call, "width": width})
        else:
            steps.append({"id": name, **call})
        steps[-1]["after"] = after
    # A step that waits for another try queues up again: with room for all, in no one's way.
    retries = any(each["busy"] for each in behaviour.values())
    width = 64 if retries else draw(st.integers(1, 6))
    return {"steps": steps, "behaviour": behaviour, "width": width}


async def run(story: Mapping[str, Any], store: MemoryStore) -> tuple[Plansmith, str, World]:
    world = World(story["behaviour"])
    plan = Plan.model_validate({"goal": "any", "steps": story["steps"]})
    limits = Limits(width=story["width"], first_wait_s=0, data="show")
    clock, ids = Ticking(), iter(["run-1"])
    app = Plansmith(tools=[world], store=store, limits=limits, clock=clock, ids=lambda: next(ids))
    made = await app.submit(plan, by="bob")
    if made.status.value == "reviewing":
        await app.decide(made.id, approve=plan.hash, by="ada")
    await app.run(made.id)
    return app, made.id, world


@given(stories())
def test_the_same_story_makes_the_same_journal_and_replays(story: dict[str, Any]) -> None:
    async def play() -> None:
        app, run_id, world = await run(story, MemoryStore())
        calls = world.calls
        replayed = await replay(run_id, app)
        assert replayed.identical, replayed.to_json()
        assert world.calls == calls
        second, _, _ = await run(story, MemoryStore())
        journals = [await each.store.events(run_id) for each in (app, second)]
        texts = [[canonical_json(event.to_json()) for event in each] for each in journals]
        assert texts[0] == texts[1]

    asyncio.run(play())
