"""Reads input files and writes results."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import safe, visible
from plansmith_cli.ui.own_locale import own_locale
from plansmith_cli.ui.width import fitted_to

if TYPE_CHECKING:
    from plansmith.formats import native
    from plansmith.report import markdown
    from plansmith_cli.ui import terminal_markdown
else:
    lazy_modules(
        globals(),
        markdown="plansmith.report.markdown",
        native="plansmith.formats.native",
        terminal_markdown="plansmith_cli.ui.terminal_markdown",
    )


def read_file(name: str) -> bytes:
    """Reads a file, or standard input for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        problem = Sentence("cannot read {name}: {reason}", name=name, reason=reason)
        raise Misconfigured(problem, hint=Sentence("check the path")) from None


def load_plan(name: str) -> Plan:
    """Reads the plan of a file; raises `PlanInvalid` if it is not a plan."""
    return native.read_plan(read_file(name))


def print_json(value: object) -> None:
    """Prints a JSON value."""
    sys.stdout.write(_escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def print_as(args: argparse.Namespace, value: object, lines: Iterable[str]) -> None:
    """Prints a JSON value where `--json` asks for it, else lines."""
    if args.json:
        print_json(value)
    else:
        print_lines(lines)


def print_line_json(value: object) -> None:
    """Prints a JSON value on one line, and flushes."""
    sys.stdout.write(_escaped(json.dumps(value, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _escaped(text: str) -> str:
    """Escapes characters that could control a terminal; the JSON value stays the same."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# Delete, C1 controls, direction marks, invisible characters, line separators.
_HIDDEN = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def print_text(text: str) -> None:
    """Prints a text without control characters."""
    sys.stdout.writelines(f"{safe(line)}\n" for line in text.rstrip("\n").split("\n"))


def print_prose(text: str) -> None:
    """Prints a model's text: rendered on a terminal, without what could harm there."""
    print_markdown(markdown.harmless(text) if sys.stdout.isatty() else text)


def print_markdown(text: str) -> None:
    """Prints Markdown of ours: rendered on a terminal, elsewhere as it is written."""
    if sys.stdout.isatty():
        shown = terminal_markdown.rendered(visible(text), colour=use_colour(sys.stdout))
        sys.stdout.write(shown)
        sys.stdout.flush()
    else:
        print_text(text)


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines, in the person's language; a terminal colours them by their first letters."""
    locale = own_locale()
    shown = (in_language(line, locale) for line in lines)
    sys.stdout.writelines(shown_lines(sys.stdout, shown))


def shown_lines(stream: TextIO, lines: Iterable[str]) -> Iterator[str]:
    """Yields lines as a stream shows them: fitted to its width, coloured by their first letters."""
    colours = use_colour(stream)
    for line in fitted_to(stream, lines):
        yield f"{_coloured(line) if colours else line}\n"


def use_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def dim(text: str) -> str:
    """Returns a line for stderr that is less bright on a terminal."""
    return dim_on(sys.stderr, text)


def dim_on(stream: TextIO, text: str) -> str:
    """Returns a line that is less bright where the stream is a terminal."""
    return f"\x1b[2m{text}\x1b[0m" if use_colour(stream) else text


def bold(text: str) -> str:
    """Returns a line for stdout that is bold on a terminal."""
    return f"\x1b[1m{text}\x1b[0m" if use_colour(sys.stdout) else text


_COLOURS = {
    "│+": "32",
    "│-": "31",
    "! ": "33",
    "+ ": "32",
    "- ": "31",
    "~ ": "33",
    "> ": "36",
    "error": "31",
    "错误": "31",
    "warning": "33",
    "警告": "33",
}


def _coloured(line: str) -> str:
    begins = line.lstrip()
    code = next((code for mark, code in _COLOURS.items() if begins.startswith(mark)), None)
    return f"\x1b[{code}m{line}\x1b[0m" if code else line
