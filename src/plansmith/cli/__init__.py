"""The command line (floor 8)."""
