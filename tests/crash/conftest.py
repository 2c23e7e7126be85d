"""One PostgreSQL server for the crash tests."""

from __future__ import annotations

from tests.postgres import postgres_server

__all__ = ["postgres_server"]
