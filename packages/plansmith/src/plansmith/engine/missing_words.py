"""Puts words into the instruction of a reply, in place of results that are not there."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.refs import Ref, escape_text, pieces


def with_words(instruction: str, words: Mapping[str, str]) -> str:
    """Returns an instruction with words (by step) in place of references to these steps."""
    return "".join(
        escape_text(words[piece.step])
        if isinstance(piece, Ref) and piece.step in words
        else str(piece)
        if isinstance(piece, Ref)
        else escape_text(piece)
        for piece in pieces(instruction)
    )
