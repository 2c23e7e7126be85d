"""Loads settings (defaults, the user's and the project's file, the environment) and profiles."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pydantic import ValidationError

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Record
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import Profile
from plansmith.plan.sentence import Sentence, did_you_mean, with_hint
from plansmith.plan.validation_errors import why_invalid
from plansmith.protected_files import PROJECT_FILE, protect
from plansmith.review.settings import ReviewPolicy
from plansmith.secrets import SecretSource
from plansmith.text import safe
from plansmith_cli.folders import config_folder, data_folder
from plansmith_cli.trust import Project, Table, TrustBook, at, ignored_settings, with_paths
from plansmith_cli.ui import output as ui
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.mcp.settings import McpSettings
from plansmith_connect.mcp.trusted_copy import read_regular_file
from plansmith_desk.settings import BuiltinSettings
from plansmith_planner.settings import ROLES, Models, ModelSettings, PlannerSettings
from plansmith_server.settings import KeepRuns, NoticeSettings, OidcSettings, WorkerSettings

if TYPE_CHECKING:
    import tomllib

    from plansmith.formats import text as formats
else:
    lazy_modules(globals(), formats="plansmith.formats.text", tomllib="tomllib")

_log: Final = logging.getLogger("plansmith")
_ALL: Final = Sentence("the settings")
_MAX_PROFILE: Final = 1_000_000  # bytes
_PROFILE_HINT: Final = Sentence(
    "a profile has name, role, goals, tasks, backstory, "
    "language, tone, hard_constraints and soft_constraints"
)
_FIX_FILE: Final = Sentence("correct or remove the file")
_ENVIRONMENT: Final = {
    "PLANSMITH_MODEL": ("models", "plan", "model"),
    "PLANSMITH_BASE_URL": ("models", "plan", "base_url"),
    "PLANSMITH_API_KEY_ENV": ("models", "plan", "api_key_env"),
    "PLANSMITH_TRIAGE_MODEL": ("models", "triage", "model"),
    "PLANSMITH_STORE": ("store",),
    "PLANSMITH_TIMEZONE": ("planner", "timezone"),
    "PLANSMITH_PROMPTS": ("planner", "prompts"),
}


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
    store: str = ""
    workers: WorkerSettings = WorkerSettings.with_defaults()
    keep_runs: KeepRuns = ""
    oidc: OidcSettings | None = None
    notices: dict[str, NoticeSettings] = {}

    # Whether journals tell in which folder their runs work.
    records_folder: ClassVar[bool] = True

    def store_url(self, environment: Mapping[str, str] = os.environ) -> str:
        """Returns the store's URL: the setting, else a SQLite file in the user's data folder."""
        return self.store or f"sqlite:///{data_folder(environment) / 'plansmith.db'}"

    def folder(self) -> Path:
        return Path.cwd()

    def data(self) -> Path:
        return data_folder()

    def stages(self) -> Mapping[str, Settings]:
        """Returns the settings after each source of them; the last ones are these."""
        found, merged = {"default": Settings()}, Table()
        # Warnings about ignored settings were shown when these settings were loaded.
        for source, table in _sources(Path.cwd(), os.environ, lambda _: None).items():
            merged = merge_tables(merged, table)
            found[source] = parse_settings(merged, _ALL)
        return found | {"flag": self}


def load_settings(
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    changes: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = _log.warning,
) -> Settings:
    """Loads and merges all settings: later sources override earlier ones, `changes` all others.

    Those of a project's file count only if the user trusts its content; else `tell` is called with
    a message about what was ignored.
    """
    tables = _sources(folder or Path.cwd(), environment, tell).values()
    return parse_settings(reduce(merge_tables, [*tables, changes or {}]), _ALL)


def _sources(
    folder: Path, environment: Mapping[str, str], tell: Callable[[str], None]
) -> dict[str, Table]:
    """Returns what each source sets; a later one wins."""
    return {
        "person": read_file(config_folder(environment) / "config.toml"),
        "project": _project_settings(folder, environment, tell),
        "environment": _from_environment(environment),
    }


def read_file(path: Path) -> Table:
    """Reads a settings file of its owner; paths in it are relative to its folder."""
    if not path.is_file():
        return {}
    try:
        found = _read_table(path.read_bytes(), path)
    except OSError as error:
        raise Misconfigured(
            Sentence("{path} cannot be read: {error}", path=path, error=error), hint=_FIX_FILE
        ) from None
    parse_settings(found, safe(str(path)))
    return with_paths(found, lambda _, name: str(at(path.parent, name)))


def _project_settings(
    folder: Path, environment: Mapping[str, str], tell: Callable[[str], None]
) -> Table:
    """Returns the settings of the project if they are trusted, else none."""
    book, trusted = TrustBook(data_folder(environment)), False
    try:
        read_regular_file(folder.resolve() / PROJECT_FILE, links=False)
    except Misconfigured as error:  # whoever made the folder must not stop every command
        tell(error.message)
        return {}
    project = look_at(folder)
    if project is None or not project.settings:
        return {}
    try:
        # Files that the settings name are not read before the user has trusted the folder once.
        trusted = book.trusts(project)
    except Misconfigured as error:
        tell(with_hint(error.message, error.hint))
    if trusted:
        protect(project.files)
        return book.settings(project, tell)
    tell(ignored_settings(project, changed=book.get(folder) is not None))
    return {}


def look_at(folder: Path) -> Project | None:
    """Reads a folder's settings file, if there is one; refuses a link or anything else."""
    path = folder.resolve() / PROJECT_FILE
    data = read_regular_file(path, links=False)
    if data is None:
        return None
    found = _read_table(data, path)
    parse_settings(found, safe(str(path)))
    return Project(folder.resolve(), data, found)


