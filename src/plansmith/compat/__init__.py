"""Faces of the five source systems: their names and calls, over Plansmith (floor 8)."""
