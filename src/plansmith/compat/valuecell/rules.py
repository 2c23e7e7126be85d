"""Rules: what ValueCell asks of a plan beyond what every plan is checked for."""

from __future__ import annotations

import re
from typing import Final

from plansmith.dialects.valuecell import GUIDANCE
from plansmith.plan.plan import Plan
from plansmith.plan.refs import pieces
from plansmith.plan.steps import AskStep
from plansmith.plan.timing import Timing
from plansmith.text import HAN

MOST_WORDS: Final = 10
MOST_CHARACTERS: Final = 20
_CONFIRMED: Final = re.compile(
    r"\b(?:yes|confirm(?:ed)?|i agree|go ahead|please proceed|set it up)\b"
    r"|确认|同意|是的|好的|没问题",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\b(?:not|no|never|don'?t)\b|不要|不用|别|取消|不确认|不同意", re.IGNORECASE
)


def is_confirmed(text: str) -> bool:
    """Whether a person's words confirm something; a denial anywhere in them means they do not."""
    return bool(_CONFIRMED.search(text)) and not _DENIED.search(text)


def asked_in(plan: Plan) -> str:
    """What the planning model wants to know first, or nothing."""
    asked = [step for step in plan.steps if isinstance(step, AskStep) and step.id == GUIDANCE]
    return "".join(map(str, pieces(asked[0].question))) if asked else ""


def guidance_in(plan: Plan, said: str) -> str:
    """What a plan has to ask the person before any of it runs, or nothing."""
    asked = asked_in(plan)
    return asked or (schedule_guidance(plan, plan.schedule, said) if plan.schedule else "")


def schedule_guidance(plan: Plan, timing: Timing, said: str) -> str:
    """What the person has to confirm before a plan runs again and again, or nothing."""
    if is_confirmed(said):
        return ""
    if plan.locale.startswith("zh"):
        return f"请确认该定时任务：{timing}。回复“确认”后才会创建。"
    return f"Please confirm the schedule: {timing}. It is set up when you say so."


def short_title(title: str) -> str:
    """A title of at most ten words, or twenty characters where it is Chinese."""
    if HAN.search(title):
        plain = title.strip()
        return plain if len(plain) <= MOST_CHARACTERS else f"{plain[: MOST_CHARACTERS - 1]}…"
    words = title.split()
    return title.strip() if len(words) <= MOST_WORDS else " ".join(words[:MOST_WORDS]) + "…"
