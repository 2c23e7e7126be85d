"""Prose of models is no plan, in no format and behind no interface; plans in prose are read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plansmith import AgentSpec, Effect
from plansmith.plan.data import Json
from plansmith.ports import Call
from plansmith.testing import ScriptedModel
from plansmith_cli.commands.plans import read_foreign
from plansmith_compat.deerflow import DeerFlow, Goto, parse_plan, run_agent_workflow_async
from plansmith_compat.deerflow.configuration import Configuration
from plansmith_compat.openmanus import PlanningFlow
from plansmith_compat.sage import AgentRuntime, LLMPlanner
from plansmith_compat.sage.planner import coerce_json_array
from plansmith_compat.spring import keys
from plansmith_compat.spring.deepresearch import InformationNode
from plansmith_compat.spring.jmanus import JManus
from plansmith_planner.dialect import dialect_names
from plansmith_planner.parse.reply import parse

WORDS = (
    *("I", "am", "sorry", "but", "cannot", "buy", "100", "shares", "see", "our", "policy", "note"),
    *("report", "is", "missing", "which", "file", "do", "you", "mean", "steps", "plan", "title"),
    *("name", "agent", "text", "Oslo"),
)
PHRASE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
WORD = st.sampled_from(WORDS)
AROUND = (
    "[{}]", "{{{}}}", '"{}"', "'{}'", "“{}”", "`{}`", "`[{}]`", "`{{{}}}`", "({})", "<{}>",
    "{{{{{}}}}}", "[{}](https://example.com)", "\n- [ ] {}\n- [x] {}\n", "\n1. {}\n2. {}\n",
    "\n```\n{}\n```\n", "【{}】", "「{}」", "［{}］", "[[{}]]", "[{}, {}]", '["{}", "{}"]',
    '\n```json\n["{}", "{}"]\n```\n', "[1]", "[1, 2]", "[]", "{{}}", "[", "{{", '"', "]", "}}",
    "{{note: {}}}", '{{"see": "{}"}}', "[{{note: {}}}]", "\n{}: {}\n", "{{title: {}}}",
    "{{steps: {}}}", "[{{text: {}}}]",
)  # fmt: skip


@st.composite
def prose(draw: st.DrawFn) -> str:
    """Sentences with all that looks like data: brackets, quotes, code, lists."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        parts.append(draw(PHRASE))
        form = draw(st.sampled_from(AROUND))
        parts.append(form.format(draw(PHRASE), draw(WORD)))
    return " ".join([*parts, draw(PHRASE)]) + draw(st.sampled_from([".", "?", "", ":", "！"]))


REFUSALS = (
    'Sorry, "buy 100 shares" is not something I can do.',
    "See [our policy].",
    "I cannot do {this}. Which file do you mean, `a.csv` or `b.csv`?",
    'As noted in [1], the list ["buy", "sell"] is not allowed here.',
    "抱歉，我不能【购买股票】。请看［政策］。",
    "1. I need the file.\n2. I need [your name].",
)


@given(text=prose())
@example(text=REFUSALS[0])
@example(text='["buy 100 shares", "sell them"]')
@example(text='```json\n["buy 100 shares"]\n```')
@example(text='"buy 100 shares"')
@example(text="[{}]")
def test_prose_is_a_plan_in_no_format(text: str) -> None:
    for shape in ("", *dialect_names()):
        assert parse(text, goal="g", shape=shape).plan is None, shape
        assert read_foreign(text.encode(), shape or None).plan is None, shape
    assert parse_plan(text) is None
    assert all(isinstance(each, dict) for each in coerce_json_array(f"so: {text}") or ())


class Worker:
    """An agent of any name that keeps its tasks."""

    def __init__(self, name: str = "coder") -> None:
        self.spec = AgentSpec(name=name, effect=Effect.READ)
        self.name, self.description, self.tasks = name, name, list[str]()

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        self.tasks.append(task)
        return "done"

    async def run(self, request: str) -> str:
        self.tasks.append(request)
        return "done"


def sentences(count: int = 4) -> list[str]:
    """Returns refusals, and sentences that differ from one another in their marks."""
    dice = random.Random(34)
    forms = [each.format("buy 100 shares", "Oslo") for each in dice.sample(AROUND, count)]
    return [*REFUSALS, *(f"I am sorry, {each} is missing." for each in forms)]


