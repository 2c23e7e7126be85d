"""Repeats of lists: rounds of the whole list, rounds of each item, and questions in rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from tests.flow.plans import answered, approved, plan

from plansmith import Effect, Plansmith, RunStatus
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.replay.player import replay
from plansmith.testing import FakeTool, FakeTools, MemoryStore

NO_WAIT = Limits(first_wait_s=0, data="show")


class Counts:
    """Counts how often each thing was looked at; the third look finds it ready."""

    def __init__(self) -> None:
        self.looks: Counter[Json] = Counter()

    def tools(self) -> FakeTools:
        """A read that takes three looks, one that fails at first, and a change."""
        return FakeTools(
            FakeTool("look", [self._look]),
            FakeTool("shaky", [self._shaky]),
            FakeTool("act", [lambda given: {"did": dict(given)}], effect=Effect.WRITE),
        )

    def _look(self, given: Mapping[str, Json]) -> Json:
        self.looks[given["of"]] += 1
        return {"of": given["of"], "ready": self.looks[given["of"]] >= given["needs"]}  # type: ignore[operator]

    def _shaky(self, given: Mapping[str, Json]) -> Json:
        self.looks[given["of"]] += 1
        if given["of"] == "b" and self.looks["b"] == 1:
            raise ToolFailed("not yet")
        return "ready"


async def ran(counts: Counts, *steps: dict[str, Any], **options: Any) -> tuple[Plansmith, Run]:
    options.setdefault("limits", NO_WAIT)
    app = Plansmith(tools=[counts.tools()], store=MemoryStore(), **options)
    run = await approved(app, plan(*steps))
    replayed = await replay(run.id, app)
    assert replayed.identical, replayed.to_json()
    return app, run


def each(**more: Any) -> dict[str, Any]:
    inputs = {"of": "{{item.of}}", "needs": "{{item.needs}}"}
    return {"id": "one", "tool": "look", "inputs": inputs, **more}


ITEMS = [{"of": "a", "needs": 1}, {"of": "b", "needs": 3}]
OWN = {"equals": ["{{one.ready}}", True]}


@pytest.mark.parametrize(
    ("whole", "inner", "result"),
    [
        ({"on_error": "collect"}, {}, "error"),
        ({}, {"on_error": "skip"}, None),
        ({}, {"on_error": {"value": "none"}}, "none"),
    ],
)
async def test_an_item_whose_rounds_never_end_well_follows_on_error(
    whole: Any, inner: Any, result: Any
) -> None:
    repeated = each(repeat={"until": OWN, "at_most": 2}, **inner)
    _, run = await ran(Counts(), {"id": "all", "over": ITEMS, "each": repeated, **whole})
    assert run.status is RunStatus.DONE
    found = run.result("all", list[Any])
    assert found[0] == {"of": "a", "ready": True}
    if result == "error":
        assert "after 2 rounds" in found[1]["error"]["message"]
    else:
        assert found[1:] == ([] if result is None else [result])


async def test_consent_to_a_long_repeated_list_tells_its_rounds() -> None:
    long: Any = [{"of": f"{n}", "needs": 1} for n in range(3)]
    source = FakeTool("list", [long])
    tools = FakeTools(source, FakeTool("act", [{"n": 1}], effect=Effect.WRITE))
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    acts = {"id": "act", "tool": "act", "inputs": {"of": "{{item.of}}"}}
    repeat = {"until": {"empty": "{{all}}"}, "at_most": 2}
    wanted = plan(
        {"id": "list", "tool": "list"},
        {"id": "all", "over": "{{list}}", "each": acts, "most": 1, "repeat": repeat},
    )
    run = await approved(app, wanted, by="bob")
    [asked] = run.questions.values()
    assert "up to 6 times, for 3 items" in asked.text
    assert asked.times == 6
    run = await answered(app, run, asked.question, "allow")
    assert not run.questions
    assert len([call for call in tools.calls if call.tool == "act"]) == 6


@pytest.mark.parametrize("acts", [False, True])
async def test_a_no_inside_a_repeated_template_leaves_out_only_what_acts(acts: bool) -> None:
    """The word no is an answer where nothing that acts waits for it, in rounds as elsewhere."""
    counts = Counts()
    app = Plansmith(tools=[counts.tools()], limits=NO_WAIT, store=MemoryStore())
    tool = {"id": "then", "tool": "act" if acts else "look", "after": ["sure"]}
    inputs = {} if acts else {"inputs": {"of": "x", "needs": 1}}
    await app.templates.save(plan({"id": "sure", "question": "Sure?"}, {**tool, **inputs}), "ask")
    until = {"not": {"empty": "{{t}}"}}
    run = await app.submit(
        plan({"id": "t", "template": "ask", "repeat": {"until": until, "at_most": 2}}), by="bob"
    )
    if run.status is RunStatus.REVIEWING and run.plan is not None:
        await app.decide(run.id, approve=run.plan.hash, by="ada")
    run = await app.run(run.id)
    run = await answered(app, run, next(iter(run.questions)), "no")
    assert run.steps["t/1/sure"].status.value == ("skipped" if acts else "done")
