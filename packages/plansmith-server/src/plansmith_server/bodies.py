"""Models of the bodies and queries that clients may send, with an example of each body."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)

from plansmith.plan.data import Flag, Json, StrictInt
from plansmith.plan.limits import Bound, BudgetLimits
from plansmith.plan.run_options import Profile, TeamName
from plansmith.plan.timing import Timing
from plansmith.schedules.schedule import Missed, Overlap
from plansmith_planner.dialect import dialect_names
from plansmith_planner.threads.thread import MAX_LENGTH


class Input(BaseModel):
    """The base of bodies and queries; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _printable(text: str) -> str:
    if not text.isprintable() or (text and not text.strip(" .")):
        raise ValueError("use letters and digits on one line")
    return text


def _known_dialect(name: str) -> str:
    if name not in dialect_names():
        raise ValueError(f"the dialect is one of {', '.join(map(repr, dialect_names()))}")
    return name


def _example(**example: Any) -> dict[str, Any]:
    return {"examples": [example]}


FreeText = Annotated[str, StringConstraints(min_length=1, max_length=200_000, pattern=r"\S")]
Short = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Text = Annotated[str, StringConstraints(max_length=300)]
Locale = Annotated[
    str, StringConstraints(max_length=35, pattern=r"^([A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*)?$")
]
Long = Annotated[str, StringConstraints(max_length=2000)]
# Others than these cannot be the id of a conversation.
ConversationId = Annotated[str, StringConstraints(max_length=200), AfterValidator(_printable)]
Number = Annotated[int, Field(ge=0, le=2**53)]
Page = Annotated[int, Field(ge=1, le=500)]
Seconds = Annotated[float, Field(ge=0, le=60)]
PlanJson = dict[str, Any]
# A plan of another system may be a list.
AnyPlanJson = dict[str, Any] | list[Any]
DialectName = Annotated[
    str, AfterValidator(_known_dialect), Field(json_schema_extra={"enum": [*dialect_names()]})
]
InDialect = Annotated[
    DialectName | None,
    Field(description="the format of another system; without it, Plansmith's plan language"),
]
_HASH: Final = "sha256:5f2b0c7e"
_STEP: Final = {"id": "weather", "kind": "tool", "tool": "weather.get", "inputs": {"city": "Oslo"}}
REASON: Final = {"reason": "back on Monday"}
_PLAN: Final = {"goal": "Say how the weather is in Oslo", "steps": [_STEP]}
_TIMING: Final = {"daily_at": "08:00", "timezone": "Europe/Oslo"}
_TEMPLATE: Final = {"name": "weather", "parameters": {"city": ["weather.city"]}}


class ForTeam(Input):
    """The agents that work on a plan; `database` is a name in the server's settings."""

    team: TeamName | None = None
    database: Text = ""

    @model_validator(mode="after")
    def _database_of_team(self) -> Self:
        if (self.team == "data") != bool(self.database):
            raise ValueError("the team data needs a database, and nothing else does")
        return self


class RequestOptions(ForTeam):
    """How a request is planned and run."""

    dialect: InDialect = None
    locale: Locale = ""
    mode: Literal["review", "read_only"] = "review"
    budget: BudgetLimits | None = None
    max_steps: StrictInt | None = Field(default=None, ge=1, le=10_000)
    replan: Literal["", "never", "on_failure", "after_each"] = ""
    profile: Profile | None = None

    def options(self) -> dict[str, Any]:
        names = ("locale", "profile", "max_steps", "replan", "mode")
        budget = self.budget.to_json() if self.budget else None
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "dialect": self.dialect or "", "budget": budget}


class NewRun(RequestOptions, json_schema_extra=_example(request="Which files mention invoices?")):
    """A request to plan, or a ready plan; both in a dialect, if one is named.

    With a conversation, the request is a message in it; "new" begins one.
    """

    request: FreeText | None = None
    plan: AnyPlanJson | None = None
    conversation: ConversationId | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.request is None and self.plan is None:
            raise ValueError("give a request or a plan")
        if self.conversation is None:
            return self
        if self.plan is not None or self.request is None:
            raise ValueError("a conversation takes a request in words, not a plan")
        if len(self.request) > MAX_LENGTH:
            raise ValueError(f"a message has at most {MAX_LENGTH:,} characters")
        return self


