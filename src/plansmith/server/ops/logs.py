"""Logs: one JSON object a line on stderr, without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO

from plansmith.plan.data import Json

_HIDDEN: Final = "[hidden]"
_KEYS: Final = re.compile(r"(?i)(authorization|cookie|token|secret|password|api[-_]?key)")
_VALUES: Final = re.compile(r"(?i)(\bbearer\s+|[?&;]token=|\bsk-|\bps[tl]_)[\w.~+/=-]+")
_LONGEST: Final = 2000


class _Handler(logging.Handler):
    """Passes on what was logged with the standard library."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]!r}"
        write = self._log.failure if record.levelno >= logging.ERROR else self._log.warning
        write("library", logger=record.name, text=text)


class Log:
    """Writes lines; what looks like a secret, and every text it was told of, is left out."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._out = out or sys.stderr
        self._secrets: list[str] = []
        self._now = now

    def take_over(self) -> None:
        """Write what libraries have to say as lines of this log too, warnings and worse only."""
        logging.basicConfig(handlers=[_Handler(self)], level=logging.WARNING, force=True)

    def hide(self, secret: str) -> None:
        """Leave a text out of every line from now on."""
        self._secrets.append(secret)

    def info(self, event: str, **fields: Json) -> None:
        """Something that is as it should be."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Json) -> None:
        """Something a person may want to look at."""
        self._write("warning", event, fields)

    def failure(self, event: str, **fields: Json) -> None:
        """Something that broke."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Json]) -> None:
        at = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "level": level, "event": event} | {
            name: _HIDDEN if _KEYS.search(name) else self._clean(value)
            for name, value in fields.items()
        }
        self._out.write(json.dumps(line, ensure_ascii=True) + "\n")
        self._out.flush()

    def _clean(self, value: Json) -> Json:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, _HIDDEN)
            return _VALUES.sub(lambda found: f"{found[1]}{_HIDDEN}", value)[:_LONGEST]
        if isinstance(value, list):
            return [self._clean(each) for each in value]
        if isinstance(value, dict):
            return {
                key: _HIDDEN if _KEYS.search(key) else self._clean(each)
                for key, each in value.items()
            }
        return value
