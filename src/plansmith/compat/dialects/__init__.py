"""The plan formats of five other systems: how each is recognised, read and written."""
