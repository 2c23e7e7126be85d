"""Turns a request into a checked plan, one module per stage."""
