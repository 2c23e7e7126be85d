"""Settings: defaults, a file for the person, a file for the project, the environment (floor 6)."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import Field, ValidationError, field_validator

from plansmith.errors import Misconfigured
from plansmith.plan.data import Number, Record, Whole
from plansmith.planner.settings import PlannerSettings

PROJECT_FILE: Final = "plansmith.toml"
ROLES: Final = ("plan", "triage", "agents", "report")
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
    """One model: `provider:name`, where it is, and its limits."""

    model: str = Field(default="demo", min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_s: Number = Field(default=120.0, gt=0)
    silence_s: Number = Field(default=60.0, gt=0)
    tries: Whole = Field(default=3, ge=1)
    context_tokens: Whole = Field(default=32_000, ge=256)
    output: str = Field(default="auto", pattern="^(auto|json_schema|tool|text)$")


class Models(Record):
    """The models by what they are for; whatever is not said is the planning model."""

    plan: ModelSettings = ModelSettings()
    triage: ModelSettings | None = None
    agents: ModelSettings | None = None
    report: ModelSettings | None = None

    @field_validator("plan", "triage", "agents", "report", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return {"model": value} if isinstance(value, str) else value

    def role(self, name: str) -> ModelSettings:
        """The model of a role."""
        return cast("ModelSettings | None", getattr(self, name)) or self.plan


class Settings(Record):
    """All settings."""

    models: Models = Models()
    planner: PlannerSettings = PlannerSettings()
    tools: tuple[Path, ...] = ()
    documents: tuple[Path, ...] = ()
    profile: Path | None = None
    cache: Path | None = None
    store: str = ""

    def store_url(self, environment: Mapping[str, str] | None = None) -> str:
        """Where runs are kept: what is set, else a file in the person's data folder."""
        if self.store:
            return self.store
        environment = os.environ if environment is None else environment
        home = Path(environment.get("HOME") or Path.home())
        data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
        return f"sqlite:///{data / 'plansmith' / 'plansmith.db'}"


def load_settings(
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings in force: later sources win over earlier ones, `changes` over all."""
    environment = os.environ if environment is None else environment
    merged: dict[str, Any] = {}
    for path in _files(folder or Path.cwd(), environment):
        found = _read(path)
        _parse(found, str(path))
        merged = _merge(merged, found)
    merged = _merge(merged, _from_environment(environment))
    return _parse(_merge(merged, dict(changes or {})), "the settings")


def _files(folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environment.get("HOME") or Path.home())
    base = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    for path in (base / "plansmith" / "config.toml", folder / PROJECT_FILE):
        if path.is_file():
            yield path


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}", hint="mend or remove it") from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, path in _ENVIRONMENT.items():
        if environment.get(variable):
            value: Any = environment[variable]
            for key in reversed(path):
                value = {key: value}
            found = _merge(found, value)
    return found


def _merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        if key in ROLES and isinstance(old, str):
            old = {"model": old}
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge(cast("Any", old), cast("Any", value)) if both else value
    return merged


def _parse(value: Mapping[str, Any], source: str) -> Settings:
    try:
        return Settings.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        hint = first["msg"]
        if first["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(first["loc"][-1]), _known_names(), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "remove it"
        raise Misconfigured(f"{source}: {place} is not right", hint=hint) from None


def _known_names() -> list[str]:
    parts: tuple[type[Record], ...] = (Settings, Models, ModelSettings, PlannerSettings)
    return [name for part in parts for name in part.model_fields]
