"""Picks the tools and agents for a request."""
