"""Requests that one built-in tool answers beyond doubt, planned by rules without a model."""
