"""The six kinds of steps: tool, agent, ask, map, plan, reply."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args

from pydantic import Discriminator, Field, Tag, model_serializer, model_validator

from plansmith.plan.data import (
    FIXED_TYPES,
    Flag,
    FrozenDict,
    Json,
    JsonObject,
    NonEmptyText,
    Number,
    Path,
    Record,
    StrictInt,
    Text,
    Value,
)
from plansmith.plan.refs import FIRST, RESERVED, STEP_ID, Found, Ref, find_refs, is_earlier

MAX_ROUNDS: Final = 1000
MAX_RETRIES: Final = 100
MAX_PAUSE_S: Final = 31 * 24 * 3600.0


class Instead(Record):
    """A value that stands in for the result of a step that has none."""

    value: Value


class Repeat(Record):
    """Runs a step again until a condition holds: at most `at_most` rounds, `every` seconds apart.

    The condition may refer to the result of the step itself, which is that of the last round.
    """

    until: JsonObject
    at_most: StrictInt = Field(ge=1, le=MAX_ROUNDS)
    every: Number = Field(default=0.0, ge=0, le=MAX_PAUSE_S)


class Retry(Record):
    """Repeats a failed call up to `at_most` times, `every` seconds apart.

    A call that may have taken effect is made again only if its key makes that harmless.
    """

    at_most: StrictInt = Field(ge=1, le=MAX_RETRIES)
    every: Number = Field(default=0.0, ge=0, le=MAX_PAUSE_S)


class Undo(Record):
    """The call of a tool that takes back what a step did; made only by a plan of its own."""

    tool: NonEmptyText
    inputs: JsonObject = Field(default_factory=FrozenDict[Json])


OnError = Literal["fail", "skip", "collect"] | Instead
# The rules of a step; those of AFTERWARDS may refer to the result of the step itself.
RULES: Final = frozenset({"when", "otherwise", "repeat", "on_error", "retry", "undo_with"})
AFTERWARDS: Final = frozenset({"repeat", "undo_with"})
StepId = Annotated[str, Field(pattern=f"^{STEP_ID}$")]
PlacedValue = tuple[Path, Json]
MAX_TIMEOUT_S: Final = 366 * 24 * 3600.0
# How deep maps and templates may be nested, in review and in execution.
MAX_NESTING: Final = 5
MAX_OPTIONS: Final = 100


def _is_in_rule(where: Path) -> bool:
    """Tells whether a place is in a rule; an argument of a tool may have a rule's name."""
    return where[1 if where[0] == "each" else 0] in RULES


