"""Lists the calls that a plan could make, and compares a changed plan with the approved one."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from plansmith.errors import PlanInvalid
from plansmith.plan import steps as st
from plansmith.plan.capability import Capabilities, Effect
from plansmith.plan.conditions import rule_sentences
from plansmith.plan.data import Json, Record, canonical_hash
from plansmith.plan.graph import order
from plansmith.plan.plan import Plan
from plansmith.plan.refs import ITEM, RESERVED, find_refs, rename_refs, value_line
from plansmith.plan.sentence import Sentence
from plansmith.review.policy import active_steps
from plansmith.text import clip, safe

_VALUE: Final = 120
_QUESTION: Final = 80
# The plan that makes the calls in `undo_with` is reviewed by itself.
_COVERED: Final = st.RULES - {"undo_with"}
# These do not change what a call does, except for rules, which are compared apart.
_NOT_IN_KEY: Final = {"id", "title", "why", "after", "timeout_s", *st.RULES}
_HOST: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://([^/\s\"'\\?#]+)|\b[\w.+-]+@([\w-]+(?:\.[\w-]+)+)"
)
# Whether an agent is enabled or hidden says nothing about what it does.
_NOT_COMPARED: Final = {"enabled", "hidden"}


class PlannedCall(NamedTuple):
    """One place of a plan that calls a tool or an agent.

    `key` is the same for the same callee with the same arguments. A reference counts by the
    definition of the step it points at, not by its name: changing what a step looks for changes
    the key of every call that uses its result.
    """

    place: str
    callee: str
    effect: Effect
    key: str
    text: str

    @property
    def acts(self) -> bool:
        return self.effect is not Effect.READ


@dataclass(frozen=True, slots=True)
class _Scope:
    """The surroundings of a step: keys of the steps before, bound values, conditions."""

    prefix: str = ""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    item: str = ""
    conditions: tuple[str, ...] = ()
    around: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()
    depth: int = 0


class PlanCalls:
    """The calls of a plan and its templates, and what comes before each; all of it by place.

    `keys` are hashes of what steps do, in which a reference counts by the key of its step: equal
    calls have equal keys. `_before` are the places right before a place, `_history` is a hash of
    all that comes before it: where two histories are equal, nothing more is compared.
    """

    def __init__(self, plan: Plan, capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._before: dict[str, tuple[str, ...]] = {}
        self._history: dict[str, str] = {}
        self._uncertain: set[str] = set()
        self.keys: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.questions: dict[str, str] = {}
        self.calls: list[PlannedCall] = []
        self.hosts: set[str] = set()
        self._walk(plan, _Scope())

    @property
    def acting(self) -> list[PlannedCall]:
        return [call for call in self.calls if call.acts]

    @property
    def names(self) -> set[str]:
        return {call.callee for call in self.calls}

    def history(self, place: str) -> str:
        """Returns a hash of everything that comes before a place."""
        return self._history[place]

    def before(self, place: str, *, uncertain: bool = False) -> dict[str, str]:
        """Returns the key and the place of every step that comes before a place.

        With `uncertain`, only of those whose rules may skip them, and with them the place.
        """
        places: dict[str, str] = {}
        pending, seen = list(self._before[place]), set[str]()
        while pending:
            earlier = pending.pop()
            if earlier not in seen:
                seen.add(earlier)
                if earlier in self._uncertain or not uncertain:
                    places[self.keys[earlier]] = earlier
                pending += self._before[earlier]
        return places

    def _walk(self, plan: Plan, scope: _Scope) -> dict[str, str]:
        """Adds a plan's steps, each after those it needs; returns their keys by id."""
        graph = plan.needs
        try:
            names = order(graph)
        except PlanInvalid:  # a plan with a cycle never runs; its calls are listed anyway
            names = list(graph)
        keys: dict[str, str] = {}
        scope = replace(scope, keys=keys)
        for name in names:
            step, place = plan.by_id[name], f"{scope.prefix}{name}"
            inner = (f"{scope.prefix}{need}" for need in sorted(graph[name]) if need in keys)
            self._before[place] = before = (*inner, *scope.before)
            self._history[place] = canonical_hash(
                [[self.keys[each], self._history[each]] for each in sorted(before)]
            )
            if step.disabled:
                self.texts[place] = Sentence("{step} (off)", step=name)
                keys[name] = canonical_hash(["off", name])
            else:
                keys[name] = self._step(step, place, scope)
                self._uncertain |= {place} if step.when or step.on_error == "skip" else set()
            self.keys[place] = keys[name]
        return keys

    def _step(self, step: st.AnyStep, place: str, scope: _Scope) -> str:
        self.texts[place] = _call_text(step)
        if step.kind == "ask":
            self.questions[place] = _question(step)
        text = json.dumps(step.to_json(), ensure_ascii=False).lower()
        self.hosts |= {found[1] or found[2] for found in _HOST.finditer(text)}
        ruled = ""
        if st.has_rules(step):
            # What may make a call happen, or stand in for a result, is part of what was approved.
            rules = {name: each for name, each in step.stored().items() if name in _COVERED}
            ruled = self._value(rules, scope)
            around = *(("call.under", each) for each in rule_sentences(step)[::-1]), *scope.around
            scope = replace(scope, conditions=(*scope.conditions, ruled), around=around)
        if isinstance(step, st.MapStep):
            key = self._map(step, place, scope)
        elif isinstance(step, st.PlanStep):
            key = self._template(step, place, scope)
        else:
            own = {name: each for name, each in step.stored().items() if name not in _NOT_IN_KEY}
            key = self._value(own, scope)
            if step.callee:
                return self._call(step, place, scope, canonical_hash([key, [*scope.conditions]]))
            if step.kind == "ask":  # equal questions at two places have different answers
                key = canonical_hash([key, place])
        return canonical_hash([key, ruled]) if ruled else key

    def _call(self, step: st.AnyStep, place: str, scope: _Scope, key: str) -> str:
        text = self.texts[place]
        for code, around in scope.around:
            text = Sentence(code, call=text, around=around)
        effect = self._capabilities.effect(step)
        self.calls.append(PlannedCall(place, step.callee, effect, key, text))
        return key

    def _map(self, step: st.MapStep, place: str, scope: _Scope) -> str:
        over = self._value(step.over, scope)
        inner = replace(
            scope,
            prefix=f"{place}/",
            item=over,
            conditions=(*scope.conditions, canonical_hash([over, step.most])),
            around=(("call.each", value_line(step.over, _VALUE)), *scope.around),
            before=self._before[place],
        )
        each = f"{place}/{step.each.id}"
        self._before[each], self._history[each] = self._before[place], self._history[place]
        self.keys[each] = self._step(step.each, each, inner)
        return canonical_hash(["map", over, self.keys[each]])

    def _template(self, step: st.PlanStep, place: str, scope: _Scope) -> str:
        params = {name: self._value(value, scope) for name, value in step.inputs.items()}
        plan = self._capabilities.templates.get(step.template)
        if plan is None or scope.depth >= st.MAX_NESTING:
            unseen = [step.template, step.version, step.content]
            return canonical_hash(["plan", *unseen, dict[str, Json](params)])
        inside = f"{safe(step.template)}({_arguments_text(step.inputs)})"
        inner = replace(
            scope,
            prefix=f"{place}/",
            params=params,
            item="",
            around=(("call.inside", inside), *scope.around),
            before=self._before[place],
            depth=scope.depth + 1,
        )
        return canonical_hash(["plan", dict[str, Json](self._walk(plan, inner))])

    def _value(self, value: Json, scope: _Scope) -> str:
        """Returns the hash of a value; references count by the keys of their steps."""
        bound: list[Json] = []
        for found in find_refs(value):
            ref = found.ref
            if ref is None or ref.step not in RESERVED:
                continue
            whole = canonical_hash(dict[str, Json](scope.params))
            first = str(ref.path[0]) if ref.path else ""
            bound.append(scope.item if ref.step == ITEM else scope.params.get(first, whole))
        return canonical_hash([rename_refs(value, scope.keys), bound])


