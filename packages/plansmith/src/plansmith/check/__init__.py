"""Checks plans: names, arguments, references, constraints."""
