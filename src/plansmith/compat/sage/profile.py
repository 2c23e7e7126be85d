"""SAGE's profile: who plans, in which language and tone, and our constraints with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plansmith.plan.data import Record
from plansmith.plan.run_options import Texts
from plansmith.plan.steps import Text
from plansmith.planner.briefing import profile as briefing


class Profile(Record):
    """A profile with SAGE's defaults; the constraints are ours, and plans are held to them."""

    name: Text = "BaseAgent"
    role: Text = "general assistant"
    goals: Texts = ()
    tasks: Texts = ()
    backstory: Text = ""
    language: Text = "zh"
    tone: Text = "concise"
    hard_constraints: Texts = ()
    soft_constraints: Texts = ()

    def merged(self, **overrides: Any) -> Profile:
        """A copy with other values in some fields; None leaves a field as it is."""
        return self.replace(**{name: each for name, each in overrides.items() if each is not None})

    def render_system_prompt(self) -> str:
        """The profile as text for a prompt."""
        return self.briefing().render()

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Profile:
        """A profile from its fields."""
        return cls.model_validate(dict(data))

    def execute(self, data: Any = None) -> str:
        """The text, with fields changed for this once when a table of them is given."""
        changes: dict[str, Any] = {**data} if isinstance(data, dict) else {}
        return self.merged(**changes).render_system_prompt()

    def briefing(self) -> briefing.Profile:
        """The profile as our planner takes it."""
        return briefing.Profile.model_validate(dict(self))


BaseProfile = Profile
