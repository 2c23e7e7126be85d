"""Recorded runs, played back offline."""
