"""Stores that kill or stop their own process at a chosen write."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import sqlite_path
from plansmith_postgres.store import PostgresStore


class Halting:
    """Sends this process a signal at the Nth call of a write, once it is durable or just before."""

    _halt_left = 0

    def halt(
        self,
        number: int = 1,
        *,
        write: str = "append",
        sends: signal.Signals = signal.SIGKILL,
        before: bool = False,
        only: Callable[[Sequence[Any]], bool] = bool,
    ) -> None:
        """Choose the write; `only` says which calls count, by what they are given."""
        self._halt_left, self._halt_write, self._halt_only = number, write, only
        self._halt_signal, self._halt_before = sends, before

    async def append(self, *given: Any, **more: Any) -> None:
        await self._done("append", given[0], lambda: super(Halting, self).append(*given, **more))  # type: ignore[misc]

    async def put_documents(self, documents: Any) -> Any:
        call = super().put_documents  # type: ignore[misc]
        return await self._done("put_documents", documents, lambda: call(documents))

    async def keep_summaries(self, summaries: Any) -> Any:
        call = super().keep_summaries  # type: ignore[misc]
        return await self._done("keep_summaries", summaries, lambda: call(summaries))

    async def _done(
        self, write: str, given: Sequence[Any], call: Callable[[], Awaitable[Any]]
    ) -> Any:
        counts = self._halt_left > 0 and write == self._halt_write and self._halt_only(given)
        self._halt_left -= counts
        halts = counts and self._halt_left == 0
        if halts and self._halt_before:
            os.kill(os.getpid(), self._halt_signal)
        result = await call()
        if halts:
            os.kill(os.getpid(), self._halt_signal)
        return result


class HaltingSqlite(Halting, SqliteStore):
    """On SQLite."""


class HaltingPostgres(Halting, PostgresStore):
    """On PostgreSQL."""


def halting_store(url: str) -> HaltingSqlite | HaltingPostgres:
    """A store that may halt this process."""
    if url.startswith("sqlite:"):
        return HaltingSqlite(sqlite_path(url))
    return HaltingPostgres(url)
