"""The cards of the agents that planners know by heart: what each does, and what it is good for."""

from __future__ import annotations

from typing import Final

from plansmith.plan.capability import AgentSpec, Effect, Skill


def _card(name: str, tags: str, does: str, skill: str, about: str, example: str) -> AgentSpec:
    """Returns the card of an agent that changes nothing outside its sandbox."""
    skills = (Skill(name=skill, description=about, examples=(example,)),)
    known = tuple(tags.split())
    return AgentSpec(name=name, description=does, skills=skills, tags=known, effect=Effect.READ)


ANALYST: Final = _card(
    "analyst",
    "analysis reasoning",
    "Compares, weighs and sums up what earlier steps found, by reasoning alone: it searches "
    "nothing and runs no code. Changes nothing.",
    "analysis",
    "Draws conclusions from the results it is given, with their certainty.",
    "Compare the three offers and say which one fits best, and why.",
)
CODER: Final = _card(
    "coder",
    "code data python",
    "Computes, analyses data and makes files and charts by writing Python and running it in "
    "a sandbox without network. Data comes in its inputs; the files it reads are named in "
    'the input "files".',
    "python",
    "Works on data with Python and gives the result and the files made.",
    "Compute the monthly totals of sales.csv and draw them.",
)
RESEARCHER: Final = _card(
    "researcher",
    "research search",
    "Finds things out by searching and reading, on the web or in files, whatever tools there "
    "are, and reports findings with citations. Changes nothing.",
    "research",
    "Answers a question from several sources, each cited.",
    "What do our notes say about the supplier's delivery times?",
)
SQL_WRITER: Final = _card(
    "sql_writer",
    "sql database data",
    "Answers a question from the database: writes one SELECT, runs it, mends it when the "
    'database refuses it, and gives {"sql", "columns", "rows", "tries"}; other steps use its '
    "rows, and a reply that reports them shows its sql too. Changes nothing.",
    "sql",
    "Gives the rows that answer a question, and the statement behind them.",
    "The sum of orders by month and city in 2026.",
)
