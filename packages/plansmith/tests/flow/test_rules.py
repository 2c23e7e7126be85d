"""Rules of steps: repeats of lists, and stories whose process dies at every append."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import pytest
from tests.flow.plans import answered, approved, plan
from tests.property.test_running import Crash, MortalStore

from plansmith import Effect, Plan, Plansmith, RunStatus, ToolSpec
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import StepDone, verify_chain
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, Paused, next_move
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore, ScriptedModel
from plansmith_cli.replay import replay
from plansmith_planner.settings import PlannerSettings

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
    tools = FakeTools(FakeTool("list", [long]), FakeTool("act", [{"n": 1}], effect=Effect.WRITE))
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    rounds = {"until": {"equals": ["{{act.n}}", 1]}, "at_most": 5}
    acts = {"id": "act", "tool": "act", "inputs": {"of": "{{item.of}}"}, "repeat": rounds}
    repeat = {"until": {"empty": "{{all}}"}, "at_most": 2}
    wanted = plan(
        {"id": "list", "tool": "list"},
        {"id": "all", "over": "{{list}}", "each": acts, "most": 1, "repeat": repeat},
    )
    run = await approved(app, wanted, by="bob")
    [asked] = run.questions.values()
    assert "up to 30 times, for 3 items" in asked.text
    assert asked.times == 30
    run = await answered(app, run, asked.question, "allow")
    assert not run.questions
    assert len([call for call in tools.calls if call.tool == "act"]) == 6


@pytest.mark.parametrize("acts", [False, True])
async def test_a_no_inside_a_repeated_template_leaves_out_only_what_acts(acts: bool) -> None:
    """The word no is an answer where nothing that acts waits for it, in rounds as elsewhere."""
    app = Plansmith(tools=[Counts().tools()], limits=NO_WAIT, store=MemoryStore())
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


LONG = bool(os.environ.get("PLANSMITH_LONG"))
LIMITS = Limits(first_wait_s=0, data="show", grace_s=0.0)
NEVER = 10**9
MAX_TURNS = 200
LONG_PAUSE_S = 600
Step = dict[str, Any]


class Story(NamedTuple):
    """The steps of a plan, the template it uses, and what a person answers to its questions."""

    steps: list[Step]
    template: list[Step] = []
    parameters: dict[str, list[str]] = {}
    answers: dict[str, Json] = {}

    def plan(self, *more: Step) -> Plan:
        return Plan.model_validate({"goal": "test", "steps": [*self.steps, *more]})


class Shop:
    """The world outside, which outlives every process: how often each thing was done."""

    effects = {
        **dict.fromkeys(("stock", "poll", "fail"), Effect.READ),
        **dict.fromkeys(("order", "cancel", "press", "release", "pay"), Effect.WRITE),
    }
    keyed = frozenset({"press", "release"})

    def __init__(self) -> None:
        self.deeds: Counter[str] = Counter()
        self._keys: set[str] = set()

    async def tools(self) -> Sequence[ToolSpec]:
        return [
            ToolSpec(name=name, effect=effect, idempotent=name in self.keyed)
            for name, effect in self.effects.items()
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Answers by what was asked alone, so that a repeated call returns the same."""
        rounds = [int(part) for part in call.key.split("/")[:-1] if part.isdigit()]
        place = rounds[-1] if rounds else 0
        if tool == "stock":
            return {"count": 7}
        if tool == "poll":
            return {"state": "open" if place < 3 else "shipped"}
        if tool == "fail" or (tool == "pay" and arguments["x"] == 2):
            raise ToolFailed("no")
        if call.key not in self._keys or tool not in self.keyed:
            self.deeds[deed(tool, arguments)] += 1
        self._keys.add(call.key)
        if tool == "press":
            return {"n": place, "id": f"p{place}"}
        return {"id": f"o{arguments.get('x')}"}


