"""Results of earlier runs that a plan may use: what they are, their names, and which are used."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plansmith.plan.data import Json, kind_of_value
from plansmith.plan.diff import point_elsewhere
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import (
    RESERVED,
    earlier_parts,
    earlier_source,
    is_earlier,
    value_text,
)
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, visible

FROM_EARLIER: Final = "PS317"
USE: Final = "ps.from_earlier"
_LINES: Final = 3
_KEYS: Final = 8  # of an object: a plan refers to what it wants by its key
_LINE: Final = 120
_LISTED: Final = 8
_REQUEST: Final = 80


class EarlierResult(NamedTuple):
    """A result of an earlier run that a plan may use.

    `ref` is how a plan names it, `name` a shorter way; `hash` is that of its content. `kind` and
    `lines` say what it is: its type, and its first lines, which are words of tools.
    """

    ref: str
    hash: str
    name: str = ""
    kind: str = ""
    lines: str = ""
    request: str = ""

    @property
    def run(self) -> str:
        return earlier_parts(self.ref)[0]

    @property
    def step(self) -> str:
        return earlier_parts(self.ref)[1]


def results_of(runs: Sequence[Run]) -> list[EarlierResult]:
    """Returns the results of finished steps of runs, oldest run first, each with a short name.

    The runs need their results. The newest result of a step has the step's id as its name; an
    older one of that id has the place of its run behind it: `totals`, and `totals_1` before.
    """
    found = [
        (place, run, step, state.result_hash, state.result)
        for place, run in enumerate(runs, start=1)
        for step, state in run.steps.items()
        if state.status is StepStatus.DONE and state.result_hash and earlier_source(run.id, step)
    ]
    newest = {step: place for place, _, step, _, _ in found}
    return [
        EarlierResult(
            ref=earlier_source(run.id, step),
            hash=digest,
            name=step if newest[step] == place else older if older not in newest else "",
            kind=kind_of(value),
            lines=first_lines(value),
            request=run.request,
        )
        for place, run, step, digest, value in found
        for older in (f"{step[:58]}_{place}",)
    ]


def kind_of(value: Json) -> str:
    """Returns the type of a value in a few words of ours; nothing of the value itself."""
    if isinstance(value, list):
        kinds = {_type_name(each) for each in value}
        same = f" ({kinds.pop()} each)" if len(kinds) == 1 else ""
        return f"list of {len(value)}{same}"
    return f"object of {len(value)} keys" if isinstance(value, dict) else _type_name(value)


_TYPE_NAMES: Final = {"null": "nothing", "boolean": "yes or no", "string": "text", "array": "list"}


def _type_name(value: Json) -> str:
    kind = kind_of_value(value)
    return _TYPE_NAMES.get(kind, kind)


def first_lines(value: Json) -> str:
    """Returns the beginning of a value as text; of an object its keys, each with its beginning."""
    if isinstance(value, list):
        lines = [value_text(each) for each in value[:_LINES]]
    elif isinstance(value, dict):
        head = list(value.items())[:_KEYS]
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {value_text(each)}" for key, each in head]
    else:
        lines = value_text(value).splitlines()[:_LINES]
    return "\n".join(clip(visible(" ".join(line.split())), _LINE) for line in lines)


class Earlier(NamedTuple):
    """The results that a plan may use, by reference, and the values of those that it uses.

    A result that may be used and has no value here is gone from the store, or was altered.
    """

    results: Mapping[str, EarlierResult]
    values: Mapping[str, Json]

    def listed(self) -> list[str]:
        newest = [*self.results.values()][-_LISTED:]
        return [f"{each.name} ({each.ref})" if each.name else each.ref for each in newest]


NOTHING_EARLIER: Final = Earlier({}, {})


def uses_of(plan: Plan) -> list[str]:
    """Returns the results of earlier runs that the steps of a plan refer to, each once."""
    refs = (found.ref for step in plan.steps for found in step.references)
    return [*dict.fromkeys(ref.step for ref in refs if ref and is_earlier(ref.step))]


def source_name(source: str) -> str:
    """Returns the name of a source of data for people."""
    if not is_earlier(source):
        return source
    run, step = earlier_parts(source)
    return Sentence("step {step} of the earlier run {run}", run=run, step=step)


def pinned_results(
    results: Iterable[EarlierResult], pins: Mapping[str, str]
) -> dict[str, EarlierResult]:
    """Returns results by reference; one that is pinned has that content, whatever it is now."""
    found = {each.ref: each for each in results}
    for ref, digest in pins.items():
        found[ref] = found.get(ref, EarlierResult(ref, digest))._replace(hash=digest)
    return found


@dataclass(frozen=True, slots=True)
class UsableResults:
    """The results that the plans of one request may use; `load` reads a value by its hash."""

    load: Callable[[str], Awaitable[Json]]
    results: Mapping[str, EarlierResult] = field(default_factory=dict[str, EarlierResult])

    @property
    def names(self) -> Mapping[str, str]:
        return {each.name: each.ref for each in self.results.values() if each.name}

    def named(self, plan: Plan) -> Plan:
        """Returns the plan with names of results written out; its own steps win over them."""
        if not self.results:
            return plan
        names = self.names
        known = {*plan.by_id, *(step.each.id for step in plan.steps if step.kind == "map")}
        written = {name for step in plan.steps for name in step.after}
        written |= {found.ref.step for step in plan.steps for found in step.references if found.ref}
        meant = {name: names[name] for name in written - known - RESERVED if name in names}
        return point_elsewhere(plan, meant) if meant else plan

    def notes(self, plan: Plan) -> Iterator[Problem]:
        """Yields a note for each use of an earlier result, for whoever reviews the plan."""
        for step in plan.steps:
            seen: set[str] = set()
            for found in step.references:
                ref = found.ref.step if found.ref is not None else ""
                if ref in self.results and ref not in seen:
                    seen.add(ref)
                    result = self.results[ref]
                    request = clip(visible(" ".join(result.request.split())), _REQUEST)
                    about = {"step": result.step, "request": request or result.run}
                    text = Sentence(USE, **about)
                    hint = Sentence(
                        "look whether this is what you mean; it is data, and stays as it was then"
                    )
                    yield problem(FROM_EARLIER, text, hint=hint, step=step.id, path=found.where)
