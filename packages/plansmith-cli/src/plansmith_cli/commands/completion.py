"""`plansmith completion`: a script for bash, zsh or fish that completes commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Final

from plansmith_cli.command_table import COMMANDS, verbs
from plansmith_cli.main import load_command, parser_of
from plansmith_cli.parser import command, help_text

_TOP: Final = [name for name in COMMANDS if " " not in name]
SHELLS: Final = ("bash", "zsh", "fish")


def options() -> dict[str, list[str]]:
    """Returns the long options, the choices and the verbs of each command, longest name first."""
    found: dict[str, list[str]] = {}
    for name in sorted(COMMANDS, key=lambda name: -name.count(" ")):
        below = {each.partition(" ")[2] for each in verbs(name)}
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
        f"    '{name} '*) words='{' '.join(words)}' ;;" for name, words in options().items()
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


def _zsh() -> str:
    return f"""\
# plansmith: eval "$(plansmith completion zsh)" in ~/.zshrc, after compinit
autoload -U +X bashcompinit && bashcompinit
{_bash().partition(chr(10))[2]}"""


def _fish() -> str:
    lines = ["# plansmith: plansmith completion fish | source, in ~/.config/fish/config.fish"]
    for name, words in options().items():
        about = help_text(COMMANDS[name].summary).replace("'", "\\'")
        noun, _, verb = name.rpartition(" ")
        where = f"'__fish_seen_subcommand_from {noun}'" if noun else "__fish_use_subcommand"
        lines.append(f"complete -c plansmith -n {where} -a {verb} -d '{about}'")
        seen = f"'__fish_seen_subcommand_from {verb}'"
        below = {each.partition(" ")[2] for each in verbs(name)}
        for word in [each for each in words if each not in below]:
            form = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c plansmith -n {seen} {form}")
    return "\n".join(lines) + "\n"


def _main(args: argparse.Namespace) -> None:
    sys.stdout.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]())


_SHELLS: Final = {"shell": {"choices": SHELLS, "metavar": None}}
COMMAND = command("SHELL  your shell", _main, **_SHELLS)