def deed(tool: str, arguments: Mapping[str, Json]) -> str:
    return f"{tool} {json.dumps(arguments, sort_keys=True)}"


def order(name: str, x: Json, **rules: Any) -> Step:
    """A change without a key, which can be taken back."""
    undo = {"tool": "cancel", "inputs": {"x": x}}
    return {"id": name, "tool": "order", "inputs": {"x": x}, "undo_with": undo, **rules}


def press(name: str, most: int, **more: Any) -> Step:
    """A change with a key, in rounds; each round can be taken back by what it returned."""
    repeat = {"until": {"at_least": [f"{{{{{name}.n}}}}", 3]}, "at_most": most, **more}
    undo = {"tool": "release", "inputs": {"id": f"{{{{{name}.id}}}}"}}
    return {"id": name, "tool": "press", "repeat": repeat, "undo_with": undo}


def poll(most: int, **more: Any) -> Step:
    """A read in rounds; its third round is the last."""
    until = {"equals": ["{{poll.state}}", "shipped"]}
    return {"id": "poll", "tool": "poll", "repeat": {"until": until, "at_most": most, **more}}


STOCK: Step = {"id": "stock", "tool": "stock"}
LOW = {"below": ["{{stock.count}}", 10]}
HIGH = {"not": LOW}
PAY: Step = {
    "tool": "pay",
    "inputs": {"x": "{{item}}"},
    "undo_with": {"tool": "cancel", "inputs": {"x": "{{item}}"}},
}
NO_ID = {"value": {"id": "none"}}
ADDED = order("added", 99)
# A step that fails for good, so that a model is asked for another plan.
FAILING: Step = {"id": "failing", "tool": "fail"}

STORIES: dict[str, Story] = {
    "a condition that holds": Story(
        [STOCK, order("a", 1, when=LOW), order("b", 2, after=["a"]), order("c", 3, when=HIGH)]
    ),
    "branches that join, a value for a skipped step, and an answer that decides": Story(
        [
            STOCK,
            {"id": "sure", "question": "Two more?", "options": ["yes", "no"]},
            order("a", 1, when=HIGH, otherwise=NO_ID),
            order("b", 2, when={"equals": ["{{sure}}", "yes"]}),
            order("c", 3, when={"equals": ["{{sure}}", "no"]}),
            {"id": "told", "say": "{{a.id}}"},
            {"id": "joined", "tool": "stock", "inputs": {"of": {"$first": ["{{c}}", "{{sure}}"]}}},
        ],
        answers={"sure": "yes"},
    ),
    "rounds at once": Story([poll(5), order("a", 1, after=["poll"])]),
    "rounds with long pauses": Story(
        [poll(5, every=LONG_PAUSE_S), order("a", 1, when={"not": {"empty": "{{poll.state}}"}})]
    ),
    "rounds of a keyed change": Story([press("press", 4, every=LONG_PAUSE_S), order("a", 1)]),
    "rounds that never end well": Story(
        [
            {**poll(2, every=LONG_PAUSE_S), "on_error": "skip"},
            order("a", 1),
            order("b", 2, after=["poll"]),
            {"id": "told", "say": "{{poll.state}}, after {{stock.count}}"},
            STOCK,
        ]
    ),
    "collected errors of changes": Story(
        [
            {"id": "all", "over": [1, 2, 3], "each": PAY, "on_error": "collect", "width": 2},
            {"id": "told", "say": "{{all[1].error.message}}"},
            order("a", 9, after=["all"]),
        ]
    ),
    "items that are skipped and retried": Story(
        [
            {
                "id": "all",
                "over": [1, 2, 3, 4],
                "each": {
                    **PAY,
                    "on_error": "skip",
                    "retry": {"at_most": 1, "every": LONG_PAUSE_S},
                    "when": {"not_equals": ["{{item}}", 4]},
                },
            }
        ]
    ),
    "rounds of a list and of each of its items": Story(
        [
            {
                "id": "all",
                "over": ["x", "y"],
                "width": 1,
                "each": {**press("press", 4), "inputs": {"of": "{{item}}"}},
                "repeat": {
                    "until": {"equals": ["{{all[1].n}}", 3]},
                    "at_most": 2,
                    "every": LONG_PAUSE_S,
                },
            }
        ]
    ),
    "a template with rules that is repeated": Story(
        [
            {
                "id": "buy",
                "template": "inner",
                "repeat": {"until": {"equals": ["{{buy.look.state}}", "shipped"]}, "at_most": 3},
            },
            order("a", 1, when={"equals": ["{{buy.few}}", "none"]}),
            {"id": "told", "say": "{{buy.press.id}}"},
        ],
        [
            STOCK,
            {"id": "look", "tool": "poll"},
            {"id": "few", "tool": "stock", "when": HIGH, "otherwise": {"value": "none"}},
            {key: value for key, value in press("press", 1).items() if key != "repeat"},
        ],
    ),
    "templates for the items of a list": Story(
        [
            {
                "id": "all",
                "over": [1, 2, 3],
                "each": {
                    "template": "inner",
                    "inputs": {"x": "{{item}}"},
                    "when": {"not_equals": ["{{item}}", 3]},
                },
                "on_error": "collect",
            },
            {**order("a", 9), "when": {"equals": [{"length": "{{all}}"}, 2]}},
        ],
        [
            STOCK,
            order("few", 0, when=LOW),
            order("many", 50, when=HIGH, otherwise=NO_ID),
            {"id": "tell", "say": "{{stock.count}} {{many.id}}", "after": ["few"]},
        ],
        parameters={"x": ["few.inputs.x", "few.undo_with.inputs.x"]},
    ),
}


