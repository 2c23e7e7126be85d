"""Modules of the first release, under the names by which programs imported them."""

from __future__ import annotations

import sys

from plansmith import old_names
from plansmith.engine import budget
from plansmith.replay import player
from plansmith.report import build, html, markdown
from plansmith.templates import book, suggest

_MODULES = {
    "budget": budget,
    "limits": old_names,
    "replay": player,
    "report": build,
    "report_html": html,
    "report_markdown": markdown,
    "suggesting": suggest,
    "templates": book,
}
sys.modules.update({f"{__name__}.{name}": module for name, module in _MODULES.items()})
