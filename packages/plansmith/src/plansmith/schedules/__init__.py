"""Runs plans at set times, each under a person's approval."""