def _read_table(data: bytes, path: Path) -> Table:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        why = Sentence(
            "{path} cannot be read: {error}", path=safe(str(path)), error=safe(str(error))
        )
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
        known = (name for part in _PARTS for name in part.model_fields)
        raise _wrong(error, source, known, Sentence("remove it")) from None


def _wrong(error: ValidationError, source: str, known: Iterable[str], other: str) -> Misconfigured:
    """Says which field is wrong; `other` is the hint for a name that is like no `known` one."""
    first = error.errors()[0]
    hint: str = Sentence("correct it, or remove it to use the default")
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(first["loc"][-1]), known, otherwise=other)
    problem = Sentence("{text}: {reason}", text=source, reason=why_invalid(error))
    return Misconfigured(problem, hint=hint)


def read_profile(path: Path) -> Profile:
    """Reads for whom plans are made, from a YAML, JSON or TOML file."""
    name, kind = safe(path.name), path.suffix.lower()
    if kind not in (".toml", ".yaml", ".yml", ".json"):
        raise ui.wrong(
            "'{name}' is not a YAML, JSON or TOML file",
            "save it as .yaml, .json or .toml",
            name=name,
        )
    data = ui.read_file(str(path))
    if len(data) > _MAX_PROFILE:
        raise ui.wrong(
            "the profile {name} is larger than a megabyte",
            "keep to what a planner should know of a person, and give the rest as documents",
            name=name,
        )
    found: object = _read_table(data, path) if kind == ".toml" else formats.read_text(data)
    if isinstance(found, Problem):
        problem = Sentence("{text}: {reason}", text=name, reason=found.message)
        raise Misconfigured(problem, hint=found.hint)
    if isinstance(found, dict) and found.keys() == {"profile"}:
        found = cast("object", found["profile"])
    if not isinstance(found, dict):
        problem = Sentence(
            "{name} holds a {kind}, not a profile", name=name, kind=type(found).__name__
        )
        raise Misconfigured(problem, hint=_PROFILE_HINT)
    try:
        return Profile.model_validate(found)
    except ValidationError as error:
        raise _wrong(error, name, Profile.model_fields, _PROFILE_HINT) from None


_PARTS: Final[tuple[type[Record], ...]] = (
    *(Settings, Models, ModelSettings, PlannerSettings),
    *(ReviewPolicy, BudgetLimits, Limits, BuiltinSettings),
    *(McpSettings, AgentSettings, SecretSource, OidcSettings, WorkerSettings, NoticeSettings),
)
