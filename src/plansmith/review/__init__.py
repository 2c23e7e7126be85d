"""A person decides: plans, problems and differences shown so that one can (floor 4)."""
