"""Settings of the planner, apart from what plans, so that to read settings loads no more."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field

from plansmith.plan.data import Flag, Number, Record, Whole

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

    top_k: Whole = Field(default=6, ge=1, description="tools and agents offered to the model")
    max_steps: Whole = Field(default=12, ge=1, description="more steps than this are an error")
    repairs: Whole = Field(default=2, ge=0, description="rounds in which a plan is repaired")
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
    context_tokens: Whole = Field(default=6000, ge=0, description="limit of the context")
    source_seconds: Number = Field(default=10.0, gt=0, description="time limit of a source")
    timezone: str = Field(
        default_factory=system_timezone,
        description="the person's time zone; by default that of the machine",
    )
    prompts: Path | None = Field(default=None, description="folder with prompts of your own")
