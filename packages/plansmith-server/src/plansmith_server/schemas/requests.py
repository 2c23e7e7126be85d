"""Models of the bodies and queries that clients may send."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)

from plansmith.formats.dialect import dialect_names
from plansmith.plan.data import Flag, Json, Whole
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.run_options import OriginKind, Profile, TeamName
from plansmith.plan.schedules import Missed, Overlap
from plansmith.plan.timing import Timing
from plansmith_planner.threads.turn import LONGEST
from plansmith_server.openapi import Input


def _printable(text: str) -> str:
    if not text.isprintable() or (text and not text.strip(" .")):
        raise ValueError("use letters and digits on one line")
    return text


def _known_dialect(name: str) -> str:
    if name not in dialect_names():
        raise ValueError(f"the dialect is one of {', '.join(map(repr, dialect_names()))}")
    return name


Said = Annotated[str, StringConstraints(min_length=1, max_length=200_000, pattern=r"\S")]
Short = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Cursor = Annotated[str, StringConstraints(max_length=100)]
# Others than these cannot be the id of a conversation.
ConversationId = Annotated[str, StringConstraints(max_length=200), AfterValidator(_printable)]
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


class ForTeam(Input):
    """The agents that work on a plan; `database` is a name in the server's settings."""

    team: TeamName | None = None
    database: Annotated[str, StringConstraints(max_length=300)] = ""

    @model_validator(mode="after")
    def _database_of_team(self) -> Self:
        if (self.team == "data") != bool(self.database):
            raise ValueError("the team data needs a database, and nothing else does")
        return self


class RequestOptions(ForTeam):
    """How a request is planned and run."""

    dialect: InDialect = None
    locale: Annotated[str, StringConstraints(max_length=35)] = ""
    mode: Literal["review", "read_only"] = "review"
    budget: BudgetLimits | None = None
    max_steps: Whole | None = Field(default=None, ge=1, le=10_000)
    replan: Literal["", "never", "on_failure", "after_each"] = ""
    profile: Profile | None = None

    def options(self) -> dict[str, Any]:
        """Returns the options as those of a `PlanRequest`."""
        return {
            "dialect": self.dialect or "",
            "locale": self.locale,
            "profile": self.profile,
            "max_steps": self.max_steps,
            "replan": self.replan,
            "budget": self.budget.to_json() if self.budget else None,
            "mode": self.mode,
        }


class NewRun(RequestOptions):
    """A request to plan, or a ready plan; both in a dialect, if one is named.

    With a conversation, the request is a message in it; "new" begins one.
    """

    request: Said | None = None
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
        if len(self.request) > LONGEST:
            raise ValueError(f"a message has at most {LONGEST:,} characters")
        return self


class NewMessage(RequestOptions):
    """A message in a conversation; the options count if it is taken for a new request."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST, pattern=r"\S")]


class PlanBody(Input):
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


class Decision(Input):
    """Exactly one of: approve the plan with this hash, reject it, ask for changes."""

    approve: Short | None = None
    reject: Flag = False
    changes: Said | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum((self.approve is not None, self.reject, self.changes is not None)) != 1:
            raise ValueError("give exactly one of approve, reject and changes")
        return self


class AnswerBody(Input):
    """The answer to a question; `you_decide` leaves it to the planner.

    `hash` is that of the question: the answer counts for no other one of the same name. `seen` is
    what a preview told of the files: if they have changed, the answer is refused. With
    `change`, the call that asks for consent is made with these values instead.
    """

    question: Short
    hash: Annotated[str, StringConstraints(max_length=200)] = ""
    answer: Json = None
    you_decide: Flag = False
    seen: Annotated[str, StringConstraints(max_length=200)] = ""
    change: dict[str, Json] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.change is not None and (self.you_decide or self.answer not in (None, "allow")):
            raise ValueError("values of your own allow the call: give them or another answer")
        if self.change is None and not self.you_decide and "answer" not in self.model_fields_set:
            raise ValueError("the answer is missing")
        return self


class FileQuery(Input):
    """With `download`, the file is sent to be saved, not shown."""

    download: Literal["true", "false"] = "false"


class ReasonBody(Input):
    """The reason, which the journal keeps."""

    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


class ResumeBody(Input):
    """By `force`, the run is also taken from another process that lives, which is recorded."""

    force: Flag = False


class RetryBody(Input):
    """What to continue with: what is not done, everything from a step on, or a changed plan."""

    from_step: Short | None = None
    plan: PlanJson | None = None


class SkipBody(Input):
    """The step to skip."""

    step: Short


class TemplateOfRun(Input):
    """The name under which a run's plan is saved."""

    name: Short
    parameters: dict[str, list[str]] = {}
    required: list[str] = []


class NewTemplate(TemplateOfRun):
    """A plan to save; `parameters` names the places that become parameters."""

    plan: PlanJson


class TemplateUse(Input):
    """The values of a template's parameters."""

    parameters: dict[str, Json] = {}


class Approval(Input):
    """What is approved, by the hash of what was shown."""

    server: Short
    hash: Short


class AgentApproval(Input):
    """The agent whose card is approved, by the hash of what was shown."""

    name: Short
    hash: Short