@pytest.mark.parametrize("text", sentences(), ids=str)
async def test_prose_is_run_behind_no_interface_and_reaches_the_person(text: str) -> None:
    beginning = " ".join(text.split())[:20]
    agent = Worker("x")
    flow = PlanningFlow({"x": agent}, model=ScriptedModel(*[text] * 3, "sum"))
    answer = await flow.execute("buy 100 shares")
    assert "Plan completed" not in answer
    assert "default plan" in answer
    assert beginning in " ".join(answer.split())
    run = await flow.run()
    assert run.plan is not None
    assert [step.title for step in run.plan.steps] == [
        *("Analyze request", "Execute task", "Verify results")
    ]
    team = [Worker(name) for name in ("researcher", "coder", "analyst")]
    hand_over = {"decision": "plan", "reason": "r", "query": "q"}
    given: dict[str, Any] = {"model": ScriptedModel(hand_over, *[text] * 3), "agents": team}
    deer = DeerFlow(configuration=Configuration(auto_accepted_plan=True), **given)
    state = await deer.start("buy 100 shares")
    assert (state.goto, state.plan) == (Goto.END, None)
    assert beginning in " ".join(" ".join(state.errors).split())
    given["model"], seen = ScriptedModel(hand_over, *[text] * 3), list[str]()
    last = await run_agent_workflow_async("buy 100 shares", show=seen.append, **given)
    assert last["current_plan"] is None
    assert beginning in " ".join(" ".join(seen).split())
    jmanus = JManus(model=ScriptedModel(hand_over, *[text] * 3), agents=[Worker("DEFAULT_AGENT")])
    run = await jmanus.request("buy 100 shares")
    assert run.plan is None
    assert beginning in " ".join(run.reason.split())
    for accepted in (True, False):
        found: dict[str, Any] = {keys.PLANNER_CONTENT: text, keys.AUTO_ACCEPTED_PLAN: accepted}
        found[keys.MAX_PLAN_ITERATIONS] = 0
        assert (await InformationNode().apply(found))[keys.INFORMATION_NEXT_NODE] == keys.END
    assert [worker.tasks for worker in team] == [[], [], []]


@pytest.mark.parametrize("text", sentences(), ids=str)
def test_a_refusal_of_a_model_is_the_reply_of_sage(text: str) -> None:
    planner = LLMPlanner(generator=ScriptedModel(text, text))
    tools = {"look": {"description": "look", "input_schema": {"type": "object"}}}
    assert planner.plan("", "buy 100 shares", tools) == [{"type": "reply", "text": text}]
    runtime = AgentRuntime(planner=LLMPlanner(generator=ScriptedModel(text, text)))
    assert text in str(runtime.execute({"query": "buy 100 shares"}))


PLANS: dict[str, Json] = {
    "": {"goal": "g", "steps": [{"id": "a", "tool": "look", "inputs": {"at": "[Oslo]"}}]},
    "sage": [{"type": "tool", "name": "look", "arguments": {"at": "[Oslo]"}}],
    "valuecell": {
        "tasks": [{"title": "T", "query": "look [now]", "agent_name": "a", "pattern": "once"}],
        "adequate": True,
    },
    "openmanus": {"title": "T", "steps": ["[a] look", "say {it}"]},
    "deerflow": {
        "has_enough_context": False,
        "title": "T",
        "thought": "see [1]",
        "steps": [
            {"need_web_search": True, "title": "t", "description": "d", "step_type": "research"}
        ],
    },
    "spring": {
        "thought_process": "t",
        "execution_plan": [
            {"step": 1, "tool_to_use": "SQL_GENERATE_NODE", "tool_parameters": {"instruction": "i"}}
        ],
    },
    "jmanus": {"title": "T", "steps": [{"stepRequirement": "[A] look at [it]"}]},
    "deepresearch": {
        "hasEnoughContext": False,
        "title": "T",
        "steps": [{"title": "t", "description": "d", "step_type": "processing"}],
    },
}
Wrapping = Callable[[str], str]
WRAPPINGS: list[Wrapping] = [
    lambda plan: plan,
    lambda plan: f"```json\n{plan}\n```",
    lambda plan: f"```\n{plan}\n```",
    lambda plan: f"~~~\n{plan}\n~~~",
    lambda plan: f"Here you are: {plan}",
    lambda plan: f"{plan}\n\nDo you agree with [this]?",
    lambda plan: f"As [our policy] says, {{note}} first:\n{plan}\nAnd that is it.",
    lambda plan: f"<think>I could use [a word] or {{this}}.</think>{plan}",
    lambda plan: f'He said "please do it".\n```json\n{plan}\n```\n1. See [above].',
    lambda plan: f"\ufeff{plan}  \n",
    lambda plan: plan.replace('"', "'"),
    lambda plan: plan[:-1],
    lambda plan: f'{{"plan": {plan}}}',
]


@pytest.mark.parametrize("wrap", WRAPPINGS, ids=range(len(WRAPPINGS)))
@pytest.mark.parametrize("shape", PLANS, ids=lambda name: name or "native")
def test_a_plan_in_any_wrapping_is_read(shape: str, wrap: Wrapping) -> None:
    plain = parse(json.dumps(PLANS[shape]), goal="g", shape=shape).plan
    assert plain is not None
    assert plain.steps
    found = parse(wrap(json.dumps(PLANS[shape])), goal="g", shape=shape).plan
    assert found is not None
    assert [step.to_json() for step in found.steps] == [step.to_json() for step in plain.steps]
