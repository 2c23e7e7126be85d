"""Templates: plans stored by name and version, with parameters, for reuse."""
