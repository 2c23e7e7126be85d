"""`plansmith help`: commands and problem codes; `completion`: a script that completes them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plansmith import plugins
from plansmith.plan.problem import CODES
from plansmith.plan.sentence import Sentence
from plansmith_cli.command_table import COMMANDS, Exit, verbs
from plansmith_cli.main import load_command, main, overview, parser_of, rows
from plansmith_cli.parser import command, help_text, is_chinese
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


_TOP: Final = [name for name in COMMANDS if " " not in name]
SHELLS: Final = ("bash", "zsh", "fish")


def _options() -> dict[str, list[str]]:
    """Returns the long options, the choices and the verbs of each command, longest name first."""
    found: dict[str, list[str]] = {}
    for name in sorted(COMMANDS, key=lambda name: -name.count(" ")):
        below = {each.rpartition(" ")[2] for each in verbs(name)}
        found[name] = sorted(below.union(_words(parser_of(name, load_command(name)))))
    return found


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        if action.help == argparse.SUPPRESS:
            continue
        yield from (each for each in action.option_strings if each.startswith("--"))
        if not action.option_strings and action.choices is not None:
            yield from map(str, action.choices)


def _bash() -> str:
    cases = "\n".join(
        f"    '{name} '*) words='{' '.join(words)}' ;;" for name, words in _options().items()
    )
    return f"""\
# plansmith: eval "$(plansmith completion bash)" in ~/.bashrc
_plansmith() {{
  local words='{" ".join(_TOP)}'
  case "${{COMP_WORDS[*]:1:COMP_CWORD-1}} " in
{cases}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _plansmith plansmith
"""


def _seen(name: str) -> str:
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())


def _fish() -> str:
    lines = ["# plansmith: plansmith completion fish | source, in ~/.config/fish/config.fish"]
    for name, words in _options().items():
        about = help_text(COMMANDS[name].summary).replace("'", "\\'")
        nouns, _, verb = name.rpartition(" ")
        where = _seen(nouns) or "__fish_use_subcommand"
        lines.append(f"complete -c plansmith -n '{where}' -a {verb} -d '{about}'")
        below = {each.rpartition(" ")[2] for each in verbs(name)}
        for word in [each for each in words if each not in below]:
            form = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c plansmith -n '{_seen(name)}' {form}")
    return "\n".join(lines) + "\n"


def _completion(args: argparse.Namespace) -> None:
    text = _fish() if args.shell == "fish" else _bash()
    if args.shell == "zsh":
        head = '# plansmith: eval "$(plansmith completion zsh)" in ~/.zshrc, after compinit\n'
        head += "autoload -U +X bashcompinit && bashcompinit\n"
        text = head + text.partition("\n")[2]
    sys.stdout.write(text)


_SHELLS: Final = {"shell": {"choices": SHELLS, "metavar": None}}
COMPLETION = command("SHELL  your shell", _completion, **_SHELLS)
