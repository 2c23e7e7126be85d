"""SAGE's profile: for whom a planner plans, as fields and as the text of a prompt."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from plansmith.plan.run_options import Profile
from plansmith_compat.sage.operator import MapFunction

_UNSET: Final = "- （未指定）"
_GUIDANCE: Final = """Guidance:
- Stay aligned with the role and goals.
- Prefer structured, verifiable outputs.
"""
_LISTS: Final = ("goals", "tasks", "hard_constraints", "soft_constraints")
# SAGE's own fields are always written, ours only where they are used.
_OURS: Final = ("hard_constraints", "soft_constraints")


class SystemPrompt(str):
    """The text of a profile, which still knows the profile and so its constraints."""

    __slots__ = ("profile",)
    profile: BaseProfile


@dataclass
class BaseProfile(MapFunction):
    """A profile with SAGE's fields, and with constraints, which plans are checked against."""

    name: str = "BaseAgent"
    role: str = "general assistant"
    goals: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    backstory: str = ""
    language: str = "zh"
    tone: str = "concise"
    hard_constraints: list[str] = field(default_factory=list[str])
    soft_constraints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        for name in _LISTS:
            given: Any = getattr(self, name)
            setattr(self, name, [given] if isinstance(given, str) else [*(given or ())])

    def render_system_prompt(self) -> SystemPrompt:
        """Returns the profile as the text of a prompt."""
        parts = [
            f"You are **{self.name}**, acting as **{self.role}**.",
            f"Backstory:\n{self.backstory or '(none)'}",
            f"Goals:\n{_items(self.goals)}",
            f"Typical Tasks:\n{_items(self.tasks)}",
            _GUIDANCE,
        ]
        parts[0] += f"\nLanguage: {self.language}\nTone: {self.tone}"
        if self.hard_constraints:
            parts.append(f"Hard constraints:\n{_items(self.hard_constraints)}\n")
        if self.soft_constraints:
            parts.append(f"Soft constraints:\n{_items(self.soft_constraints)}\n")
        prompt = SystemPrompt("\n\n".join(parts))
        prompt.profile = self
        return prompt

    def to_dict(self) -> dict[str, Any]:
        """Returns SAGE's fields as plain values, and constraints if there are any."""
        table = {each.name: getattr(self, each.name) for each in fields(BaseProfile)}
        plain = {name: [*each] if name in _LISTS else each for name, each in table.items()}
        return {name: each for name, each in plain.items() if each or name not in _OURS}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Makes a profile from its fields; what a profile does not have is logged and left out."""
        known = [each.name for each in fields(cls)]
        unknown = [name for name in data if name not in known]
        if unknown:
            message = "a profile has no %s; it has %s"
            logging.getLogger(__name__).warning(message, ", ".join(unknown), ", ".join(known))
        return cls(**{name: each for name, each in data.items() if name in known})

    def merged(self, **overrides: Any) -> Self:
        """Returns a copy with other values in some fields; None leaves a field unchanged."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {name: each for name, each in overrides.items() if each is not None}
        return type(self).from_dict(own | said)

    def execute(self, data: Any = None) -> str:
        """Returns the text; a mapping changes fields for this call only."""
        changes: dict[str, Any] = {**data} if isinstance(data, dict) else {}
        return self.merged(**changes).render_system_prompt()

    def briefing(self) -> Profile:
        """Returns the profile in the form of our planner."""
        table = {each.name: getattr(self, each.name) for each in fields(BaseProfile)}
        return Profile.model_validate(table)


def briefing_of(profile: str | BaseProfile) -> Profile:
    """Returns our planner's form of a profile that is given by itself or as text."""
    known = getattr(profile, "profile", profile)
    if isinstance(known, BaseProfile):
        return known.briefing()
    return Profile(backstory=str(profile), tone="")


def _items(texts: list[str]) -> str:
    return "\n".join(f"- {text}" for text in texts) or _UNSET