class Household:
    """A person, a shop and a store; the person decides by what the shop has done."""

    def __init__(self, story: Story, kind: str) -> None:
        self.story, self.kind = story, kind
        self.shop, self.clock, self.store = Shop(), FakeClock(), MortalStore()
        self.app = self.started()

    def started(self) -> Plansmith:
        drafted = {"goal": "test", "steps": self.story.plan(ADDED).to_json()["steps"]}
        return Plansmith(
            model=ScriptedModel(drafted) if self.kind == "replan" else None,
            tools=[self.shop],
            store=self.store,
            clock=self.clock,
            limits=LIMITS,
            settings=PlannerSettings(triage=False),
        )

    async def dies_at(self, append: int, *, written: bool) -> bool:
        """Lives until that append, which is durable or not; tells whether it came so far."""
        self.store.appends_left, self.store.durable_first = append, written
        try:
            await self.live()
        except Crash:
            return True
        finally:
            self.store.appends_left = NEVER
        return False

    async def live(self, *, edits: bool = False) -> None:
        """Goes on with what there is, to the end of the run and of what takes it back."""
        self.app = self.started()
        known = [each for each in await self.store.runs() if "-undo" not in each]
        first = known[0] if known else await self._submitted()
        if edits:
            await self._edit(first)
        run = await self._ended(first)
        undo = f"{run.id}-undo1"
        if undo not in await self.store.runs():
            await self.app.runs.undo_effects(run.id, by="ada")
        await self._ended(undo)

    async def _submitted(self) -> str:
        if self.story.template and not await self.app.templates.all():
            inner = Story(self.story.template).plan()
            await self.app.templates.save(inner, "inner", parameters=self.story.parameters)
        more = [FAILING] if self.kind == "replan" else []
        return (await self.app.submit(self.story.plan(*more), by="bob")).id

    async def _edit(self, run_id: str) -> None:
        run = await self.app.get(run_id)
        if run.status.over or run.plan is None or "added" in run.plan.by_id:
            return
        if run.phase is RunStatus.RUNNING and not run.paused:
            await self.app.pause(run_id, by="ada")
        steps = (*run.plan.steps, *Story([ADDED]).plan().steps)
        await self.app.edit(run_id, run.plan.replace(steps=steps), by="ada")

    async def _ended(self, run_id: str) -> Run:
        """Decides, answers and lets time pass until a run is over."""
        for _ in range(MAX_TURNS):
            run = await self.app.get(run_id)
            if run.status.over:
                return run
            if run.questions:
                asked = next(iter(run.questions.values()))
                answer = await self._answer(run, asked.question, asked.step or "")
                await self.app.answer(run_id, asked.question, answer, by="ada")
            match next_move(await self.app.get(run_id)):
                case AwaitReview(hash=plan_hash):
                    await self.app.decide(run_id, approve=plan_hash, by="ada")
                case Paused():
                    await self.app.resume(run_id, by="ada")
                case _ if run.wakes_at is not None and run.wakes_at > self.clock.now():
                    await self.clock.advance((run.wakes_at - self.clock.now()).total_seconds())
                case _:
                    pass
            await self.app.runs.run(run_id, parks=True)
        raise AssertionError(f"run {run_id} does not end")

    async def _answer(self, run: Run, question: str, step: str) -> Json:
        if not question.startswith("unknown:"):
            return self.story.answers[question]
        given = cast("Mapping[str, Json]", await self.store.get(run.steps[step].inputs))
        if not self.shop.deeds[deed(run.steps[step].callee, given)]:
            return "retry"
        return {"done": {"id": f"o{given.get('x')}"}}

    async def outcome(self) -> dict[str, Any]:
        """What the shop did, and what the journals say."""
        found: dict[str, Any] = {"deeds": +self.shop.deeds}
        for run_id in await self.store.runs():
            events = list(await self.store.events(run_id))
            verify_chain(events)
            done = [each.body.step for each in events if isinstance(each.body, StepDone)]
            assert len(done) == len(set(done))
            run = await self.app.get(run_id)
            found["undo" if "-undo" in run_id else "run"] = {
                "status": run.status,
                "steps": {
                    name: (each.status, each.rule, each.result) for name, each in run.steps.items()
                },
            }
        return found


