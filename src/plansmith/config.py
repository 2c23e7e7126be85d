"""Loads settings: defaults, the user's file, the project's file, environment variables."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pydantic import Field, ValidationError, field_validator

from plansmith.adapters.agents.a2a.settings import AgentSettings
from plansmith.adapters.notices.settings import NoticeSettings
from plansmith.adapters.oidc.settings import OidcSettings
from plansmith.adapters.protected_files import PROJECT_FILE, protect
from plansmith.adapters.secrets import SecretSource
from plansmith.adapters.tools.mcp.settings import McpSettings
from plansmith.adapters.tools.mcp.trusted_copy import read_regular_file
from plansmith.engine.run_queue import QueueLimits
from plansmith.errors import Misconfigured
from plansmith.folder_settings import Table, at, harmless, with_paths
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Flag, Number, Record, Whole
from plansmith.plan.limits import BudgetLimits, Limits, why_invalid
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.planner.settings import PlannerSettings
from plansmith.review.settings import ReviewPolicy
from plansmith.text import safe
from plansmith.trust import Project, TrustBook, left_out

if TYPE_CHECKING:
    import tomllib
else:
    lazy_modules(globals(), tomllib="tomllib")

_log: Final = logging.getLogger("plansmith")
ROLES: Final = ("plan", "triage", "agents", "report")
_FIX_FILE: Final = Sentence("error.fix_file")
_ENVIRONMENT: Final = {
    "PLANSMITH_MODEL": ("models", "plan", "model"),
    "PLANSMITH_BASE_URL": ("models", "plan", "base_url"),
    "PLANSMITH_API_KEY_ENV": ("models", "plan", "api_key_env"),
    "PLANSMITH_TRIAGE_MODEL": ("models", "triage", "model"),
    "PLANSMITH_STORE": ("store",),
    "PLANSMITH_TIMEZONE": ("planner", "timezone"),
    "PLANSMITH_PROMPTS": ("planner", "prompts"),
}


class ModelSettings(Record):
    """One model: `provider:name` or `auto`, where it is, and its limits.

    Attributes:
        model: The name of a model, such as `openai:gpt-5`, `local`, `rules` or `auto`.
        base_url: The address of a server that speaks OpenAI's protocol.
        api_key_env: The environment variable that has the key.
        timeout_s: After how many seconds a call fails.
        silence_s: After how many seconds without a word a call fails.
        tries: How often a call is tried that may succeed later.
        context_tokens: How much the model can read.
        output: How it is asked for JSON: `json_schema`, `tool`, `text`, or `auto` to find out.
    """

    model: str = Field(default="auto", min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_s: Number = Field(default=120.0, gt=0)
    silence_s: Number = Field(default=60.0, gt=0)
    tries: Whole = Field(default=3, ge=1)
    context_tokens: Whole = Field(default=32_000, ge=256)
    output: str = Field(default="auto", pattern="^(auto|json_schema|tool|text)$")


class Models(Record):
    """The model of each role; a role without one uses the planning model."""

    plan: ModelSettings = ModelSettings.with_defaults()
    triage: ModelSettings | None = None
    agents: ModelSettings | None = None
    report: ModelSettings | None = None

    @field_validator("plan", "triage", "agents", "report", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return {"model": value} if isinstance(value, str) else value

    def role(self, name: str) -> ModelSettings:
        """Returns the model settings of a role."""
        return cast("ModelSettings | None", getattr(self, name)) or self.plan


class BuiltinSettings(Record):
    """The built-in tools: whether they are on, may write, and which hosts they may reach.

    Attributes:
        enabled: Whether there are built-in tools, and a planner is told the names of files.
        write: Whether they may change files.
        hosts: Hosts that may be fetched from, by name or pattern.
        private: Addresses of your own network that may be fetched from.
        databases: Databases for SQL, by name.
        writable: Databases of these that may be changed.
    """

    enabled: Flag = True
    write: Flag = True
    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    databases: dict[str, str] = {}
    writable: tuple[str, ...] = ()


class WorkerSettings(Record):
    """How many runs workers execute: each of them, all together, and how many start in a time.

    Attributes:
        concurrency: How many runs one worker executes at once.
        total: How many runs all workers of a folder execute at once.
        starts: How many runs start in `seconds`.
        seconds: The time for `starts`.
    """

    concurrency: Whole = Field(default=10, ge=1, le=1000)
    total: Whole | None = Field(default=None, ge=1)
    starts: Whole | None = Field(default=None, ge=1)
    seconds: Number = Field(default=60.0, gt=0)

    def limits(self) -> QueueLimits:
        """Returns the limits of the queue."""
        return QueueLimits(self.concurrency, self.total, self.starts, self.seconds)


class Settings(Record):
    """All settings.

    Attributes:
        models: The models.
        planner: How plans are made.
        review: What needs a person's review.
        budget: What one run may use.
        run: Limits of runs.
        builtin: The built-in tools.
        mcp: MCP servers.
        agents: A2A agents by name.
        secrets: Secrets by name.
        tools: Files with tools: Python functions, or descriptions in JSON.
        documents: Files and folders that a planner may read.
        profile: A file about you: language, role, constraints.
        cache: Where indexes are kept.
        store: Where runs are kept, such as `sqlite:///runs.db`.
        workers: Limits of workers.
        keep_runs: How long a server keeps runs that are over, such as `90d`; empty for ever.
        oidc: Logging in with OpenID Connect.
        notices: Where people are told that something waits, by name.
    """

    models: Models = Models.with_defaults()
    planner: PlannerSettings = PlannerSettings.with_defaults()
    review: ReviewPolicy = ReviewPolicy.with_defaults()
    budget: BudgetLimits = BudgetLimits.with_defaults()
    run: Limits = Limits.with_defaults()
    builtin: BuiltinSettings = BuiltinSettings.with_defaults()
    mcp: McpSettings = McpSettings.with_defaults()
    agents: dict[str, AgentSettings] = {}
    secrets: dict[str, SecretSource] = {}
    tools: tuple[Path, ...] = ()
    documents: tuple[Path, ...] = ()
    profile: Path | None = None
    cache: Path | None = None
    store: str = ""
    workers: WorkerSettings = WorkerSettings.with_defaults()
    keep_runs: str = Field(default="", pattern=r"^([1-9]\d{0,4}[hdw])?$")
    oidc: OidcSettings | None = None
    notices: dict[str, NoticeSettings] = {}

    # Whether journals tell in which folder their runs work.
    records_folder: ClassVar[bool] = True

    def store_url(self, environment: Mapping[str, str] | None = None) -> str:
        """Returns the store's URL: the setting, else a SQLite file in the user's data folder."""
        return self.store or f"sqlite:///{data_folder(environment) / 'plansmith.db'}"

    def folder(self) -> Path:
        """Returns the folder that tools work in."""
        return Path.cwd()

    def data(self) -> Path:
        """Returns the folder of approvals and agent cards."""
        return data_folder()


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the user's data folder, which holds runs, approvals and agent cards."""
    environment = os.environ if environment is None else environment
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "plansmith"


