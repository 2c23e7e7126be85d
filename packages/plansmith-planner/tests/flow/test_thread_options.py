"""The options of a message are kept with it, for whoever goes on with a thread."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.smiths import NO_TRIAGE

from plansmith import Plansmith, RunStatus, tool
from plansmith.plan.run_options import Origin
from plansmith.testing import MemoryStore, ScriptedModel

PLAN = {"goal": "g", "steps": [{"id": "look", "tool": "look", "inputs": {"at": "x"}}]}
looked: list[str] = []


@tool(effect="read")
def look(at: str) -> str:
    """Look at something."""
    looked.append(at)
    return at


def smith_of(store: MemoryStore, *answers: object) -> Plansmith:
    model = ScriptedModel(*answers)
    return Plansmith(model=model, tools=[look], store=store, settings=NO_TRIAGE)


class Dying(MemoryStore):
    """A store whose process dies before it stores a run."""

    dead = False

    async def append(self, *given: Any, **more: Any) -> Any:
        if self.dead:
            raise KeyboardInterrupt
        return await super().append(*given, **more)


async def test_the_options_of_a_message_hold_when_another_process_takes_it_up() -> None:
    looked.clear()
    store = Dying()
    dying, other = smith_of(store), smith_of(store, PLAN, PLAN)
    store.dead = True
    origin = Origin(kind="a2a", id="context")
    with pytest.raises(KeyboardInterrupt):
        await (await dying.thread("journey")).say("look at x", mode="review", origin=origin)
    store.dead = False
    thread = await other.thread("journey")
    turn = await thread.say("look at y")
    [first, second] = [await other.runs.run(name) for name in thread.runs]
    assert (first.request, second.id) == ("look at x", turn.run.id if turn.run else "")
    assert (first.options.mode, first.origin) == ("review", origin)
    assert (first.status, second.status) == (RunStatus.REVIEWING, RunStatus.DONE)
    assert looked == ["x"]
