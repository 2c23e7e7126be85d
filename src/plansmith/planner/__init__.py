"""From a request to a checked plan, one module a stage (floor 3)."""
