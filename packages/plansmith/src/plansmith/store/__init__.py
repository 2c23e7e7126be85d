"""Stores of runs and results behind the JournalStore port."""
