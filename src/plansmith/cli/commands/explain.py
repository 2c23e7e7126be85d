"""`plansmith explain`: what a problem code means, what to do about it, and an example."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.parser import is_chinese
from plansmith.cli.ui.output import print_lines
from plansmith.cli.ui.own_locale import own_locale
from plansmith.cli.ui.width import wrapped
from plansmith.errors import Misconfigured
from plansmith.plan.problem import CODES
from plansmith.plan.sentence import Sentence, in_language

_DIGITS: Final = 3


def problem_help() -> Mapping[str, Mapping[str, str]]:
    """Returns, for each code, what to do and an example, as `docs/problems.md` has them."""
    path = Path(__file__).parents[1] / "problem_help.json"
    texts: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return texts


def _configure(parser: argparse.ArgumentParser) -> None:
    what = "such as PS301 or 301; all when left out"
    parser.add_argument("code", nargs="?", metavar="CODE", help=what)


def _main(args: argparse.Namespace) -> int:
    texts = problem_help()
    if args.code is None:
        print_lines(_headline(code, texts[code]) for code in CODES)
        return Exit.OK
    digits = args.code.strip().upper().removeprefix("PS")
    code = f"PS{digits.zfill(_DIGITS)}"
    if code not in CODES:
        raise Misconfigured(Sentence("error.no_code", code=args.code), hint="plansmith explain")
    print_lines(_lines(code, texts[code]))
    return Exit.OK


def _headline(code: str, text: Mapping[str, str]) -> str:
    about = CODES[code]
    severity = in_language(Sentence(f"severity.{about.severity}"), own_locale())
    meaning = text["zh_meaning"] if is_chinese() else about.meaning
    told = Sentence("cli.explained", code=code, name=about.name, severity=severity, meaning=meaning)
    return in_language(told, own_locale())


def _lines(code: str, text: Mapping[str, str]) -> Iterator[str]:
    yield from wrapped(_headline(code, text))
    yield ""
    yield from wrapped(text["zh" if is_chinese() else "en"])
    if text["example"]:
        yield from ("", in_language(Sentence("cli.explained_example"), own_locale()))
        yield from (f"  {line}" for line in text["example"].split("\n"))


EXPLAIN = FileCommand(_configure, _main)
