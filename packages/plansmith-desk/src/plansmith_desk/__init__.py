"""What works offline: the embedded model, built-in tools and local agents."""
