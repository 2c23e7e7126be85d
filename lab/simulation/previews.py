"""What must hold of previews: nothing before the yes, and after it exactly what was shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lab.simulation.plans import WRITES, Effect, Facts, uses_data
from plansmith import Plan, Run, RunStatus, StepStatus
from plansmith.plan import events as e
from plansmith.plan.data import canonical_json
from plansmith.plan.fold import fold
from plansmith.plan.graph import downstream
from plansmith.plan.ids import parent_of, root_of
from plansmith.plan.plan import differ
from plansmith.plan.steps import ToolStep

if TYPE_CHECKING:
    from lab.simulation.world import World


def check_previews(world: World, events: Sequence[e.Event]) -> Facts:
    """Reads a journal; returns what its looks found and what its approvals changed."""
    seen = _Seen(world, events[0].run)
    for event in events:
        seen.take(event)
    return seen.end(fold(events))


def effect_of(callee: str, inputs: Any) -> Effect:
    """Returns how an effect is known."""
    return callee, str(inputs.get("id", inputs.get("task")))


class _Seen:
    """What a person has seen and said, and what reads found, as a journal tells it.

    Most events that matter have a method of the same name.
    """

    def __init__(self, world: World, run: str) -> None:
        self._world, self._run = world, run
        self._plan = Plan()
        self._previewed_at: datetime | None = None
        self._shown: dict[str, dict[str, Any]] = {}
        self._approved: e.PlanApproved | None = None
        self._started_at = 0
        self._is_revised = False
        # By step: the inputs of calls that a person agreed to, by an approval or an answer.
        self._agreed: dict[str, Any] = {}
        self._allowed: dict[str, list[str]] = defaultdict(list)
        self._asked: dict[str, e.QuestionAsked] = {}
        self._refused: dict[Effect, str] = {}
        # The results of reads; those that a preview made, that were given, that have to come again.
        self._reads: dict[str, str] = {}
        self._looked: set[str] = set()
        self._given: set[str] = set()
        self._stale: set[str] = set()
        self._is_under_way = False
        # Effects that were left out or got another id, by step; and the steps where that is over.
        self._left: dict[str, Effect] = {}
        self._changed: dict[str, tuple[Effect, str]] = {}
        self._settled: set[str] = set()
        self._reused: dict[str, set[str]] = defaultdict(set)

    def _fail(self, event: e.Event, why: str) -> None:
        self._world.fail(f"{self._run}, event {event.number}: {why}")

    def take(self, event: e.Event) -> None:
        """Read on."""
        read = getattr(self, event.body.type, None)
        if read is not None:
            read(event, event.body)

    def plan_proposed(self, _: e.Event, body: e.PlanProposed) -> None:
        before, self._plan = self._plan, body.plan
        self._shown, self._is_revised = {}, True
        for step in [*self._reads, *self._stale]:
            root = root_of(step)
            old, new = before.by_id.get(root), body.plan.by_id.get(root)
            if old is None or new is None or differ(old, new):
                self._forget([step])

    def preview_started(self, event: e.Event, body: e.PreviewStarted) -> None:
        if self._is_under_way or self._previewed_at is None:
            self._previewed_at, self._is_under_way = event.at, False
        again = {*body.given, *downstream(self._plan.needs, [*body.given])}
        self._forget([step for step in self._looked if root_of(step) in again])
        self._reads |= body.given
        self._given |= {*body.given}
        self._stale -= {*body.given}
        self._looked |= {*body.given}

    def preview_made(self, _: e.Event, body: e.PreviewMade) -> None:
        calls = self._world.value(body.content).get("calls", ())
        self._shown = {each["step"]: each for each in calls}

    def run_started(self, event: e.Event, _: e.RunStarted) -> None:
        """Reads are made again: what was given stays only where a person saw what follows."""
        self._started_at, approved = self._started_at or event.number, self._approved
        keeps = self._given if approved is not None and approved.preview else set[str]()
        if (approved is not None and approved.fresh) or self._given - keeps:
            self._stale |= self._looked - keeps
            self._reads = {k: each for k, each in self._reads.items() if k not in self._stale}
        self._given, self._looked, self._is_under_way = set(), set(), True

    def step_done(self, _: e.Event, body: e.StepDone) -> None:
        if body.step in self._changed:
            self._settled.add(body.step)
        if not self._is_look(body.step):
            return
        self._reads[body.step] = body.result
        self._stale.discard(body.step)
        if self._previewed_at is not None and not self._is_under_way:
            self._looked.add(body.step)

    def step_reused(self, _: e.Event, body: e.StepReused) -> None:
        if body.run != self._run:
            self._reused[body.run].add(body.step)
        if self._is_look(body.step):
            self._reads[body.step] = body.result

    def step_failed(self, _: e.Event, body: e.StepFailed) -> None:
        if self._is_look(body.step) and not self._is_under_way:  # all its rounds come again
            self._forget([each for each in self._reads if each.startswith(f"{body.step}/")])

    def step_skipped(self, _: e.Event, body: e.StepSkipped) -> None:
        if body.rule == "left_out":
            self._settled.add(body.step)

    def step_reset(self, _: e.Event, body: e.StepReset) -> None:
        self._forget([body.step])
        if not body.same_call:
            self._agreed.pop(body.step, None)
            self._settled.discard(body.step)

    def _forget(self, steps: Collection[str]) -> None:
        for step in steps:
            self._reads.pop(step, None)
            for each in (self._given, self._looked, self._stale):
                each.discard(step)

    def plan_approved(self, event: e.Event, body: e.PlanApproved) -> None:
        self._approved, self._is_revised = body, False
        shown = self._shown if body.preview else {}
        if body.preview and self._previewed_at is None:
            self._fail(event, "approves a preview that nobody made")
        self._agreed = {name: each["inputs"] for name, each in shown.items()} | body.changed
        self._refused = {}
        self._left = {k: v for k, v in self._left.items() if k in self._settled}
        before, self._changed = self._changed, {}
        for name, (effect, new) in before.items():
            is_shown = name in shown and effect_of(effect[0], shown[name]["inputs"])[1] == new
            if name in self._settled or is_shown:
                self._changed[name] = effect, new
        for name in {*body.left_out, *body.changed} & shown.keys():
            given: Any = None if name in body.left_out else body.changed[name]
            self._leave_or_change(name, shown[name], given)

    def _leave_or_change(self, name: str, call: dict[str, Any], new: Any) -> None:
        effect = effect_of(call["callee"], call["inputs"])
        self._refused[effect] = name
        if new is None:
            self._left[name] = effect
            del self._agreed[name]
        else:
            first = self._changed[name][0] if name in self._changed else effect
            self._changed[name] = first, effect_of(call["callee"], new)[1]

    def _has_moved(self) -> bool:
        since = self._previewed_at
        return since is None or any(at >= since for at in self._world.moved_at)

    def question_asked(self, event: e.Event, asked: e.QuestionAsked) -> None:
        if asked.kind != "consent":
            return
        self._asked[asked.question] = asked
        if asked.step in self._agreed and not self._is_revised and not self._has_moved():
            self._fail(event, f"asks again about {asked.step}, which was shown")

    def question_answered(self, _: e.Event, body: e.QuestionAnswered) -> None:
        asked = self._asked.get(body.question)
        if asked is not None and body.answer == "allow":
            inputs = canonical_json(self._world.value(asked.values)).decode()
            self._allowed[str(asked.step)].append(inputs)

    def step_started(self, event: e.Event, body: e.StepStarted) -> None:
        step = body.step
        if body.inputs and body.callee in WRITES:
            self._check_change(event, body)
        elif body.inputs and step in self._reads:
            self._fail(event, f"reads {step} again")

    def _check_change(self, event: e.Event, body: e.StepStarted) -> None:
        """A change is approved, not left out, and with values that a person saw, if she had to."""
        step, inputs = body.step, self._world.value(body.inputs)
        if self._approved is None or not self._started_at:
            self._fail(event, f"{step} begins before the approval")
        effect, shown = effect_of(body.callee, inputs), self._agreed.get(step)
        if effect in self._refused:
            self._fail(event, f"{step} does what was left out or changed: {effect}")
        if shown == inputs or canonical_json(inputs).decode() in self._allowed[step]:
            return
        if self._world.data == "ask" and uses_data(self._plan, step):
            self._fail(event, f"{step} uses values that nobody saw: {inputs}")
        elif shown is not None and not self._is_revised and not self._has_moved():
            self._fail(event, f"{step} was shown with {shown} and is called with {inputs}")

    def _is_look(self, step: str) -> bool:
        """Whether a step is a look, or one of its rounds."""
        found = self._plan.by_id.get(root_of(step))
        return isinstance(found, ToolStep) and found.tool == "look"

    def end(self, run: Run) -> Facts:
        """Checks what came of it all."""
        for step, result in self._reads.items():
            state = run.steps.get(step)
            if state is None or state.result_hash != result:
                self._world.fail(f"{self._run}: the read {step} was lost")
        for step in self._stale:
            if (state := run.steps.get(step)) is not None and state.status is StepStatus.DONE:
                self._world.fail(f"{self._run}: {step} was not read again")
        if run.status is RunStatus.DONE and not self._is_revised and not self._has_moved():
            for step, inputs in self._agreed.items():
                self._check_made(run, step, inputs)
        return self._facts()

    def _facts(self) -> Facts:
        found = {
            step: items
            for step, result in self._reads.items()
            if "/" not in step and (items := self._items(result))
        }
        changed, left = dict(self._changed.values()), {*self._left.values()}
        for other, roots in self._reused.items():  # calls that another run made, or was not to
            theirs = _Seen(self._world, other)
            for event in self._world.journals().get(other, ()):
                theirs.take(event)
            changed |= dict(theirs._changed.values())
            left |= {each for k, each in theirs._left.items() if root_of(k) in roots}
        return Facts(found, left, changed, self._left.keys())

    def _items(self, result: str) -> list[str]:
        value = self._world.value(result)
        return value.get("items", []) if isinstance(value, dict) else []

    def _check_made(self, run: Run, step: str, inputs: Any) -> None:
        """What was shown is made, once and so; unless what it needs failed or was left out."""
        state = run.steps.get(step)
        if state is not None and (state.reused_from or not state.counts_as_done):
            return
        if state is not None and state.rule in ("need", "error"):
            return
        whole = parent_of(step)
        while state is None and whole:
            if whole in run.steps and run.steps[whole].rule:
                return
            whole = parent_of(whole)
        key = f"{self._run}/{step}/"
        made = [(each.tool, each.id) for each in self._world.bank.made if each.key.startswith(key)]
        effect = made[0] if made else ("nothing", "")
        if len(made) == 1 and effect == effect_of(effect[0], inputs):
            return
        what = (*effect, self._world.chain(self._run))
        if what not in self._world.excused:
            self._world.fail(f"{self._run}: {step} was shown with {inputs}, and made {made}")