def _call_text(step: st.AnyStep) -> str:
    """Returns a step as text for a review reason: `pay(to="alice", amount=10)`."""
    match step:
        case st.ToolStep():
            return f"{safe(step.tool)}({_arguments_text(step.inputs)})"
        case st.AgentStep():
            more = f", {_arguments_text(step.inputs)}" if step.inputs else ""
            return f"{safe(step.agent)}(task={value_line(step.task, _VALUE)}{more})"
        case st.AskStep():
            return Sentence("call.asks", question=_question(step))
        case _:
            return step.id


def _question(step: st.AskStep) -> str:
    return clip(safe(step.question), _QUESTION)


def _arguments_text(inputs: Mapping[str, Json]) -> str:
    return ", ".join(f"{safe(name)}={value_line(value, _VALUE)}" for name, value in inputs.items())


class BeyondApproval(NamedTuple):
    """What a revision does that was not approved, and which approved calls it no longer makes."""

    reasons: tuple[str, ...]
    drops: tuple[str, ...] = ()


def compare_with_approved(
    approved: PlanCalls, revision: PlanCalls, *, happened: Collection[str] = ()
) -> BeyondApproval:
    """Compares a revision with the plan approved last, by the calls that could change something.

    A call is covered if the approved plan makes it too: the same callee with the same arguments
    (or references to steps defined the same), for each item of the same list, after the same
    questions and steps. `happened` are the keys of finished steps, which need not come again. A
    new tool, agent or host needs a review as well, even for reading.
    """
    done = frozenset(happened)
    # Each changing call is paired with one approved call, each used once.
    unused: dict[str, list[PlannedCall]] = defaultdict(list)
    for call in approved.acting:
        unused[call.key].append(call)
    unguarded: list[Sentence] = []
    new: list[PlannedCall] = []
    for call in revision.acting:
        if not unused.get(call.key):
            new.append(call)
            continue
        # Of equal calls, take the one that loses the fewest earlier questions and steps.
        changes = [
            _order_changes(approved, each, revision, call, done) for each in unused[call.key]
        ]
        fewest = min(range(len(changes)), key=lambda place: len(changes[place][0]))
        unused[call.key].pop(fewest)
        unguarded += [each for part in changes[fewest] for each in part]
    replacing: list[Sentence] = []
    for call in new:
        left = (each for calls in unused.values() for each in calls)
        instead = next((each for each in left if each.callee == call.callee), None)
        if instead is not None:
            unused[instead.key].remove(instead)
        replacing.append(_new_call_reason(call, instead, approved, revision))
    dropped = [call.text for calls in unused.values() for call in calls]
    names = sorted(revision.names - approved.names - {call.callee for call in new})
    reasons = [
        Sentence("{name} was not in the plan before", name=name)
        for name in (*names, *sorted(revision.hosts - approved.hosts))
    ]
    reasons += [*unguarded, *replacing]
    reasons += [Sentence("no longer calls {call}, which you approved", call=c) for c in dropped]
    return BeyondApproval(tuple(dict.fromkeys(reasons)), tuple(dropped))


