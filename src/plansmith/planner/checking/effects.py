"""Effects as lint sees them: said by the tool, or else told by its name."""

from __future__ import annotations

from typing import Final

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.planner.checking.names import words

_READING_WORDS: Final = """
analyse analyze browse calc calculate check compare compute convert count describe detect determine
estimate evaluate explain extract fetch filter find forecast get identify inspect list locate look
lookup measure monitor predict preview query read retrieve search select show summarise summarize
translate validate verify view
"""
_ACTING_WORDS: Final = """
add and apply approve archive assign block book buy call cancel change clear close commit configure
copy create delete deploy disable download drop edit enable exchange execute export file grant
import insert install invite kill lock log make merge modify move open order pay place play post
publish purchase push put register remove rename reply request reserve reset restart return run
save schedule send set share sign start stop submit subscribe swap toggle transfer unlock update
upload write
"""
_READING: Final = frozenset(_READING_WORDS.split())
_ACTING: Final = frozenset(_ACTING_WORDS.split())
_READING_ZH: Final = ("查", "获取", "搜索", "检索", "计算", "读取", "列出", "分析")


def reads(spec: ToolSpec) -> bool:
    """Whether calling the tool only finds something out.

    Most tools say nothing of their effect. For running that means `write`; for advice to a
    reader the name is the better guide, as long as no word in it speaks of a change.
    """
    if "effect" in spec.model_fields_set:
        return spec.effect is Effect.READ
    if spec.search or spec.name.startswith(_READING_ZH):
        return True
    spoken = words(spec.name)
    # Behind a leading verb most words are nouns: `get_order`, `check_file`.
    if spoken[:1] and spoken[0] in _READING:
        return "and" not in spoken
    return bool(_READING.intersection(spoken)) and not _ACTING.intersection(spoken)


def is_said(spec: ToolSpec) -> bool:
    """Whether somebody has said what the tool does to the world."""
    return "effect" in spec.model_fields_set