class StepFields(Record):
    """The fields of every step; `after` adds to the order that references imply.

    The rules: the step runs `when` a condition holds, else it is skipped and `otherwise` is its
    result; it is run again as `repeat` says; `on_error` says what a failure means, `retry` how
    often a failed call is made again, and `undo_with` which call takes the step back.
    """

    id: StepId
    title: Text = ""
    why: Text = ""
    after: tuple[Text, ...] = ()
    timeout_s: Number | None = Field(default=None, gt=0)
    disabled: Flag = False
    when: JsonObject | None = None
    otherwise: Instead | None = None
    repeat: Repeat | None = None
    on_error: OnError = "fail"
    retry: Retry | None = None
    undo_with: Undo | None = None

    # The fields that may hold references to values the step works with.
    ref_fields: ClassVar[tuple[str, ...]] = ()

    def values_with_refs(self) -> Iterator[PlacedValue]:
        """Yields what may hold references, with its place: what the step works with, its rules."""
        for name in self.ref_fields:
            yield (name,), getattr(self, name)
        if self.when is not None:
            yield ("when",), self.when
        if self.repeat is not None:
            yield ("repeat", "until"), self.repeat.until
        if self.undo_with is not None:
            yield ("undo_with", "inputs"), self.undo_with.inputs

    @property
    def callee(self) -> str:
        """The tool or agent that the step calls; empty if it calls none."""
        return ""

    @property
    def inner(self) -> AnyStep:
        """What is run for each item of a map step; of any other, the step itself."""
        return self  # type: ignore[return-value]  # each kind of step is an AnyStep

    # Computed once, because checks, estimates, hashes and the engine all need it.
    @cached_property
    def references(self) -> tuple[Found, ...]:
        """Every reference of the step, and every failed attempt at one."""
        every: list[Found] = []
        for path, value in self.values_with_refs():
            every += find_refs(value, path)
        return tuple(every)

    @cached_property
    def needed(self) -> frozenset[str]:
        """The ids of all steps that must be done first; an earlier run's results need no step."""
        needed = frozenset(self.after)
        if not self.references:
            return needed
        used = {each.ref.step for each in self.references if each.ref and not self.is_own(each)}
        return needed.union(name for name in used - RESERVED if not is_earlier(name))

    def is_own(self, found: Found) -> bool:
        """Tells whether a reference is to the step's own result, in a rule for afterwards."""
        rule = found.where[0] in AFTERWARDS
        return rule and found.ref is not None and found.ref.step == self.id

    def blocked_by(self, skipped: Collection[str]) -> str:
        """Returns a skipped step that this one cannot run without; empty if it can run.

        Of the steps in a `$first`, one that was not skipped is enough.
        """
        firsts: dict[Path, list[str]] = {}
        for found in self.references:
            if found.ref is None or self.is_own(found):
                continue
            if FIRST in found.where:
                group = found.where[: found.where.index(FIRST)]
                firsts.setdefault(group, []).append(found.ref.step)
            elif found.ref.step in skipped:
                return found.ref.step
        whole = (names[0] for names in firsts.values() if all(each in skipped for each in names))
        return next((each for each in self.after if each in skipped), "") or next(whole, "")

    def input_refs(self) -> Iterator[Ref]:
        """Returns the well-formed references to values that the step works with, without rules."""
        own = (found for found in self.references if not _is_in_rule(found.where))
        return (found.ref for found in own if found.ref is not None)

    @model_serializer
    def stored(self) -> dict[str, Any]:
        """Returns the step as JSON without default values, sharing the values: do not change them.

        Its kind is always written, although it is the default: it cannot be read without it.
        """
        own = self.__dict__
        value = {"id": own["id"], "kind": own["kind"]}
        for name, default in _defaults(type(self)):
            each = own[name]
            if each is not default and each != default:
                value[name] = each if type(each) in FIXED_TYPES else _plain(each)
        return value


def _plain(value: Any) -> Any:
    if isinstance(value, StepFields):
        return value.stored()
    return value.to_json() if isinstance(value, Record) else value


@cache
def _defaults(kind: type[StepFields]) -> list[tuple[str, Any]]:
    """Returns the fields of a step with their defaults, which no value of a required one equals."""
    fields = {name: each for name, each in kind.model_fields.items() if name not in ("id", "kind")}
    return [(name, each.get_default(call_default_factory=True)) for name, each in fields.items()]


def has_rules(step: StepFields) -> bool:
    """Tells whether a step has any rule, without looking at the inner step of a map."""
    if not (given := RULES & step.model_fields_set):
        return False
    return any(getattr(step, name) != StepFields.model_fields[name].default for name in given)


class ToolStep(StepFields):
    """Call a tool."""

    kind: Literal["tool"] = "tool"
    tool: NonEmptyText
    inputs: JsonObject = Field(default_factory=FrozenDict[Json])
    ref_fields = ("inputs",)

    @property
    def callee(self) -> str:
        return self.tool


class AgentStep(StepFields):
    """Give a task to an agent."""

    kind: Literal["agent"] = "agent"
    agent: NonEmptyText
    task: NonEmptyText
    inputs: JsonObject = Field(default_factory=FrozenDict[Json])
    ref_fields = ("task", "inputs")

    @property
    def callee(self) -> str:
        return self.agent


class AskStep(StepFields):
    """Ask the person; the answer is the step's output."""

    kind: Literal["ask"] = "ask"
    question: NonEmptyText
    options: Annotated[tuple[Text, ...], Field(max_length=MAX_OPTIONS)] = ()
    answer_schema: JsonObject | None = None
    ref_fields = ("question",)


class PlanStep(StepFields):
    """Run a template (a saved plan) with parameters.

    `content` is the hash of the template's own plan, set when a plan is proposed, so that an
    approval of this plan's hash includes the template.
    """

    kind: Literal["plan"] = "plan"
    template: NonEmptyText
    version: StrictInt | None = Field(default=None, ge=1)
    content: Text | None = None
    inputs: JsonObject = Field(default_factory=FrozenDict[Json])
    ref_fields = ("inputs",)


# How a plan may write the instruction of an exact reply.
SAY: Final = "say"
ReplyStyle = Literal["worded", "exact", "results"]


