"""Handlers of the HTTP API, one file per noun."""
