"""Reads input files and writes results."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from plansmith.dialects.native import read_plan
from plansmith.errors import InvalidPlan, Misconfigured
from plansmith.plan.plan import Plan
from plansmith.text import safe


def read_file(name: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise Misconfigured(f"cannot read {name}: {reason}", hint="check the path") from None


def load_plan(name: str) -> Plan:
    """The plan of a file; `InvalidPlan` when it is none."""
    found = read_plan(read_file(name))
    if isinstance(found, Plan):
        return found
    raise InvalidPlan(found)


def print_json(value: object) -> None:
    """A JSON value on stdout."""
    sys.stdout.write(_escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def print_line_json(value: object) -> None:
    """A JSON value on one line of stdout, at once."""
    sys.stdout.write(_escaped(json.dumps(value, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _escaped(text: str) -> str:
    """JSON text in which nothing steers a terminal; what is escaped means the same to a reader."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# Delete, the C1 controls, what changes direction or hides, line separators.
_HIDDEN = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def print_text(text: str) -> None:
    """Text of many lines on stdout, each of them safe."""
    sys.stdout.writelines(f"{safe(line)}\n" for line in text.rstrip("\n").split("\n"))


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, coloured by their first mark on a terminal."""
    colours = use_colour(sys.stdout)
    for line in lines:
        sys.stdout.write((_coloured(line) if colours else line) + "\n")


def use_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_COLOURS = {"+ ": "32", "- ": "31", "~ ": "33", "> ": "36", "error": "31", "warning": "33"}


def _coloured(line: str) -> str:
    code = next((code for mark, code in _COLOURS.items() if line.startswith(mark)), None)
    return f"\x1b[{code}m{line}\x1b[0m" if code else line
