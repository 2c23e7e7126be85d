"""Plansmith connect."""
