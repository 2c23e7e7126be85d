"""Settings of the planner and its models, apart from what plans: to read them loads no more."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final, cast

from pydantic import Field, field_validator

from plansmith.plan.data import Flag, Number, Record, StrictInt

ROLES: Final = ("plan", "triage", "agents", "report")
_ZONES: Final = "/usr/share/zoneinfo/"


def system_timezone() -> str:
    """Returns the name of this machine's time zone; UTC if it names none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named or ".." in named or not os.path.isfile(_ZONES + named):  # noqa: PTH113
        named = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return "UTC" if named in ("", "Etc/UTC") else named


class Fallback(StrEnum):
    """Which plan to use instead: the model's text as a reply, three general steps, or none."""

    REPLY = "reply"
    THREE_STEPS = "three_steps"
    NONE = "none"


class PlannerSettings(Record):
    """How plans are made."""

    top_k: StrictInt = Field(default=6, ge=1, description="tools and agents offered to the model")
    max_steps: StrictInt = Field(default=12, ge=1, description="more steps than this are an error")
    repairs: StrictInt = Field(default=2, ge=0, description="rounds in which a plan is repaired")
    fallback: Fallback = Field(
        default=Fallback.REPLY, description="the plan if the model gives none"
    )
    ask_for_missing: Flag = Field(default=True, description="ask the person for missing arguments")
    strict_shortlist: Flag = Field(
        default=False, description="a plan that uses what was not offered is an error"
    )
    semantic: Flag = Field(default=False, description="rank tools by meaning too, with MiniLM")
    triage: Flag = Field(default=True, description="answer small talk and simple facts at once")
    background_search: Flag = Field(default=False, description="search before planning")
    context_tokens: StrictInt = Field(default=6000, ge=0, description="limit of the context")
    source_seconds: Number = Field(default=10.0, gt=0, description="time limit of a source")
    timezone: str = Field(
        default_factory=system_timezone,
        description="the person's time zone; by default that of the machine",
    )
    prompts: Path | None = Field(default=None, description="folder with prompts of your own")


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
    tries: StrictInt = Field(default=3, ge=1)
    context_tokens: StrictInt = Field(default=32_000, ge=256)
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
        return cast("ModelSettings | None", getattr(self, name)) or self.plan
