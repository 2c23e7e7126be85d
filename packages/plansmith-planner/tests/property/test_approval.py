"""From an approved plan and any revision by a model that means ill: nothing unapproved happens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.flow.smiths import NO_TRIAGE, plan_of

from plansmith import Effect, Plan, RunStatus, ToolSpec
from plansmith.app import Plansmith
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json, canonical_json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith.testing import MemoryStore, ScriptedModel

WHO = ["alice", "bob", "mallory"]
TOOLS = {"find": Effect.READ, "check": Effect.READ, "pay": Effect.FINAL, "save": Effect.WRITE}
CallMade = tuple[str, bytes]


class World:
    """Tools that answer by their arguments alone, so that a value tells where it came from."""

    def __init__(self, failures: Mapping[str, int] | None = None) -> None:
        self.failures = dict(failures or {})
        self.made: list[tuple[CallMade, frozenset[str]]] = []
        self.answered: set[str] = set()

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name=name, effect=effect) for name, effect in TOOLS.items()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del call
        if self.failures.get(tool, 0) > 0:
            self.failures[tool] -= 1
            raise ToolFailed("nothing was changed")
        if TOOLS[tool] is not Effect.READ:
            made = tool, canonical_json(dict(arguments))
            self.made.append((made, frozenset(self.answered)))
        found = f"{tool} {canonical_json(dict(arguments)).decode()}"
        return {"v": found, "items": [f"{found} 1", f"{found} 2"]}

    def writes(self) -> Counter[CallMade]:
        return Counter(made for made, _ in self.made)


def template(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "template", "steps": list(steps)})


TEMPLATES = {
    "transfer": template(
        {"id": "look", "tool": "find", "inputs": {"name": "{{params.to}}"}},
        {"id": "pay", "tool": "pay", "inputs": {"to": "{{params.to}}", "at": "{{look.v}}"}},
    ),
    "many": template(
        {
            "id": "m",
            "over": ["x", "{{params.to}}"],
            "each": {"template": "transfer"} | {"inputs": {"to": "{{item}}"}},
        }
    ),
    "evil": template({"id": "pay", "tool": "pay", "inputs": {"to": "mallory"}}),
}


@st.composite
def values(draw: Any, reads: list[str]) -> Json:
    """A person's name, or what an earlier step brought."""
    if reads and draw(st.booleans()):
        return "{{" + str(draw(st.sampled_from(reads))) + ".v}}"
    return str(draw(st.sampled_from(WHO)))


@st.composite
def drafts(draw: Any) -> dict[str, Any]:
    """A plan of reads, writes, questions, maps and templates that use each other."""
    steps: list[dict[str, Any]] = []
    reads: list[str] = []
    for number in range(draw(st.integers(2, 6))):
        name, ids = f"s{number}", [each["id"] for each in steps]
        value = draw(values(reads))
        kinds = ["find", "check", "pay", "save", "ask", "map", "template", "each"]
        match draw(st.sampled_from(kinds)):
            case "ask":
                made: dict[str, Any] = {"question": f"Really {draw(st.sampled_from(WHO))}?"}
            case "map":
                over = "{{" + draw(st.sampled_from(reads)) + ".items}}" if reads else [value]
                inputs = {"to": "{{item}}", "n": number}
                made = {"over": over, "each": {"tool": "pay", "inputs": inputs}}
            case "each":
                use = {"template": "transfer", "inputs": {"to": "{{item}}"}}
                made = {"over": [value], "each": use}
            case "template":
                named = draw(st.sampled_from(["transfer", "many"]))
                made = {"template": named, "inputs": {"to": value}}
            case tool:
                made = {"tool": tool, "inputs": {"to": value}}
                reads += [name] if tool in ("find", "check") else []
        made["after"] = draw(st.lists(st.sampled_from(ids), max_size=2, unique=True)) if ids else []
        steps.append({"id": name, **made})
    return {"goal": "approved", "steps": steps}


Steps = list[dict[str, Any]]


def other_argument(steps: Steps, step: dict[str, Any], word: str) -> None:
    if "inputs" in step:
        step["inputs"] = step["inputs"] | {"to": word}


def other_list(steps: Steps, step: dict[str, Any], word: str) -> None:
    if "over" in step:
        step["over"] = [word, word]


def other_question(steps: Steps, step: dict[str, Any], word: str) -> None:
    if "question" in step:
        step["question"] = "Fine?"


def no_order(steps: Steps, step: dict[str, Any], word: str) -> None:
    step["after"] = []


def dropped(steps: Steps, step: dict[str, Any], word: str) -> None:
    if len(steps) > 1:
        steps.remove(step)
        for each in steps:
            each["after"] = [name for name in each["after"] if name != step["id"]]


def doubled(steps: Steps, step: dict[str, Any], word: str) -> None:
    steps.append(deepcopy(step) | {"id": f"copy{len(steps)}"})


def other_template(steps: Steps, step: dict[str, Any], word: str) -> None:
    if "template" in step:
        step["template"] = {"alice": "many", "bob": "transfer"}.get(word, "evil")


