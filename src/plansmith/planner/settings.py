"""The planner's settings, with the defaults that stand when nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from plansmith.plan.data import Flag, Number, Record, Whole
from plansmith.planner.fallback import Fallback


class PlannerSettings(Record):
    """How plans are made."""

    top_k: Whole = Field(default=6, ge=1, description="tools and agents offered to the model")
    max_steps: Whole = Field(default=12, ge=1, description="more steps than this are an error")
    repairs: Whole = Field(default=2, ge=0, description="rounds in which the model mends its plan")
    fallback: Fallback = Field(default=Fallback.REPLY, description="what stands in without a plan")
    ask_for_missing: Flag = Field(default=True, description="ask the person for missing arguments")
    semantic: Flag = Field(default=False, description="rank tools by meaning too, with MiniLM")
    triage: Flag = Field(default=True, description="answer small talk and simple facts at once")
    background_search: Flag = Field(default=False, description="search before planning")
    context_tokens: Whole = Field(default=6000, ge=0, description="limit of the context")
    source_seconds: Number = Field(default=10.0, gt=0, description="time limit of a source")
    timezone: str = Field(default="UTC", description="the person's time zone")
    prompts: Path | None = Field(default=None, description="folder with prompts of your own")
