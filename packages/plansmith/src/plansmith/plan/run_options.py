"""What is given with a request: language, limits, profile, conversation and team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationError

from plansmith.errors import Misconfigured
from plansmith.plan.briefs import Message
from plansmith.plan.data import Flag, Json, Record, StrictInt, Text, require_json
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.sentence import Sentence
from plansmith.plan.validation_errors import why_invalid

# `review`: a person sees every plan first; `read_only`: a plan that only reads runs at once.
Mode = Literal["", "review", "read_only"]
# When the run gets a new plan; empty is what the settings say.
Replan = Literal["", "never", "on_failure", "after_each"]
# Which plans another person has to approve: none, those that change something, all.
SecondPerson = Literal["never", "changes", "always"]


def _listed(value: object) -> object:
    return ((value,) if value else ()) if isinstance(value, str) else value


def _readable(message: Message) -> Message:
    require_json(message.text)
    return message


Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class Profile(Record):
    """For whom a plan is made and in which role; without a language, that of the request."""

    name: Text = ""
    role: Text = ""
    goals: Texts = ()
    tasks: Texts = ()
    backstory: Text = ""
    language: Text = ""
    tone: Text = "concise"
    hard_constraints: Texts = ()
    soft_constraints: Texts = ()


TeamName = Literal["research", "data"]


class Team(Record):
    """The team whose agents a run uses, with everything needed to build it again.

    `folder` is where its files go, if not into the run's folder. `database` (or several by name)
    never holds a password: `password_needed` says that an address had one.
    """

    name: TeamName
    documents: tuple[Text, ...] = ()
    folder: Text = ""
    database: Text = ""
    databases: dict[str, Text] = {}
    password_needed: Flag = False
    sql_only: Flag = False


class RunOptions(Record):
    """Everything given with a request; planning again uses the same options.

    `thread` and `message` are the conversation of the request and its number there.
    `second_person` is the rule of the settings when the run was created.
    """

    locale: Text = ""
    target: Text = ""
    top_k: StrictInt | None = None
    profile: Profile | None = None
    history: tuple[Annotated[Message, AfterValidator(_readable)], ...] = ()
    max_steps: StrictInt | None = None
    budget: BudgetLimits | None = None
    mode: Mode = ""
    dialect: Text = ""
    replan: Replan = ""
    team: Team | None = None
    thread: Text = ""
    message: StrictInt | None = None
    second_person: SecondPerson = "never"


NO_OPTIONS: Final = RunOptions.with_defaults()


def read_options(fields: Mapping[str, object]) -> RunOptions:
    """Reads the options a program gave, but for empty ones; the error names the wrong one."""
    try:
        return RunOptions.model_validate({name: each for name, each in fields.items() if each})
    except ValidationError as error:
        raise Misconfigured(Sentence("the option {error}", error=why_invalid(error))) from None


OriginKind = Literal[
    "request", "run", "undo", "template", "schedule", "a2a", "conversation", "notes"
]


class Origin(Record):
    """What a run was made from: the kind of thing and its `id`.

    `request`: a person or a program asked for it. `run`: it repeats or continues the run `id`.
    `undo`: it takes back what the run `id` did. `template` and `schedule`: `id` names which one.
    `a2a`: `id` is the context of the A2A client. `conversation`: `id`, `thread`, `user` and
    `handed_over` say where a chat application keeps it. `notes`: an agent marks the steps of its
    own plan.
    """

    kind: OriginKind = "request"
    id: str = ""
    thread: str = ""
    user: str = ""
    handed_over: Flag = False

    def to_json(self) -> dict[str, Json]:
        return {"kind": self.kind, **super().to_json()}


OWN_REQUEST: Final = Origin.with_defaults()
