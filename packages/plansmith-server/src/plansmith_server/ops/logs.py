"""Writes logs as one JSON object per line on stderr, without secrets; tells what holds the loop."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

from plansmith.plan.data import Json

_HIDDEN: Final = "[hidden]"
_KEYS: Final = re.compile(r"(?i)(authorization|cookie|token|secret|password|api[-_]?key)")
_VALUES: Final = re.compile(r"(?i)(\bbearer\s+|[?&;]token=|\bsk-|\bps[tl]_)[\w.~+/=-]+")
_MAX_LENGTH: Final = 2000
LIMIT_S: Final = 0.25


class Log:
    """Writes log lines; hides what looks like a secret, and every text given to `hide`."""

    def __init__(
        self, out: TextIO | None = None, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._out = out or sys.stderr
        self._secrets: list[str] = []
        self._now = now
        self._always: dict[str, Json] = {}

    def of_tenant(self, name: str) -> Log:
        log = Log(self._out, now=self._now)
        log._secrets, log._always = self._secrets, {"tenant": name}
        return log

    def capture_libraries(self) -> None:
        """Writes warnings and errors of libraries as lines of this log too."""
        logging.basicConfig(handlers=[_Handler(self)], level=logging.WARNING, force=True)

    def hide(self, secret: str) -> None:
        self._secrets.append(secret)

    def info(self, event: str, **fields: Json) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Json) -> None:
        self._write("warning", event, fields)

    def failure(self, event: str, **fields: Json) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Json]) -> None:
        if self._out.closed:  # whoever logs must not fail because nobody reads it any more
            return
        at = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "level": level, "event": event, **self._always, **self._fields(fields)}
        self._out.write(json.dumps(line, ensure_ascii=True) + "\n")
        self._out.flush()

    def _fields(self, fields: dict[str, Json]) -> dict[str, Json]:
        return {
            name: _HIDDEN if _KEYS.search(name) else self._clean(each)
            for name, each in fields.items()
        }

    def _clean(self, value: Json) -> Json:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, _HIDDEN)
            return _VALUES.sub(lambda found: f"{found[1]}{_HIDDEN}", value)[:_MAX_LENGTH]
        if isinstance(value, list):
            return [self._clean(each) for each in value]
        return self._fields(value) if isinstance(value, dict) else value


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]!r}"
        write = self._log.failure if record.levelno >= logging.ERROR else self._log.warning
        write("library", logger=record.name, text=text)


@asynccontextmanager
async def watched_loop(log: Log) -> AsyncGenerator[None]:
    """Logs each time that the event loop takes no turn for a quarter of a second."""
    loop, thread, ended = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

    def watch() -> None:
        while not ended.wait(LIMIT_S / 2):
            asked = time.monotonic()
            turn = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
            try:
                turn.result(LIMIT_S)
            except TimeoutError:
                # No public function returns the stack of another thread.
                frames = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                stack = traceback.format_stack(frames[thread])[-6:]
                turn.result()
                held_ms = int((time.monotonic() - asked) * 1000)
                log.warning("event loop held", held_ms=held_ms, stack="".join(stack))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        await asyncio.to_thread(watcher.join)
