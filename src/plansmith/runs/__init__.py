"""Runs: created, planned, reviewed, executed, stopped, revised and repeated."""