def state_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the user's folder for what may be lost, such as the lines typed in a chat."""
    environment = os.environ if environment is None else environment
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "plansmith"


def config_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the folder of the user's own settings."""
    environment = os.environ if environment is None else environment
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "plansmith"


def load_settings(
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = _log.warning,
) -> Settings:
    """Loads and merges all settings: later sources override earlier ones, `changes` all others.

    Only the harmless settings of a project's file are used, unless the user trusts its content;
    `tell` is called with a message about those that were ignored.
    """
    environment = os.environ if environment is None else environment
    merged = _user_settings(config_folder(environment))
    merged = merge_tables(
        merged, _project_settings(folder or Path.cwd(), merged, environment, tell)
    )
    merged = merge_tables(merged, _from_environment(environment))
    return parse_settings(
        merge_tables(merged, dict(changes or {})), Sentence("settings.the_settings")
    )


def _user_settings(folder: Path) -> Table:
    """Reads the user's settings; paths in them are relative to their folder."""
    path = folder / "config.toml"
    if not path.is_file():
        return {}
    try:
        found = read_table(path.read_bytes(), path)
    except OSError as error:
        raise Misconfigured(
            Sentence("error.file_unreadable", path=path, error=error), hint=_FIX_FILE
        ) from None
    parse_settings(found, safe(str(path)))
    return with_paths(found, lambda _, name: str(at(folder, name)))


