"""The cards of the agents that planners know by heart: what each does, and what it is good for."""

from __future__ import annotations

from typing import Final

from plansmith.plan.capability import AgentSpec, Effect, Skill


def _card(name: str, does: str, skill: Skill, *tags: str) -> AgentSpec:
    """Returns the card of an agent that changes nothing outside its sandbox."""
    return AgentSpec(name=name, description=does, skills=(skill,), tags=tags, effect=Effect.READ)


ANALYST: Final = _card(
    "analyst",
    "Compares, weighs and sums up what earlier steps found, by reasoning alone: it searches "
    "nothing and runs no code. Changes nothing.",
    Skill(
        name="analysis",
        description="Draws conclusions from the results it is given, with their certainty.",
        examples=("Compare the three offers and say which one fits best, and why.",),
    ),
    *("analysis", "reasoning"),
)
CODER: Final = _card(
    "coder",
    "Computes, analyses data and makes files and charts by writing Python and running it in "
    "a sandbox without network. Data comes in its inputs; the files it reads are named in "
    'the input "files".',
    Skill(
        name="python",
        description="Works on data with Python and gives the result and the files made.",
        examples=("Compute the monthly totals of sales.csv and draw them.",),
    ),
    *("code", "data", "python"),
)
RESEARCHER: Final = _card(
    "researcher",
    "Finds things out by searching and reading, on the web or in files, whatever tools there "
    "are, and reports findings with citations. Changes nothing.",
    Skill(
        name="research",
        description="Answers a question from several sources, each cited.",
        examples=("What do our notes say about the supplier's delivery times?",),
    ),
    *("research", "search"),
)
SQL_WRITER: Final = _card(
    "sql_writer",
    "Answers a question from the database: writes one SELECT, runs it, mends it when the "
    'database refuses it, and gives {"sql", "columns", "rows", "tries"}; other steps use its '
    "rows, and a reply that reports them shows its sql too. Changes nothing.",
    Skill(
        name="sql",
        description="Gives the rows that answer a question, and the statement behind them.",
        examples=("The sum of orders by month and city in 2026.",),
    ),
    *("sql", "database", "data"),
)
