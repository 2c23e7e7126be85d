"""Plans, runs and events as pure data and functions, without I/O."""
