"""Plays recorded runs back offline and compares the events."""
