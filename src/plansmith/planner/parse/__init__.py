"""Reads plans out of any text, however badly written."""