class RunQuery(Input):
    """Which runs, and how many; `since` and `until` are about when a run was created."""

    cursor: Cursor = ""
    limit: int = Field(default=50, ge=1, le=500)
    status: Annotated[str, StringConstraints(max_length=200)] = ""
    q: Annotated[str, StringConstraints(max_length=500)] = ""
    origin: OriginKind | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None


class ConversationQuery(Input):
    """Whose conversations, and how many; without an owner, all."""

    cursor: Annotated[str, StringConstraints(max_length=200)] = ""
    limit: int = Field(default=50, ge=1, le=500)
    owner: Annotated[str, StringConstraints(max_length=300)] | None = None


class ConversationWait(Input):
    """Waits at most `wait_s` seconds for an entry after the number `after`."""

    after: int = Field(default=0, ge=0, le=2**53)
    wait_s: float = Field(default=0.0, ge=0, le=60)


class AfterQuery(Input):
    """Events after a number."""

    after: int = Field(default=0, ge=0, le=2**53)


class InboxQuery(Input):
    """With `count`, only how much waits."""

    count: bool = False


class StreamQuery(Input):
    """One run or all; events after a position; a language instead of Accept-Language.

    `brief` leaves the open runs out of the snapshot.
    """

    brief: bool = False
    run: Cursor = ""
    lang: Annotated[str, StringConstraints(max_length=35)] = ""
    after: int | None = Field(default=None, ge=0, le=2**53)


class ReportQuery(Input):
    """The form of a report; without it the Accept header decides."""

    format: Literal["md", "html", "json"] | None = None


class AuditExport(Input):
    """Which events, of whom, and the form; `everything` adds what the runner and models did."""

    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    user: Annotated[str, StringConstraints(max_length=100)] = ""
    everything: bool = False
    format: Literal["jsonl", "csv"] = "jsonl"


class DiffQuery(Input):
    """Two revisions; the last two when none is named."""

    from_: int | None = Field(default=None, ge=1, alias="from")
    to: int | None = Field(default=None, ge=1)


class ToolQuery(Input):
    """The text to search for."""

    q: Annotated[str, StringConstraints(max_length=1000)] = ""


ShortName = Annotated[str, StringConstraints(max_length=300)]


class Behaviour(Input):
    """How a schedule behaves; omitted fields stay as they were, or get their default."""

    overlap: Overlap | None = None
    missed: Missed | None = None
    window_minutes: Whole | None = Field(default=None, ge=1, le=10**7)
    jitter_seconds: Whole | None = Field(default=None, ge=0, le=86_400)
    max_failures: Whole | None = Field(default=None, ge=1, le=10**6)
    budget: BudgetLimits | None = None

    def settings(self) -> Any:
        """Returns the given fields as arguments of the library."""
        names = Behaviour.model_fields
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class NewSchedule(Behaviour):
    """When, and what: a plan, a run's plan, a template or a request; and the approved hash."""

    timing: Timing | None = None
    name: ShortName = ""
    plan: dict[str, Any] | None = None
    run: ShortName = ""
    template: ShortName = ""
    parameters: dict[str, Json] = {}
    request: Annotated[str, StringConstraints(max_length=200_000)] = ""
    approve: ShortName = ""


class ChangedSchedule(Behaviour):
    """The fields of a schedule to change."""

    timing: Timing | None = None
    plan: dict[str, Any] | None = None
    approve: ShortName = ""


class Backfill(Input):
    """The first and the last time."""

    from_: AwareDatetime = Field(alias="from")
    to: AwareDatetime


class HistoryQuery(Input):
    """How many fires to return."""

    limit: int = Field(default=50, ge=1, le=1000)


class Preview(Input):
    """A timing, and how many of its fires to compute."""

    every_minutes: Whole | None = Field(default=None, ge=1, le=10**7)
    daily_at: ShortName | None = None
    cron: ShortName | None = None
    once_at: ShortName | None = None
    timezone: ShortName = "UTC"
    count: int = Field(default=5, ge=1, le=100)
    after: AwareDatetime | None = None

    def timing(self) -> Timing:
        """Returns the timing."""
        fields = self.model_dump(exclude={"count", "after"}, exclude_none=True)
        return Timing.model_validate(fields)

    @model_validator(mode="after")
    def _a_timing(self) -> Self:
        self.timing()
        return self


class ModelChoice(Input):
    """A model to plan with; a key that is given is kept in memory only."""

    kind: Literal["auto", "key", "server", "embedded", "rules"]
    model: Annotated[str, StringConstraints(max_length=200)] = ""
    url: Annotated[str, StringConstraints(max_length=300)] = ""
    variable: Annotated[str, StringConstraints(max_length=100)] = ""
    api_key: SecretStr = SecretStr("")


class ModelPull(Input):
    """An embedded model to download; without a name the default one."""

    name: Annotated[str, StringConstraints(max_length=100)] = ""


class LastResult(Input):
    """The tool whose newest result is wanted."""

    tool: Short


class PutQuery(Input):
    """Whether a file of the same name is replaced."""

    replace: bool = False
