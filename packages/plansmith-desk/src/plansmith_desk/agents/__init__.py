"""Agents that take a task in plain language: our own, and remote ones over A2A."""
