"""Agents that take a task in words: our own, and those of other people."""
