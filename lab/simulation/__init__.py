"""A deterministic simulation of many processes on one store, driven by a seed."""
