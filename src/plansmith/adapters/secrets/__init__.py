"""Where secrets come from."""
