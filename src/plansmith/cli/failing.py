"""What a command says when it does not do its work: words on stderr, and JSON if wanted."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NoReturn, cast

from plansmith.cli.exits import Exit
from plansmith.errors import PlansmithError


class WrongUsage(PlansmithError):
    """The words of a command do not fit what it takes; `usage` says what does."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message, hint="--help tells more")
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser whose complaints can be told as JSON too."""

    def error(self, message: str) -> NoReturn:
        """Leave the telling to whoever runs the command."""
        raise WrongUsage(f"{self.prog}: {message}", self.format_usage())


class Output:
    """The one place that tells of failures; counts what the command itself has printed."""

    def __init__(self, *, wants_json: bool) -> None:
        self._wants_json = wants_json
        self._counted: _Counted | None = None

    @contextmanager
    def watched(self) -> Generator[None]:
        """See whether a command that owes JSON prints any."""
        if not self._wants_json:
            yield
            return
        before = sys.stdout
        self._counted = _Counted(before)
        sys.stdout = cast("Any", self._counted)
        try:
            yield
        finally:
            sys.stdout = before

    def failed(self, error: PlansmithError, code: Exit) -> Exit:
        """Tell of a failure that was foreseen."""
        if isinstance(error, WrongUsage):
            sys.stderr.write(f"{error.usage}{error.message}\n")
        else:
            sys.stderr.write(f"plansmith: {error}\n")
        problems: Sequence[Any] = getattr(error, "problems", ())
        listed = [each.shown_json() for each in problems]
        more = {"problems": listed} if listed else {}
        self.owed(code, error.message, hint=error.hint, kind=type(error).__name__, **more)
        return code

    def crashed(self, error: Exception) -> Exit:
        """Tell of a failure that nobody foresaw, with all that helps to find it."""
        sys.stderr.write("".join(traceback.format_exception(error)))
        hint = "this is a mistake in Plansmith: please report it with what stderr says"
        self.owed(Exit.FAILED, f"{type(error).__name__}: {error}", hint=hint, kind="Crash")
        return Exit.FAILED

    def owed(self, code: int, message: str, *, hint: str = "", kind: str = "", **more: Any) -> None:
        """Print JSON where it is wanted and the command has printed none."""
        if not self._wants_json or (self._counted is not None and self._counted.letters):
            return
        name = Exit(code).name.lower()
        told = {"code": name, "kind": kind, "message": message, "hint": hint, "exit": int(code)}
        whole = {"error": told | more} if code else {"ok": True, "exit": 0}
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=True) + "\n")
        sys.stdout.flush()


class _Counted:
    """A stream that counts the letters it is given."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.letters = 0

    def write(self, text: str) -> int:
        self.letters += len(text)
        return self._stream.write(text)

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
