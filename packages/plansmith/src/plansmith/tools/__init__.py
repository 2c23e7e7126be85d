"""Python functions as tools, and sets of tools."""
