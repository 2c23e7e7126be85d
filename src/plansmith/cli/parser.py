"""Reads the arguments of a command; raises errors, and shows help in the person's language."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from plansmith.cli.help_texts import error_of_arguments, help_text, is_chinese
from plansmith.cli.ui.width import wrapped
from plansmith.errors import PlansmithError
from plansmith.lazy import lazy_modules

if TYPE_CHECKING:
    import difflib

    from plansmith.plan import sentence
else:
    lazy_modules(
        globals(),
        difflib="difflib",
        sentence="plansmith.plan.sentence",
    )


class WrongUsage(PlansmithError):
    """The arguments of a command are wrong; `usage` says what is right."""

    def __init__(self, message: str, usage: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they can be printed as JSON too."""

    def __init__(self, **given: Any) -> None:
        form = _ChineseHelp if is_chinese() else argparse.HelpFormatter
        super().__init__(**({"formatter_class": form} | given))

    def error(self, message: str) -> NoReturn:
        """Raises the error instead of printing it."""
        told = f"{self.prog}: {error_of_arguments(message)}"
        raise WrongUsage(told, self.format_usage(), hint=self._hint(message))

    def _hint(self, message: str) -> str:
        """Names the option that was meant, else the command that lists all options."""
        wrong = [each.rstrip(",:") for each in message.split() if each.startswith("--")]
        known = [each for each in self._option_string_actions if each.startswith("--")]
        near = difflib.get_close_matches(wrong[0], known, n=1) if wrong else []
        if near and near[0] not in wrong:
            return sentence.Sentence("error.mean_option", name=near[0])
        return sentence.Sentence("error.see_help", command=self.prog)


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