def _order_changes(
    approved: PlanCalls,
    old: PlannedCall,
    revision: PlanCalls,
    new: PlannedCall,
    done: frozenset[str],
) -> tuple[list[Sentence], list[Sentence]]:
    """Returns which steps no longer come before a call, and which new ones may skip it."""
    if approved.history(old.place) == revision.history(new.place):
        return [], []
    before, after = approved.before(old.place), revision.before(new.place)
    lost = [
        Sentence(
            "no longer asks '{question}' before {call}",
            question=approved.questions[place],
            call=new.text,
        )
        if place in approved.questions
        else Sentence(
            "no longer waits for {earlier} before {call}",
            earlier=approved.texts[place],
            call=new.text,
        )
        for key, place in before.items()
        if key not in after and key not in done
    ]
    doubts = [
        Sentence(
            "calls {call} only after {earlier}, which may be skipped",
            earlier=revision.texts[place],
            call=new.text,
        )
        for key, place in revision.before(new.place, uncertain=True).items()
        if key not in before and key not in done
    ]
    return lost, doubts


def _new_call_reason(
    call: PlannedCall, instead: PlannedCall | None, approved: PlanCalls, revision: PlanCalls
) -> Sentence:
    if instead is None:
        return Sentence("calls {call}, which you have not approved", call=call.text)
    if instead.text != call.text:
        return Sentence(
            "calls {call} instead of {approved}, which you approved",
            call=call.text,
            approved=instead.text,
        )
    # The texts are the same, so their references point at something else.
    known = set(approved.texts.values())
    before = (revision.texts[place] for place in revision.before(call.place).values())
    other = [text for text in before if text not in known]
    if other:
        return Sentence(
            "calls {call} with other values than you approved: {sources} is new",
            call=call.text,
            sources=other,
        )
    return Sentence("calls {call} with other values than you approved", call=call.text)


def definitions(plan: Plan, capabilities: Capabilities) -> dict[str, str]:
    """Returns the hash of the definition of each known tool and agent that a plan calls."""
    found: dict[str, Record | None] = {}
    for step in active_steps(plan, capabilities.templates):
        name = step.callee
        if step.kind == "agent":
            found[f"agent {name}"] = capabilities.agents.get(name)
        elif name:
            found[name] = capabilities.tools.get(name)
    return {
        name: canonical_hash(spec.model_dump(mode="json", exclude=_NOT_COMPARED))
        for name, spec in sorted(found.items())
        if spec is not None
    }


def redefined(approved: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a reason for each tool or agent that has changed since the approval."""
    return tuple(
        Sentence("review.redefined", name=name)
        for name, digest in now.items()
        if approved.get(name, digest) != digest
    )