class ReplyStep(StepFields):
    """Write a text for the person once the steps it uses have run.

    `worded`: a model writes it as instructed. `exact`: the instruction is the text. `results`: the
    results as tables and lists, after the instruction as one sentence if there is one. A plan may
    write `say: text` for an exact one.
    """

    kind: Literal["reply"] = "reply"
    instruction: NonEmptyText
    style: ReplyStyle = "worded"
    ref_fields = ("instruction",)

    def blocked_by(self, skipped: Collection[str]) -> str:
        """Returns the first step it needs if all are skipped: with some, it says what there is."""
        missing = sorted(self.needed & {*skipped})
        return missing[0] if missing and len(missing) == len(self.needed) else ""

    @model_validator(mode="before")
    @classmethod
    def _read_say(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, object]", value)
        if SAY not in fields:
            return fields
        if "instruction" in fields or fields.get("style", "exact") != "exact":
            raise ValueError(f"a reply has either `{SAY}` or an instruction with its style")
        rest = {name: each for name, each in fields.items() if name != SAY}
        return rest | {"instruction": fields[SAY], "style": "exact"}


KIND_BY_FIELD: Final = {  # a field that only this kind has
    "over": "map",
    "each": "map",
    "tool": "tool",
    "agent": "agent",
    "question": "ask",
    "template": "plan",
    "instruction": "reply",
    SAY: "reply",
}


def kind_of(value: object) -> str | None:
    """Returns the kind a step names, or the only kind that its fields allow."""
    if not isinstance(value, (dict, Mapping)):  # `dict` first: asking for a `Mapping` is slow
        return cast("str", getattr(value, "kind", None)) if isinstance(value, StepFields) else None
    fields = cast("Mapping[str, object]", value)
    if "kind" in fields:
        return fields["kind"] if isinstance(fields["kind"], str) else None
    return next((kind for field, kind in KIND_BY_FIELD.items() if field in fields), None)


InnerStep = Annotated[
    Annotated[ToolStep, Tag("tool")]
    | Annotated[AgentStep, Tag("agent")]
    | Annotated[PlanStep, Tag("plan")]
    | Annotated[ReplyStep, Tag("reply")],
    Discriminator(kind_of),
]


class MapStep(StepFields):
    """Run one inner step for each item of a list; references call the item `item`.

    If it changes something for a list from tools, more than `most` items need a person's consent.
    """

    kind: Literal["map"] = "map"
    over: Value
    each: InnerStep
    width: StrictInt = Field(default=4, ge=1, le=256)
    most: StrictInt | None = Field(default=None, ge=1)
    ref_fields = ("over",)

    @model_validator(mode="before")
    @classmethod
    def _name_inner(cls, value: object) -> object:
        """Names an inner step without an id after the map step."""
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, object]", value)
        each = fields.get("each")
        if not isinstance(each, dict) or "id" in each:
            return fields
        inner = cast("dict[str, object]", each)
        return fields | {"each": {"id": f"{str(fields.get('id'))[:59]}_each"} | inner}

    def values_with_refs(self) -> Iterator[PlacedValue]:
        yield from super().values_with_refs()
        yield from ((("each", *path), value) for path, value in self.each.values_with_refs())

    @property
    def inner(self) -> AnyStep:
        return self.each

    def is_own(self, found: Found) -> bool:
        ref, where = found.ref, found.where
        inner = ref is not None and ref.step == self.each.id and where[0] == "each"
        return super().is_own(found) or (inner and where[1] in AFTERWARDS)


Step = Annotated[
    Annotated[ToolStep, Tag("tool")]
    | Annotated[AgentStep, Tag("agent")]
    | Annotated[AskStep, Tag("ask")]
    | Annotated[MapStep, Tag("map")]
    | Annotated[PlanStep, Tag("plan")]
    | Annotated[ReplyStep, Tag("reply")],
    Discriminator(kind_of),
]
AnyStep = ToolStep | AgentStep | AskStep | MapStep | PlanStep | ReplyStep
STEP_TYPES: Final[tuple[type[StepFields], ...]] = get_args(AnyStep)
# The fields of a step that may hold references.
REF_FIELDS: Final = {"when", "repeat", "undo_with"}.union(*(each.ref_fields for each in STEP_TYPES))
KINDS: Final = tuple(str(each.model_fields["kind"].default) for each in STEP_TYPES)
