"""Reads and writes plans as JSON and YAML (`native`), from plain text (`text`)."""
