"""One PostgreSQL server for the tests of stored journals."""

from __future__ import annotations

from tests.postgres import postgres_server

__all__ = ["postgres_server"]