class NewMessage(RequestOptions, json_schema_extra=_example(text="Which of them are of May?")):
    """A message in a conversation; the options count if it is taken for a new request."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_LENGTH, pattern=r"\S")]


class PlanBody(Input, json_schema_extra=_example(plan=_PLAN)):
    """A plan, in a dialect if one is named."""

    plan: AnyPlanJson
    dialect: InDialect = None


class NewPlanBody(PlanBody, ForTeam):
    """A plan of no run, and the agents it may name."""


class PlanQuery(Input):
    """The dialect to write the plan in; `results` adds what is known of its run."""

    dialect: InDialect = None
    results: bool = False

    @model_validator(mode="after")
    def _of_a_dialect(self) -> Self:
        if self.results and self.dialect is None:
            raise ValueError("results come with a dialect; GET /v1/runs/{id} has them all")
        return self


class NewPreview(Input, json_schema_extra=_example(given={"weather": {"degrees": 3}})):
    """Results that stand in for those of steps that only read, by step.

    `fresh` forgets what was read, and given, for an earlier preview.
    """

    given: dict[str, Json] = {}
    fresh: Flag = False


class Decision(Input, json_schema_extra=_example(approve=_HASH)):
    """Exactly one of: approve the plan or its preview with this hash, reject it, ask for changes.

    Of the calls of an approved preview, some can be left out, and inputs of some changed; `fresh`
    reads again what was read for it.
    """

    approve: Short | None = None
    leave_out: list[Short] = []
    change: dict[str, dict[str, Json]] = {}
    fresh: Flag = False
    reject: Flag = False
    changes: FreeText | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum((self.approve is not None, self.reject, self.changes is not None)) != 1:
            raise ValueError("give exactly one of approve, reject and changes")
        if self.approve is None and (self.leave_out or self.change or self.fresh):
            raise ValueError("leave_out, change and fresh go with approve")
        return self


class AnswerBody(Input, json_schema_extra=_example(question="weather", answer="allow")):
    """The answer to a question; `you_decide` leaves it to the planner.

    `hash` is that of the question: the answer counts for no other one of the same name. `seen` is
    what a preview told of the files: if they have changed, the answer is refused. With
    `change`, the call that asks for consent is made with these values instead.
    """

    question: Short
    hash: Text = ""
    answer: Json = None
    you_decide: Flag = False
    seen: Text = ""
    change: dict[str, Json] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.change is not None and (self.you_decide or self.answer not in (None, "allow")):
            raise ValueError("values of your own allow the call: give them or another answer")
        if self.change is None and not self.you_decide and "answer" not in self.model_fields_set:
            raise ValueError("the answer is missing")
        return self


class TemplateOfRun(Input, json_schema_extra=_example(**_TEMPLATE)):
    """The name under which a run's plan is saved."""

    name: Short
    parameters: dict[str, list[str]] = {}
    required: list[str] = []


class NewTemplate(TemplateOfRun, json_schema_extra=_example(**_TEMPLATE, plan=_PLAN)):
    """A plan to save; `parameters` names the places that become parameters."""

    plan: PlanJson


class Approval(Input, json_schema_extra=_example(server="files", hash=_HASH)):
    """What is approved, by the hash of what was shown."""

    server: Short
    hash: Short


class AgentApproval(Input, json_schema_extra=_example(name="researcher", hash=_HASH)):
    """The agent whose card is approved, by the hash of what was shown."""

    name: Short
    hash: Short


class ReportQuery(Input):
    """The form of a report; without it the Accept header decides."""

    format: Literal["md", "html", "json"] | None = None


class AuditExport(Input):
    """Which events, of whom, and the form; `everything` adds what the runner and models did."""

    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    user: Text = ""
    everything: bool = False
    format: Literal["jsonl", "csv"] = "jsonl"


class DiffQuery(Input):
    """Two revisions; the last two when none is named."""

    from_: int | None = Field(default=None, ge=1, alias="from")
    to: int | None = Field(default=None, ge=1)


class Behaviour(Input):
    """How a schedule behaves; omitted fields stay as they were, or get their default."""

    overlap: Overlap | None = None
    missed: Missed | None = None
    window_minutes: StrictInt | None = Field(default=None, ge=1, le=10**7)
    jitter_seconds: StrictInt | None = Field(default=None, ge=0, le=86_400)
    max_failures: StrictInt | None = Field(default=None, ge=1, le=10**6)
    budget: BudgetLimits | None = None
    bounds: dict[str, Bound] | None = None

    def settings(self) -> Any:
        """Returns the given fields as arguments of the library."""
        names = Behaviour.model_fields
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class ChangedSchedule(Behaviour, json_schema_extra=_example(timing=_TIMING)):
    """The fields of a schedule to change."""

    timing: Timing | None = None
    plan: PlanJson | None = None
    approve: Text = ""


class NewSchedule(
    ChangedSchedule, json_schema_extra=_example(template="weather", timing=_TIMING, approve=_HASH)
):
    """When, and what: a plan, a run's plan, a template or a request; and the approved hash."""

    name: Text = ""
    run: Text = ""
    template: Text = ""
    parameters: dict[str, Json] = {}
    request: Annotated[str, StringConstraints(max_length=200_000)] = ""


class Backfill(
    Input, json_schema_extra=_example(**{"from": "2026-11-01T00:00Z", "to": "2026-11-08T00:00Z"})
):
    """The first and the last time."""

    from_: AwareDatetime = Field(alias="from")
    to: AwareDatetime


class Preview(Timing, json_schema_extra=_example(**_TIMING, count=3)):
    """A timing, and how many of its fires to compute."""

    every_minutes: StrictInt | None = Field(default=None, ge=1, le=10**7)
    count: int = Field(default=5, ge=1, le=100)
    after: AwareDatetime | None = None


class ModelChoice(Input, json_schema_extra=_example(kind="auto")):
    """A model to plan with; a key that is given is kept in memory only."""

    kind: Literal["auto", "key", "server", "embedded", "rules"]
    model: Text = ""
    url: Text = ""
    variable: Text = ""
    api_key: SecretStr = SecretStr("")
