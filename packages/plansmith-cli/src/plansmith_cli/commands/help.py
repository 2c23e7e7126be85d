"""`plansmith help`: all commands, one of them, or what a problem code means."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plansmith import plugins
from plansmith.errors import Misconfigured
from plansmith.plan.problem import CODES
from plansmith.plan.sentence import Sentence, in_language
from plansmith_cli.command_table import COMMANDS
from plansmith_cli.main import main, overview, rows
from plansmith_cli.parser import command, is_chinese
from plansmith_cli.ui.output import print_lines
from plansmith_cli.ui.own_locale import own_locale
from plansmith_cli.ui.width import wrapped

_DIGITS: Final = 3


def problem_help() -> Mapping[str, Mapping[str, str]]:
    """Returns, for each code, what to do and an example, as `docs/problems.md` has them."""
    path = Path(__file__).parents[1] / "problem_help.json"
    texts: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return texts


def _main(args: argparse.Namespace) -> int | None:
    what = " ".join(args.what)
    if what in ("", "all"):
        sys.stdout.write(_all_commands() if what else overview())
    elif what == "problems":
        texts = problem_help()
        print_lines(_headline(code, texts[code]) for code in CODES)
    elif re.fullmatch(r"(?i:PS)?\d+", what):
        print_lines(_explained(f"PS{what.upper().removeprefix('PS').zfill(_DIGITS)}"))
    else:
        return main([*args.what, "--help"])
    return None


def _all_commands() -> str:
    ours = {name: each.summary for name, each in COMMANDS.items()}
    others = {name: plugins.load("commands", name).summary for name in plugins.names("commands")}
    return rows(ours | others) + "\n"


def _headline(code: str, text: Mapping[str, str]) -> str:
    about = CODES[code]
    severity = in_language(Sentence(f"severity.{about.severity}"), own_locale())
    meaning = text["zh_meaning"] if is_chinese() else about.meaning
    told = Sentence(
        "{code} {name} ({severity}): {meaning}",
        code=code,
        name=about.name,
        severity=severity,
        meaning=meaning,
    )
    return in_language(told, own_locale())


def _explained(code: str) -> Iterator[str]:
    if code not in CODES:
        raise Misconfigured(
            Sentence("there is no problem code '{code}'", code=code), hint="plansmith help problems"
        )
    text = problem_help()[code]
    yield from wrapped(_headline(code, text))
    yield ""
    yield from wrapped(text["zh" if is_chinese() else "en"])
    if text["example"]:
        yield from ("", in_language(Sentence("A plan with this problem:"), own_locale()))
        yield from (f"  {line}" for line in text["example"].split("\n"))


COMMAND = command(
    """
WHAT  a command; a problem code such as PS301; all for all commands, problems for all codes
""",
    _main,
    what={"nargs": "*"},
)
