"""Logs people in by an OpenID Connect provider."""
