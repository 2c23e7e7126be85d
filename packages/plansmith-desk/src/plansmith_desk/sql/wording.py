"""Says what is wrong with a statement, in the same words for every kind of database."""

from __future__ import annotations

from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence


class TookTooLong(ToolFailed):
    """A statement was ended, since its time was over."""


ONLY_READS: Final = Sentence("this tool only reads: give one SELECT over the tables")


def too_long(seconds: float) -> TookTooLong:
    """Returns the error of a statement whose time was over."""
    return TookTooLong(
        Sentence("the statement took longer than {seconds} s", seconds=f"{seconds:g}"),
        hint=Sentence("ask for less: fewer rows, a filter, a LIMIT"),
    )


def database_says(why: str) -> ToolFailed:
    """Returns what a database finds wrong with a statement."""
    unknown = "no such" in why or "does not exist" in why
    names = Sentence("check the names of tables and columns") if unknown else ""
    return ToolFailed(Sentence("the database says: {why}", why=why), hint=names)
