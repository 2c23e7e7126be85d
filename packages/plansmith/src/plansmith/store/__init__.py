"""Stores of runs and results behind the PlanStore port."""
