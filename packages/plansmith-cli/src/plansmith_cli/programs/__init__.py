"""Writes a plan as a Python program that uses Plansmith as a library."""
