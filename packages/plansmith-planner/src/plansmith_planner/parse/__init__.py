"""Reads plans from any text, however badly written."""
