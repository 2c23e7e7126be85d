"""Collects what the planner knows besides the request: profile, history, background."""
