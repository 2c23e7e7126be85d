"""No reading of a damaged plan loses a refusal, a schedule, a question or a step in silence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.graph import upstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.steps import AskStep
from plansmith_planner.dialect import Reading
from plansmith_planner.parse.reply import parse

Value = dict[str, Any]


class ModelPlan(NamedTuple):
    """A plan as another system writes it: where its steps are, and what else it says."""

    shape: str
    value: Value
    steps: str
    refusal: str = ""
    schedule: bool = False
    question: str = ""
    columns: str = ""


def words(count: int) -> list[str]:
    return [f"deed{place}" for place in range(1, count + 1)]


TIMES = [{"interval_minutes": 5}, {"daily_time": "09:30"}]
NO_TIMES: list[Any] = [
    {"interval_minutes": "soon"},
    {"interval_minutes": 0},
    {"daily_time": "25:99"},
    {"cron": "0 9 * * *"},
    {"daily_time": "09:00", "weekdays": ["Mon"]},
    "every morning",
    ["09:00"],
]
NO = [False, False, "false", "No", 0]
UNCLEAR: list[Any] = ["maybe", "not yet", [], {"why": "no account"}]


@st.composite
def valuecell(draw: st.DrawFn) -> ModelPlan:
    count, repeats = draw(st.integers(1, 3)), draw(st.booleans())
    refuses = draw(st.booleans())
    when: Value = {"pattern": "once"}
    if repeats:
        config = draw(st.sampled_from([*TIMES, *NO_TIMES]))
        when = {"pattern": draw(st.sampled_from(["recurring", "daily"])), "schedule_config": config}
    tasks = [{"title": "t", "query": each, "agent_name": "desk"} | when for each in words(count)]
    question = "Which account?" if refuses and draw(st.booleans()) else ""
    value: Value = {
        "tasks": tasks,
        "adequate": draw(st.sampled_from([*NO, *UNCLEAR])) if refuses else True,
        "reason": "because",
        "guidance_message": question or None,
    }
    return ModelPlan("valuecell", value, "tasks", "adequate" * refuses, repeats, question)


@st.composite
def research(draw: st.DrawFn, shape: str) -> ModelPlan:
    refuses = draw(st.booleans())
    steps = [
        {"title": "t", "description": each, "step_type": "research", "need_web_search": True}
        for each in words(draw(st.integers(1, 3)))
    ]
    flag = draw(st.sampled_from([*NO, *UNCLEAR])) if refuses else True
    value = {"has_enough_context": flag, "thought": "", "title": "g", "steps": steps}
    return ModelPlan(shape, value, "steps", "has_enough_context" * refuses)


@st.composite
def jmanus(draw: st.DrawFn) -> ModelPlan:
    columns = "price" * draw(st.booleans())
    steps = [
        {"stepRequirement": f"[DESK] {each}", "terminateColumns": columns}
        for each in words(draw(st.integers(1, 3)))
    ]
    value: Value = {"planType": "simple", "title": "g", "steps": steps}
    answer = "Which account?" * draw(st.booleans())
    value |= {"directResponse": answer} if answer else {}
    return ModelPlan("jmanus", value, "steps", question=answer, columns=columns)


@st.composite
def nl2sql(draw: st.DrawFn) -> ModelPlan:
    steps = [
        {"step": place, "tool_to_use": "SQL_GENERATE_NODE", "tool_parameters": {"instruction": w}}
        for place, w in enumerate(words(draw(st.integers(1, 3))), start=1)
    ]
    return ModelPlan("spring", {"thought_process": "", "execution_plan": steps}, "execution_plan")


@st.composite
def openmanus(draw: st.DrawFn) -> ModelPlan:
    value = {"command": "create", "title": "g", "steps": words(draw(st.integers(1, 3)))}
    return ModelPlan("openmanus", value, "steps")


@st.composite
def sage(draw: st.DrawFn) -> ModelPlan:
    texts = words(draw(st.integers(1, 3)))
    steps = [{"type": "tool", "name": "call", "arguments": {"what": each}} for each in texts]
    return ModelPlan("sage", {"steps": [*steps, {"type": "reply", "text": "told"}]}, "steps")


@st.composite
def native(draw: st.DrawFn) -> ModelPlan:
    refuses, repeats = draw(st.booleans()), draw(st.booleans())
    steps = [
        {"id": f"a{place}", "kind": "agent", "agent": "desk", "task": each}
        for place, each in enumerate(words(draw(st.integers(1, 3))))
    ]
    value: Value = {"goal": "g", "steps": steps}
    if refuses:
        value[draw(st.sampled_from(["adequate", "enough_context", "has_enough_context"]))] = draw(
            st.sampled_from([*NO, *UNCLEAR])
        )
    if repeats:
        times = [{"daily_at": "09:30"}, {"daily_at": "25:99"}, {"every_minutes": "soon"}, "daily"]
        value["schedule"] = draw(st.sampled_from(times))
    return ModelPlan("", value, "steps", "context" * refuses, repeats)


PLANS: dict[str, st.SearchStrategy[ModelPlan]] = {
    "valuecell": valuecell(),
    "deerflow": research("deerflow"),
    "deepresearch": research("deepresearch"),
    "jmanus": jmanus(),
    "nl2sql": nl2sql(),
    "openmanus": openmanus(),
    "sage": sage(),
    "native": native(),
}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


JUNK: list[Any] = [5, None, [], {"foo": 1}, True, ["a", "b"]]


@st.composite
def damaged(draw: st.DrawFn, plans: st.SearchStrategy[ModelPlan]) -> tuple[ModelPlan, str]:
    """A plan, and a text of it as models damage it."""
    draft = draw(plans)
    value = json.loads(json.dumps(draft.value))
    steps = value[draft.steps]
    for junk in draw(st.lists(st.sampled_from(JUNK), max_size=2)):
        steps.insert(draw(st.integers(0, len(steps))), junk)
    draft, value = draw(foreign(draft, value))
    value = draw(bent(draft, value))
    wraps = [lambda v: v, lambda v: {"plan": v}, lambda v: {"answer": v}, lambda v: [v]]
    value = draw(st.sampled_from(wraps))(value)
    return draft, draw(st.sampled_from(TEXTS))(value)


@st.composite
def foreign(draw: st.DrawFn, draft: ModelPlan, value: Value) -> tuple[ModelPlan, Value]:
    """Adds what the format has no place for, as models do that know several."""
    if not draw(st.booleans()):
        return draft, value
    match draw(st.sampled_from(["refusal", "question", "schedule"])):
        case "refusal" if not draft.refusal and draft.shape != "valuecell":
            return draft._replace(refusal="adequate"), value | {"adequate": False}
        case "question" if not draft.question and draft.shape != "valuecell":
            asked = "Which account?"
            return draft._replace(question=asked), value | {"guidance_message": asked}
        case "schedule" if not draft.schedule and draft.shape not in ("", "valuecell"):
            config = {"schedule_config": {"interval_minutes": 5}}
            return draft._replace(schedule=True), value | config
        case _:
            return draft, value


@st.composite
def bent(draw: st.DrawFn, draft: ModelPlan, value: Value) -> Value:
    """Other spellings of names, a step without its text, steps as text."""
    match draw(st.sampled_from(["", "camel", "text", "emptied"])):
        case "camel":
            return {camel(name): each for name, each in value.items()}
        case "text" if draft.shape != "":
            return value | {draft.steps: json.dumps(value[draft.steps])}
        case "emptied":
            step = next((each for each in value[draft.steps] if isinstance(each, dict)), None)
            if step is not None and step != {"foo": 1}:
                step.pop(draw(st.sampled_from(sorted(step))))
            return value
        case _:
            return value


def prose(value: Any) -> str:
    return f"Here it is (see [1]):\n\n{json.dumps(value)}\n\nTell me."


def fenced(value: Any) -> str:
    return f"<think>maybe {{}}</think>```json\n{json.dumps(value, indent=1)}\n```"


def trailing(value: Any) -> str:
    return json.dumps(value).replace("}]", "},]")


def twice(value: Any) -> str:
    """The head is said again, the other way round."""
    text = json.dumps(value)
    return text[:-1] + ', "adequate": true}' if '"adequate": false' in text else text


def apart(value: Any) -> str:
    """The refusal stands in an object of its own."""
    flags = ("adequate", "has_enough_context", "enough_context")
    name = next((each for each in flags if isinstance(value, dict) and each in value), "")
    if not isinstance(value, dict) or value.get(name) is not False:
        return json.dumps(value)
    rest = {each: inner for each, inner in value.items() if each != name}
    return f'First: {{"{name}": false}}\n\nAnd the plan is: {json.dumps(rest)}'


TEXTS: list[Callable[[Any], str]] = [
    json.dumps,
    prose,
    fenced,
    str,  # as Python writes it
    trailing,
    twice,
    apart,
]


def notes_of(parsed: Reading) -> str:
    return " ".join(f"{each.message} {each.path}" for each in parsed.problems).lower()


def dropped(parsed: Reading) -> float:
    """Returns how many steps the problems name as left out or read in another way."""
    if any(each.code == "PS005" and each.path == ("tasks",) for each in parsed.problems):
        return math.inf
    return sum(each.code in ("PS014", "PS013", "PS004") for each in parsed.problems)


def is_held(plan: Plan) -> bool:
    """Whether a plan says itself that it must not run as it is."""
    return not plan.enough_context


def unkept(draft: ModelPlan, plan: Plan) -> Iterator[str]:
    """Yields the names of what a plan no longer says."""
    text = json.dumps(plan.to_json())
    if draft.refusal and not is_held(plan):
        yield draft.refusal
    if draft.schedule and plan.schedule is None:
        yield "schedule"
    if draft.question and draft.question not in text:
        yield "guidance_message"
    if draft.columns and draft.columns not in text:
        yield "terminate"


ALIASES = {
    "schedule": ("schedule", "pattern", "interval", "daily"),
    "guidance_message": ("guidance_message", "guidancemessage", "direct"),
    "adequate": ("adequate",),
    "has_enough_context": ("context",),
    "context": ("context", "adequate"),
    "terminate": ("terminate",),
}


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "recognised"])
@pytest.mark.parametrize("shape", PLANS)
def test_no_reading_of_a_dialect_loses_a_refusal_in_silence(shape: str, asked: bool) -> None:
    """Nor a step."""

    @given(case=damaged(PLANS[shape]))
    def holds(case: tuple[ModelPlan, str]) -> None:
        draft, text = case
        parsed = parse(text, shape=draft.shape if asked else "")
        if parsed.plan is None:
            assert has_errors(parsed.problems)
            return
        assert_each_word_is_kept_or_noted(draft, text, parsed, parsed.plan)
        assert_every_step_is_kept_or_told(text, parsed, parsed.plan)
        if draft.refusal and not has_errors(parsed.problems):
            assert is_held(parsed.plan), text
        if draft.refusal and draft.shape == "valuecell" and not has_errors(parsed.problems):
            assert_asked_first(parsed.plan)

    holds()


def assert_each_word_is_kept_or_noted(
    draft: ModelPlan, text: str, parsed: Reading, plan: Plan
) -> None:
    for name in unkept(draft, plan):
        if name == "terminate" and draft.columns not in text:
            continue  # the damage took it
        if name in ("schedule", "terminate") and dropped(parsed):
            continue  # it went with its step, which is told
        assert any(word in notes_of(parsed) for word in ALIASES[name]), (name, text, parsed)


def assert_every_step_is_kept_or_told(text: str, parsed: Reading, plan: Plan) -> None:
    there = json.dumps(plan.to_json())
    missing = [each for each in words(3) if each in text and each not in there]
    assert dropped(parsed) >= len(missing), (missing, text, parsed)
    junk = text.count('{"foo": 1}') + text.count("{'foo': 1}")
    assert not junk or has_errors(parsed.problems), (text, parsed)


def assert_asked_first(plan: Plan) -> None:
    """Nothing of the plan runs before the person has answered."""
    asks = [step.id for step in plan.steps if isinstance(step, AskStep)]
    others = [step.id for step in plan.steps if step.id not in asks]
    assert asks
    assert all(set(asks) & upstream(plan.needs, [name]) for name in others)
