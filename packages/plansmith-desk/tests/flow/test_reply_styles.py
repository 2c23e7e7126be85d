"""The style of a reply: worded by a model, said exactly, or the results themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from plansmith import PlanInvalid, Plansmith, read_plan, tool
from plansmith.engine.journal import readable_results
from plansmith.formats.native import schema, try_read_plan
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import RunStatus
from plansmith.ports import Brief, Delta, ModelDone, PlanBrief, Prompt, ReplyBrief, TextDelta, Usage
from plansmith.testing import ScriptedModel
from plansmith_desk.model.rules import RulesModel

FOUND: list[Json] = [{"name": "a.md", "size": 1}, {"name": "b.md", "size": 2}]
LOOK = {"id": "look", "kind": "tool", "tool": "look", "inputs": {}}


@tool(effect="read")
def look() -> list[Any]:
    """Look for notes in this folder."""
    return FOUND


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "g", "steps": list(steps)})


def reply(instruction: str, style: str = "worded") -> dict[str, Any]:
    return {"id": "say", "kind": "reply", "instruction": instruction, "style": style}


class Listener:
    """A model that keeps what it is asked."""

    name = "listener"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    @property
    def briefs(self) -> list[Brief | None]:
        return [prompt.brief for prompt in self.prompts]

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        self.prompts.append(prompt)
        yield TextDelta("so it is [step:look]")
        yield ModelDone(Usage())


async def answer_of(model: Any, made: Plan) -> str:
    """What the reply of a plan came to."""
    async with Plansmith(model=model, tools=[look]) as smith:
        run = await smith.run((await smith.submit(made)).id)
        assert run.status is RunStatus.DONE
        return str((await readable_results(smith.store, run))["say"])


async def test_a_model_gets_the_instruction_the_results_and_the_style_as_data() -> None:
    model = Listener()
    for style in ("worded", "results"):
        await answer_of(model, plan(LOOK, reply("Which notes?\n{{look}}", style)))
    instruction = "Which notes?\n{{look}}"
    results: dict[str, Json] = {"{{look}}": FOUND}
    assert model.briefs == [
        ReplyBrief(instruction, results, "worded", "en"),
        ReplyBrief(instruction, results, "results", "en"),
    ]
    worded, by_results = (prompt.text for prompt in model.prompts)
    assert by_results.startswith(worded.rstrip())
    assert "as tables and lists" in by_results


async def test_the_results_are_shown_where_there_is_no_language_model() -> None:
    text = await answer_of(RulesModel(), plan(LOOK, reply("Which notes?\n{{look}}", "results")))
    assert text.startswith("| name | size [step:look] |")
    assert "| b.md | 2 |" in text
    quoted = await answer_of(RulesModel(), plan(LOOK, reply("{{look}}", "results")))
    assert quoted.startswith("| name | size |")


async def test_a_plan_by_rules_holds_the_persons_words_and_none_of_ours() -> None:
    request = "Look for notes in this folder {{notes}}"
    async with Plansmith(model=RulesModel(), tools=[look]) as smith:
        made = (await smith.plan(request)).plan
    assert made is not None
    last = made.steps[-1].to_json()
    assert last["instruction"] == 'Look for notes in this folder {{"{{"}}notes}}\n{{look}}'
    assert last["style"] == "results"


async def test_the_planner_hands_its_brief_over_with_every_call() -> None:
    model = Listener()
    async with Plansmith(model=model, tools=[look]) as smith:
        await smith.plan("Look for\u200b notes")
    plans = [brief for brief in model.briefs if isinstance(brief, PlanBrief)]
    assert len(plans) > 1  # a draft, and repairs
    assert {brief.request for brief in plans} == {"Look for\\u200b notes"}
    assert [each.name for each in plans[0].tools] == ["look"]
    assert plans[0].now
    assert plans[0].problems == ()
    assert all(brief.problems for brief in plans[1:])


def test_the_style_is_part_of_what_is_approved_and_of_the_plan_language() -> None:
    assert len({plan(reply("Hello", style)).hash for style in ("worded", "exact", "results")}) == 3
    assert "style" not in json.dumps(plan(reply("Hello")).to_json())
    wrong = try_read_plan({"goal": "g", "steps": [reply("Hello", "loud")]})
    assert isinstance(wrong, list)
    assert "style" in wrong[0].message
    assert "style" in json.dumps(schema())
    assert "style" not in json.dumps(schema(for_models=True))


def say(text: str) -> dict[str, Any]:
    return {"id": "say", "say": text}


@pytest.mark.parametrize("model", [None, ScriptedModel()], ids=["no model", "a model"])
async def test_a_reply_that_says_a_text_calls_no_model_and_needs_none(model: Any) -> None:
    made = read_plan(
        {"goal": "g", "steps": [LOOK, say("Found {{look[0].name}} ({{look[0].size}}).")]}
    )
    assert await answer_of(model, made) == "Found a.md (1)."


async def test_a_map_of_replies_that_say_a_text_calls_no_model() -> None:
    each = {"say": "- {{item.name}}"}
    whole = {"id": "all", "over": {"$from": "look"}, "each": each}
    made = read_plan({"goal": "g", "steps": [LOOK, whole, say("{{all[0]}}\n{{all[1]}}")]})
    assert await answer_of(ScriptedModel(), made) == "- a.md\n- b.md"


@pytest.mark.parametrize(
    "text", ["{{look[0].name}}", "{{look[0].name}}: {{look[1].size}}!", "“{{look[0].name}}”"]
)
async def test_a_reply_without_a_word_of_its_own_calls_no_model(text: str) -> None:
    model = Listener()
    answer = await answer_of(model, plan(LOOK, reply(text)))
    assert answer == text.replace("{{look[0].name}}", "a.md").replace("{{look[1].size}}", "2")
    assert model.prompts == []


@pytest.mark.parametrize(
    "text", ["Which? {{look[0].name}}", "哪个 {{look[0].name}}", "{{look}}", "Greet."]
)
async def test_a_reply_that_asks_for_words_or_shows_a_table_calls_the_model_once(text: str) -> None:
    model = Listener()
    assert await answer_of(model, plan(LOOK, reply(text))) == "so it is [step:look]"
    assert len(model.prompts) == 1


def test_say_is_the_same_plan_as_an_exact_instruction_and_not_both() -> None:
    short = read_plan({"goal": "g", "steps": [say("Hello")]})
    assert short == plan(reply("Hello", "exact"))
    assert short.hash == plan(reply("Hello", "exact")).hash
    for wrong in (say("Hi") | {"instruction": "Greet"}, say("Hi") | {"style": "worded"}, say("")):
        with pytest.raises(PlanInvalid, match="PS005"):
            read_plan({"goal": "g", "steps": [wrong]})
    assert '"say"' in json.dumps(schema(for_models=True))