def _project_settings(
    folder: Path, base: Table, environment: Mapping[str, str], tell: Callable[[str], None]
) -> Table:
    """Returns the project's settings that may be used: all if trusted, else the harmless ones."""
    project = read_project(folder, base, tell)
    if project is None:
        return {}
    if project.left:
        book = TrustBook(data_folder(environment))
        try:
            # Files that the settings name are not read before the user has trusted the folder once.
            known = book.get(folder)
            content = project.content() if known else None
        except Misconfigured as error:
            known, content = None, None
            tell(with_hint(error.message, error.hint))
        if content is not None and book.trusts(content):
            protect(content.files)
            return book.settings(content, tell)
        tell(left_out(project, changed=known is not None))
    place = folder.resolve()
    return with_paths(project.kept, lambda _, name: str(at(place, name).resolve()))


def read_project(folder: Path, base: Table, tell: Callable[[str], None]) -> Project | None:
    """Reads a folder's settings file and tells its harmless settings from the others."""
    path = folder.resolve() / PROJECT_FILE
    try:
        data = read_regular_file(path, links=False)
    except Misconfigured as error:
        tell(with_hint(error.message, error.hint))
        return None
    if data is None:
        return None
    found = read_table(data, path)
    parse_settings(found, safe(str(path)))
    kept, left = harmless(found, parse_settings(base, Sentence("settings.the_settings")), folder)
    return Project(folder.resolve(), data, found, kept, tuple(left))


def look_at(folder: Path, environment: Mapping[str, str] | None = None) -> Project | None:
    """Reads a folder's settings file for a user who decides whether to trust it."""
    notes: list[str] = []
    found = read_project(folder, _user_settings(config_folder(environment)), notes.append)
    if notes:
        raise Misconfigured(notes[0], hint=Sentence("settings.regular_file"))
    return found


def read_table(data: bytes, path: Path) -> Table:
    """Reads the text of a settings file."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        why = Sentence("error.file_unreadable", path=safe(str(path)), error=safe(str(error)))
        raise Misconfigured(why, hint=_FIX_FILE) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, path in _ENVIRONMENT.items():
        if environment.get(variable):
            value: Any = environment[variable]
            for key in reversed(path):
                value = {key: value}
            found = merge_tables(found, value)
    return found


def merge_tables(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns two tables of settings as one; where both have a value, `more` wins."""
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        if key in ROLES and isinstance(old, str):
            old = {"model": old}
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = merge_tables(cast("Any", old), cast("Any", value)) if both else value
    return merged


def parse_settings(value: Mapping[str, Any], source: str) -> Settings:
    """Reads a table of settings; the error names `source` and the wrong one."""
    # Most people set nothing but a store: to make the validator takes longer than to list runs.
    if value.keys() <= {"store"} and isinstance(value.get("store", ""), str):
        return Settings.model_construct(None, **value)
    try:
        return Settings.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors()[0]
        hint = Sentence("settings.correct_it")
        if first["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(first["loc"][-1]), _known_names(), n=1)
            hint = (
                Sentence("hint.mean", names=Sentence("ps.quoted", text=near[0]))
                if near
                else Sentence("settings.remove_it")
            )
        problem = Sentence("text.with_reason", text=source, reason=why_invalid(error))
        raise Misconfigured(problem, hint=hint) from None


def _known_names() -> list[str]:
    return [name for part in _PARTS for name in part.model_fields]


_PARTS: Final[tuple[type[Record], ...]] = (
    *(Settings, Models, ModelSettings, PlannerSettings),
    *(ReviewPolicy, BudgetLimits, Limits, BuiltinSettings),
    *(McpSettings, AgentSettings, SecretSource, OidcSettings, WorkerSettings, NoticeSettings),
)
