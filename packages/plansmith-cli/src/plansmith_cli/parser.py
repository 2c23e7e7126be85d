"""Reads the arguments of a command, and shows help in the person's language.

The code has the English texts of the help, `help_zh.json` the Chinese.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from plansmith.errors import PlansmithError
from plansmith.lazy import lazy_modules
from plansmith_cli.command_table import Command
from plansmith_cli.ui.terminal import own_locale, wrapped

if TYPE_CHECKING:
    import difflib

    from plansmith.plan import sentence
else:
    lazy_modules(globals(), difflib="difflib", sentence="plansmith.plan.sentence")


# The folder of `-C`, as it was typed: a command that a person copies needs it too.
FOLDER: Final = ContextVar("FOLDER", default="")
# What argparse says of wrong arguments, and the same in Chinese.
_ERRORS: Final = (
    (r"the following arguments are required: (.*)", r"缺少参数：\1"),
    (r"one of the arguments (.*) is required", r"需要其中一个参数：\1"),
    (r"unrecognized arguments: (.*)", r"不认识的参数：\1"),
    (r"argument (.*?): not allowed with argument (.*)", r"参数 \1：不能与 \2 一起使用"),
    (
        r"argument (.*?): invalid choice: (.*?) \((?:choose from )(.*)\)",
        r"参数 \1：不能是 \2，可选 \3",
    ),
    (r"argument (.*?): expected one argument", r"参数 \1：需要一个值"),
    (r"argument (.*?): expected at least one argument", r"参数 \1：至少需要一个值"),
    (r"argument (.*?): expected (\d+) arguments", r"参数 \1：需要 \2 个值"),
    (r"argument (.*?): ignored explicit argument (.*)", r"参数 \1：不需要值 \2"),
    (r"argument (.*?): invalid (?:int|float) value: (.*)", r"参数 \1：\2 不是数字"),
    (r"argument (.*?): (.*)", r"参数 \1：\2"),  # what a check of ours says, in Chinese already
    (r"ambiguous option: (.*) could match (.*)", r"选项 \1 不明确，可能是 \2"),
)


def is_chinese() -> bool:
    """Whether the person reads Chinese."""
    return own_locale().lower().startswith("zh")


def help_text(text: str) -> str:
    """Returns a text of the help in the person's language."""
    return chinese_texts().get(text, text) if is_chinese() else text


@cache
def chinese_texts() -> Mapping[str, str]:
    """Returns the Chinese of every English text of the help."""
    path = Path(__file__).with_name("help_zh.json")
    texts: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return texts


class WrongUsage(PlansmithError):
    """The arguments of a command are wrong; `usage` says what is right."""

    def __init__(self, message: str, usage: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they can be printed as JSON too."""

    def __init__(self, *, verbs: str = "", **given: Any) -> None:
        self._verbs = verbs
        given.setdefault(
            "formatter_class", _ChineseHelp if is_chinese() else argparse.HelpFormatter
        )
        # `--yes` must never be taken for `--yes-read-only`.
        given.setdefault("allow_abbrev", False)
        super().__init__(**given)

    @property
    def takes_words(self) -> bool:
        return any(not each.option_strings for each in self._actions)

    def format_help(self) -> str:
        below = f"\n{help_text('more commands:')}\n{self._verbs}\n" if self._verbs else ""
        return super().format_help() + below

    def error(self, message: str) -> NoReturn:
        """Raises the error, with the option that was meant or the command that lists them."""
        matches = [(re.fullmatch(pattern, message), chinese) for pattern, chinese in _ERRORS]
        texts = (found.expand(chinese) for found, chinese in matches if found and is_chinese())
        text = f"{self.prog}: {next(texts, message)}"
        wrong = [each.rstrip(",:") for each in message.split() if each.startswith("--")]
        offered = [each for each in self._actions if each.help != argparse.SUPPRESS]
        options = [name for each in offered for name in each.option_strings]
        known = [each for each in options if each.startswith("--")]
        near = difflib.get_close_matches(wrong[0], known, n=1) if wrong else []
        hint = sentence.Sentence("{command} --help lists the options", command=self.prog)
        if near and near[0] not in wrong:
            hint = sentence.Sentence("did you mean {name}?", name=near[0])
        raise WrongUsage(text, self.format_usage(), hint=hint)


def add_options(parser: argparse.ArgumentParser, text: str, **typed: Any) -> None:
    """Adds arguments as their help tells them, one a line.

    `RUN`, `[RUN]`, `--yes`, `-o --output FILE`; `--docs PATH*` may be repeated; an option without
    help is not shown; a line that begins with `|` excludes the one above. `typed` has, by name,
    what reads a value, or a table of what else argparse takes.
    """
    rows = [row for row in text.split("\n") if row]
    add: Callable[..., argparse.Action] = parser.add_argument
    for row, below in pairwise([*rows, ""]):
        if not row.startswith("|"):
            to = parser.add_mutually_exclusive_group() if below.startswith("|") else parser
            add = to.add_argument
        names, _, summary = row.lstrip("| ").partition("  ")
        *flags, value = names.split(" ")
        more: dict[str, Any] = {"help": summary.strip() or argparse.SUPPRESS}
        if not names.startswith("-"):
            metavar = value.strip("[]")
            flags = [metavar.partition("|")[0].lower()]
            more = {"help": summary.strip(), "metavar": metavar}
            more |= {"nargs": "?"} if metavar != value else {}
        elif value.startswith("-"):
            flags.append(value)
        else:
            more["metavar"] = value.rstrip("*")
            more |= {"action": "append"} if value.endswith("*") else {}
        given: Any = typed.get(flags[-1].lstrip("-").replace("-", "_"), dict[str, Any]())
        known = cast("dict[str, Any]", given) if isinstance(given, dict) else {"type": given}
        if value.startswith("-") and not known.keys() & {"action", "choices"}:
            more["action"] = "store_true"
        add(*flags, **more | known)


def command(text: str, main: Callable[[argparse.Namespace], int | None], **typed: Any) -> Command:
    """Makes a command of its options, as text, and what it does."""

    def configure(parser: argparse.ArgumentParser) -> None:
        add_options(parser, text, **typed)

    return Command(configure, main)


class _ChineseHelp(argparse.HelpFormatter):
    """Help in Chinese; its lines are as wide as Chinese characters are."""

    def __init__(self, prog: str) -> None:
        # The word before the usage is three columns wider than it has characters.
        super().__init__(prog, width=shutil.get_terminal_size().columns - 5)

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, "用法：" if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(help_text(heading) if heading else heading)

    def add_text(self, text: str | None) -> None:
        super().add_text(help_text(text) if text else text)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return help_text(action.help) if action.help else action.help

    def _split_lines(self, text: str, width: int) -> list[str]:
        return [*wrapped(text, width)]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}" for line in wrapped(text, width - len(indent)))
