"""The options of DeerFlow's research, from code, from a graph's config or from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import Field

from plansmith.plan.data import Flag, Record, StrictInt

TURNS: Final = 40


class Configuration(Record):
    """The options of research; the defaults are those of DeerFlow's server.

    `enforce_web_search` gives every plan at least one step that searches; without
    `enable_web_search` nothing is searched, whatever else is set. `resources`, `mcp_settings`,
    `report_style`, `enforce_researcher_search` and `interrupt_before_tools` are carried for
    programs that read them.
    """

    max_plan_iterations: StrictInt = Field(default=1, ge=1)
    max_step_num: StrictInt = Field(default=3, ge=1)
    max_search_results: StrictInt = Field(default=3, ge=1)
    auto_accepted_plan: Flag = False
    enable_background_investigation: Flag = False
    enable_deep_thinking: Flag = False
    enable_web_search: Flag = True
    enforce_web_search: Flag = False
    resources: list[Any] = Field(default_factory=list[Any])
    mcp_settings: dict[str, Any] | None = None
    report_style: str = "academic"
    enforce_researcher_search: Flag = True
    interrupt_before_tools: list[str] = Field(default_factory=list[str])

    @property
    def enforces_search(self) -> bool:
        return self.enforce_web_search and self.enable_web_search

    @classmethod
    def from_runnable_config(cls, config: Mapping[str, Any] | None = None) -> Self:
        """Reads the options under `configurable`; environment variables come first.

        What is None, empty or zero counts as not given, and so do names that are no options.
        """
        options: dict[str, Any] = {}
        for name in cls.model_fields:
            value, setting = configured(config).get(name), os.environ.get(name.upper())
            if setting and name not in ("resources", "mcp_settings", "interrupt_before_tools"):
                flag = {"true": True, "false": False}.get(setting.lower(), setting)
                value = int(setting) if setting.isdecimal() else flag
            if value is False or value not in (None, "", 0):
                options[name] = value
        return cls.model_validate(options)


def configured(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns what stands under `configurable` in a graph's config."""
    found: Mapping[str, Any] = (config or {}).get("configurable") or {}
    return found
