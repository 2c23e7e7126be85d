"""What a plan is: pure data and functions, nothing that waits (floor 1)."""
