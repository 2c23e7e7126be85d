"""Plans kept by name and version."""
