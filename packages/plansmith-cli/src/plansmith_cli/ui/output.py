"""What commands read and say: files, sentences in the person's language, JSON, Markdown, errors."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from plansmith import protected_files
from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.lazy import lazy_modules, lazy_pattern
from plansmith.plan.sentence import Sentence, in_language, language_of, with_hint
from plansmith.text import safe, visible
from plansmith_cli.ui.terminal import fitted_to, own_locale

if TYPE_CHECKING:
    from plansmith.formats import native
    from plansmith.plan import problem
    from plansmith.plan.plan import Plan
    from plansmith.report import markdown, prose
    from plansmith_cli import extras
else:
    lazy_modules(
        globals(),
        extras="plansmith_cli.extras",
        markdown="plansmith.report.markdown",
        prose="plansmith.report.prose",
        native="plansmith.formats.native",
        problem="plansmith.plan.problem",
    )

_STATUSES: Final = {
    "asking": Sentence("waiting for you"),
    "partly_done": Sentence("partly done"),
    "planning": Sentence("planned"),
    "replanning": Sentence("planning again"),
    "reviewing": Sentence("waiting for your approval"),
    "triaging": Sentence("reading the request"),
    "unknown": Sentence("unknown: did it happen?"),
}
_UNKNOWN_TOOL: Final = "PS101"
_EXTRA: Final = lazy_pattern(r"pip install packages/\* ['\"]plansmith\[([\w-]+)\]['\"]")
# Delete, C1 controls, direction marks, invisible characters, line separators.
_HIDDEN = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
# The colour of a line by how it begins.
_COLOURS: Final = {
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


def own(text: str) -> str:
    """Returns a text in the person's language if it is a sentence; other text stays as it is."""
    return in_language(text, own_locale())


def own_text(text: str, /, **fields: Any) -> str:
    """Returns a sentence in the language of the person at the terminal."""
    return own(Sentence(text, **fields))


def status_word(status: str, locale: str = "") -> str:
    """Returns the status of a run or a step in words for the person who waits for it."""
    words = _STATUSES.get(status) or Sentence(f"status.{status}")
    return in_language(words, locale or own_locale())


def wrong(text: str, helps: str = "", /, *, hint: str = "", **fields: Any) -> Misconfigured:
    """Makes the error of a wrong command; `helps` is a sentence, `hint` a text as it is."""
    return Misconfigured(Sentence(text, **fields), hint=Sentence(helps) if helps else hint)


def refused(text: str, helps: str = "", /, *, hint: str = "", **fields: Any) -> Refused:
    """Makes the error of what is not possible now; `helps` and `hint` as for what is wrong."""
    return Refused(Sentence(text, **fields), hint=Sentence(helps) if helps else hint)


def error_text(error: PlansmithError, locale: str) -> str:
    """Returns what went wrong and what helps, in the person's language."""
    problems: Sequence[Any] = getattr(error, "problems", ())
    message = in_language(error.message, locale)
    if problems and language_of(locale) != "en":
        message = problem.unusable(problems, locale)
    hint = error.hint
    if not hint and any(getattr(each, "code", "") == _UNKNOWN_TOOL for each in problems):
        hint = Sentence("if the tool is one of yours, name its file with --tools")
    # An extra is installed into the environment of this very program.
    hint = _EXTRA.sub(lambda found: extras.install_hint(found[1]), in_language(hint, locale))
    return in_language(with_hint(message, hint), locale)


def read_file(name: str) -> bytes:
    """Reads a file, or standard input for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise wrong(
            "cannot read {name}: {reason}", "check the path", name=name, reason=reason
        ) from None


def write_file(name: str, text: str) -> None:
    """Writes a text to a file; refuses those that Plansmith was started with."""
    if not protected_files.may_write(Path(name)):
        raise refused(
            "{name} may not be changed from here",
            "Plansmith was started with it, or has it or something in it "
            "open: stop Plansmith and change it by hand, or choose "
            "another name",
            name=name,
        )
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise wrong(
            "cannot write {name}: {reason}", "check the path", name=name, reason=reason
        ) from None


def size_text(count: int) -> str:
    """Returns a number of bytes as a person reads it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return Sentence("{count} bytes", count=count)


def load_plan(name: str) -> Plan:
    """Reads the plan of a file; raises `PlanInvalid` if it is not a plan."""
    return native.read_plan(read_file(name))


def tell(*texts: str) -> None:
    """Writes lines to stderr, in the person's language and without control characters."""
    sys.stderr.writelines(f"{safe(own(text))}\n" for text in texts)
    sys.stderr.flush()


def json_of(source: object, names: str, **own: Any) -> dict[str, Any]:
    """Returns fields of a record by their names as JSON values, and others of one's own."""

    def plain(value: Any) -> Any:
        match value:
            case Enum():
                return value.value
            case datetime():
                return value.isoformat()
            case tuple():
                return list(cast("Any", value))
            case _:
                return value

    return {name: plain(getattr(source, name)) for name in names.split()} | own


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Returns a JSON value as text, without characters that could control a terminal."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def print_json(value: object) -> None:
    """Prints a JSON value."""
    sys.stdout.write(json_text(value))


def print_line_json(value: object) -> None:
    """Prints a JSON value on one line, and flushes."""
    sys.stdout.write(json_text(value, indent=None))
    sys.stdout.flush()


def print_as(args: argparse.Namespace, value: object, lines: Iterable[str]) -> None:
    """Prints a JSON value where `--json` asks for it, else lines."""
    if args.json:
        print_json(value)
    else:
        print_lines(lines)


def print_text(text: str) -> None:
    """Prints a text without control characters."""
    sys.stdout.writelines(f"{safe(line)}\n" for line in text.rstrip("\n").split("\n"))


def print_prose(text: str) -> None:
    """Prints a model's text: rendered on a terminal, without what could harm there."""
    print_markdown(markdown.harmless(text) if sys.stdout.isatty() else text)


def print_answer(text: str) -> None:
    """Prints an answer in Markdown of ours: rendered on a terminal, elsewhere as plain text."""
    print_markdown(text if sys.stdout.isatty() else "\n".join(text_lines(text)))


def text_lines(text: str) -> list[str]:
    """Returns Markdown of ours as lines of plain text."""
    return prose.as_text(text).splitlines()


def print_markdown(text: str) -> None:
    """Prints Markdown of ours: rendered on a terminal, elsewhere as it is written."""
    if sys.stdout.isatty():
        rendered = resolve_name("plansmith_cli.ui.live:rendered")
        sys.stdout.write(rendered(visible(text), colour=use_colour(sys.stdout)))
        sys.stdout.flush()
    else:
        print_text(text)


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines, in the person's language; a terminal colours them by their first letters."""
    sys.stdout.writelines(shown_lines(sys.stdout, lines))


def shown_lines(stream: TextIO, lines: Iterable[str]) -> Iterator[str]:
    """Yields lines as a stream shows them: translated, fitted, coloured by their first letters."""
    for line in fitted_to(stream, map(own, lines)):
        begins = line.lstrip()
        code = next((code for mark, code in _COLOURS.items() if begins.startswith(mark)), "")
        yield f"{styled(stream, code, line) if code else line}\n"


def use_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(stream: TextIO, code: str, text: str) -> str:
    """Returns a line in the colour or style of a code where the stream is a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if use_colour(stream) else text


def dim(text: str) -> str:
    """Returns a line for stderr that is less bright on a terminal."""
    return styled(sys.stderr, "2", text)