async def lived(name: str, kind: str) -> dict[str, Any]:
    """How a story ends whose process never dies."""
    calm = Household(STORIES[name], kind)
    await calm.live(edits=kind == "edit")
    return await calm.outcome()


# An ordinary run edits and replans every third story, each kind others.
CASES = [
    (name, kind)
    for place, name in enumerate(STORIES)
    for offset, kind in enumerate(("kill", "edit", "replan"))
    if LONG or kind == "kill" or place % 3 == offset
]


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_a_story_with_rules_ends_alike_wherever_its_process_is_killed(
    name: str, kind: str
) -> None:
    """With `edit` a person changes the plan before it goes on, with `replan` a model does."""
    expected, append, died = await lived(name, kind), [*STORIES].index(name) % 3, True
    while died:
        # Before and after each append where there is time, else in turn and at every third.
        for written in (False, True) if LONG else (append % 4 < 2,):
            house = Household(STORIES[name], kind)
            died = await house.dies_at(append, written=written)
            if died:
                await house.live(edits=kind == "edit")
                found = await house.outcome()
                late = kind == "edit" and "added" not in found["run"]["steps"]
                assert late or found == expected, f"killed at append {append}, written: {written}"
        append += 1 if LONG else 3
    assert append > 3


@pytest.mark.parametrize("seed", range(20 if LONG else 1))
@pytest.mark.parametrize("name", STORIES)
async def test_a_story_whose_processes_die_again_and_again_ends_alike(name: str, seed: int) -> None:
    house, deaths = Household(STORIES[name], "kill"), random.Random(f"{name} {seed}")
    for _ in range(8):
        await house.dies_at(deaths.randrange(1, 9), written=deaths.random() < 0.5)
    await house.live()
    assert await house.outcome() == await lived(name, "kill")
