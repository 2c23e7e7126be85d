"""Builds the training rows of the planner's own small model; run from a clone, never installed."""
