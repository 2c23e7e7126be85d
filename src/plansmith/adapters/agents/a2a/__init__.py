"""Agents of other people over A2A: pinned cards, one task a step, nothing sent twice."""