def switched_off(steps: Steps, step: dict[str, Any], word: str) -> None:
    step["disabled"] = True


def renamed(steps: Steps, step: dict[str, Any], word: str) -> None:
    old, new = step["id"], f"other{len(steps)}_{step['id']}"
    text = json.dumps(steps).replace("{{" + old + ".", "{{" + new + ".")
    steps[:] = json.loads(text.replace(f'"{old}"', f'"{new}"'))


def added(steps: Steps, step: dict[str, Any], word: str) -> None:
    inputs = {"to": word, "n": 99}
    steps.append({"id": f"more{len(steps)}", "tool": "pay", "inputs": inputs, "after": []})


CHANGES = [
    *(other_argument, other_list, other_question, no_order, dropped, doubled, other_template),
    *(switched_off, renamed, added),
]


@st.composite
def revisions(draw: Any, base: dict[str, Any]) -> dict[str, Any]:
    """The plan again, with one to three changes that somebody would like to go unseen."""
    steps: Steps = deepcopy(base["steps"])
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from(CHANGES))
        change(steps, draw(st.sampled_from(steps)), draw(st.sampled_from(WHO)))
    return {"goal": "something else", "steps": steps}


@st.composite
def stories(draw: Any) -> dict[str, Any]:
    base = draw(drafts())
    names = st.sampled_from(list(TOOLS))
    return {
        "base": base,
        "revisions": [draw(revisions(base)) for _ in range(draw(st.integers(1, 3)))],
        "failures": draw(st.dictionaries(names, st.integers(1, 2), min_size=1, max_size=2)),
        "restarts": draw(st.booleans()),
    }


def smith(world: World, store: MemoryStore, model: ScriptedModel | None = None) -> Plansmith:
    limits = Limits(first_wait_s=0, tries=1, data="show")
    return Plansmith(
        tools=[world],
        store=store,
        model=model,
        limits=limits,
        settings=NO_TRIAGE,
        templates=TEMPLATES,
    )


async def answer(app: Plansmith, world: World, run: Run, but: str = "") -> bool:
    """Answer one open question of the plan, never the one that is held back."""
    for question in run.questions.values():
        if question.kind == "step" and question.text != but:
            world.answered.add(question.text)
            await app.answer(run.id, question.question, "yes", by="ada")
            return True
        if question.kind == "limit":
            await app.answer(run.id, question.question, "stop", by="ada")
            return True
    return False


async def ideal(plan: Plan, but: str = "") -> Counter[CallMade]:
    """The writes a plan makes when nothing fails; with one question never answered, the rest."""
    world, store = World(), MemoryStore()
    app = smith(world, store)
    run = await app.submit(plan)
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=plan_of(run).hash, by="ada")
    run = await app.runs.run(run.id)
    while not run.status.over and await answer(app, world, run, but):
        run = await app.runs.run(run.id)
    return world.writes()


@given(stories())
async def test_no_write_beyond_the_approval_is_made_whatever_a_model_revises(
    story: dict[str, Any],
) -> None:
    """A person approves the first plan, answers its questions, and nothing more."""
    world, store = World(story["failures"]), MemoryStore()
    model = ScriptedModel(story["base"], *story["revisions"])
    app = smith(world, store, model)
    run = await app.plan("do it", by="ada")
    assume(not plan_of(run).degraded)  # the draft was no plan: nothing is approved
    plan = plan_of(run)
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=plan.hash, by="ada")
    run = await app.runs.run(run.id)
    while not run.status.over and await answer(app, world, run):
        if story["restarts"]:
            app = smith(world, store, model)
        run = await app.runs.run(run.id)
    await smith(world, store, model).runs.resume_all()
    seen = await ideal(plan)
    made = world.writes()
    assert made <= seen, (made - seen, seen)
    if run.status is RunStatus.DONE:
        assert made == seen
    assert plan_of(run).goal == plan.goal
    for question in {str(s.to_json().get("question", "")) for s in plan.steps} - {""}:
        free = await ideal(plan, but=question)
        unasked = Counter(each for each, known in world.made if question not in known)
        assert unasked <= free, (question, unasked - free)


@given(stories())
async def test_every_write_is_of_a_plan_that_a_person_approved(story: dict[str, Any]) -> None:
    """A person who approves everything approves it first, and sees what is not done."""
    world, store = World(story["failures"]), MemoryStore()
    model = ScriptedModel(story["base"], *story["revisions"])
    app = smith(world, store, model)
    run = await app.plan("do it", by="ada")
    assume(not plan_of(run).degraded)
    seen: set[CallMade] = set()
    for _ in range(40):
        if run.status is RunStatus.REVIEWING:
            assert plan_of(run) is not None
            seen |= set(await ideal(plan_of(run))) | set(world.writes())
            await app.decide(run.id, approve=plan_of(run).hash, by="ada")
        elif run.status.over or (run.questions and not await answer(app, world, run)):
            break
        before = set(world.writes())
        run = await app.runs.run(run.id)
        assert set(world.writes()) - before <= seen
    assert run.status.over
    if run.drops_approved:
        assert run.status is not RunStatus.DONE
        assert "Not done, although it was approved" in run.report
