"""Runs an approved plan: calls its steps in parallel, journals every event, recovers (floor 5)."""
