"""Decides when a person must review a plan, and which calls of it an approval covers."""
