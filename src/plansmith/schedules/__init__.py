"""Schedules: plans that run again and again, each under a person's approval."""
