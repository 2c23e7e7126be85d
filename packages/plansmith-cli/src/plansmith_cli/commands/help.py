"""`plansmith help`: commands and problem codes; `completion`: a script that completes them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plansmith import plugins
from plansmith.plan.problem import CODES
from plansmith.plan.sentence import Sentence
from plansmith_cli.command_table import COMMANDS, Exit, verbs
from plansmith_cli.main import load_command, main, overview, parser_of, rows, split
from plansmith_cli.parser import command, is_chinese
from plansmith_cli.ui.output import own, own_text, print_lines, wrong
from plansmith_cli.ui.terminal import wrapped

_DIGITS: Final = 3


def problem_help() -> Mapping[str, Mapping[str, str]]:
    """Returns, for each code, what to do and an example, as `docs/problems.md` has them."""
    path = Path(__file__).parents[1] / "problem_help.json"
    texts: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return texts


def _main(args: argparse.Namespace) -> int | None:
    what = " ".join(args.what)
    if what in ("", "all"):
        ours = {name: each.summary for name, each in COMMANDS.items()}
        brought = {name: plugins.load("commands", name) for name in plugins.names("commands")}
        others = {name: each.summary for name, each in brought.items()}
        sys.stdout.write(rows(ours | others) + "\n" if what else overview())
    elif what == "problems":
        texts = problem_help()
        print_lines(_headline(code, texts[code]) for code in CODES)
    elif re.fullmatch(r"(?i:PS)?\d+", what):
        print_lines(_explained(f"PS{what.upper().removeprefix('PS').zfill(_DIGITS)}"))
    else:
        return main([*args.what, "--help"])
    return None


def _headline(code: str, text: Mapping[str, str]) -> str:
    about = CODES[code]
    return own_text(
        "{code} {name} ({severity}): {meaning}",
        code=code,
        name=about.name,
        severity=own(Sentence(f"severity.{about.severity}")),
        meaning=text["zh_meaning"] if is_chinese() else about.meaning,
    )


def _explained(code: str) -> Iterator[str]:
    if code not in CODES:
        raise wrong("there is no problem code '{code}'", hint="plansmith help problems", code=code)
    text = problem_help()[code]
    yield from wrapped(_headline(code, text))
    yield ""
    yield from wrapped(text["zh" if is_chinese() else "en"])
    if text["example"]:
        yield from ("", own_text("A plan with this problem:"))
        yield from (f"  {line}" for line in text["example"].split("\n"))


COMMAND = command(
    """
WHAT  a command; a problem code such as PS301; all for all commands, problems for all codes
""",
    _main,
    what={"nargs": "*"},
)


def _verbs(args: argparse.Namespace) -> int:
    """Tells the verbs of a noun that does nothing itself."""
    parser_of(args.command, VERBS).print_help()
    return Exit.USAGE


VERBS = command("", _verbs)


SHELLS: Final[Mapping[str, str]] = {
    "bash": """\
# plansmith: eval "$(plansmith completion bash)" in ~/.bashrc
_plansmith() {
  local typed=("${COMP_WORDS[@]:1:COMP_CWORD-1}") words
  words=$("${COMP_WORDS[0]}" completion words -- "${typed[@]}" 2> /dev/null)
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _plansmith plansmith
""",
    "zsh": """\
# plansmith: eval "$(plansmith completion zsh)" in ~/.zshrc, after compinit
autoload -U +X bashcompinit && bashcompinit
eval "$(plansmith completion bash)"
""",
    "fish": """\
# plansmith: plansmith completion fish | source, in ~/.config/fish/config.fish
complete -c plansmith -a "(plansmith completion words -- (commandline -opc)[2..] 2> /dev/null)"
""",
}


def _next_words(typed: Sequence[str]) -> Iterator[str]:
    """Yields what can follow the words of a command line: commands, verbs, options, choices."""
    while typed[:1] and typed[0] in ("-C", "--folder", "--tenant"):
        typed = typed[2:]
    name = split(typed)[0] if typed else ""
    yield from (each.rpartition(" ")[2] for each in verbs(name))
    actions = parser_of(name, load_command(name))._actions if name else []  # noqa: SLF001 - argparse has no public list
    for action in actions:
        if action.help != argparse.SUPPRESS:
            yield from (each for each in action.option_strings if each.startswith("--"))
            yield from map(str, () if action.option_strings else action.choices or ())


def _completion(args: argparse.Namespace) -> None:
    words = _next_words(args.typed) if args.shell == "words" else ()
    sys.stdout.write(SHELLS.get(args.shell, "") + "".join(f"{each}\n" for each in words))


_TYPED: Final[dict[str, Any]] = {
    "shell": {"choices": [*SHELLS, "words"], "metavar": "SHELL"},
    "typed": {"nargs": argparse.REMAINDER, "help": argparse.SUPPRESS},
}
COMPLETION = command("SHELL  your shell\nTYPED\n", _completion, **_TYPED)
