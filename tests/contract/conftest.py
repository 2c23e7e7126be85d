"""One PostgreSQL server for the contract tests."""

from __future__ import annotations

from tests.postgres import postgres_server

__all__ = ["postgres_server"]
