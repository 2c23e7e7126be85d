"""Plans written as plain Python programs, which run without Plansmith's runner."""
