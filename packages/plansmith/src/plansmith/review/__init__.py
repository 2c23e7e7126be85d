"""Decides when a person must review a plan, and shows plans, problems and differences."""
