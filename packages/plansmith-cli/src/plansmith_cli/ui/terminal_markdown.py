"""Renders Markdown for a terminal: tables, lists and emphasis instead of their marks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult


class _LeftHeading(Heading):
    """A heading that is bold and begins at the left, of any level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain, style="bold")


class _PlainBlock(CodeBlock):
    """A block of text as it is, two columns in, without colours of a programming language."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.plain.rstrip().split("\n"):
            yield Text(f"  {line}", overflow="fold")


class _TerminalMarkdown(Markdown):
    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainBlock,
        "code_block": _PlainBlock,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)
        # Where our Markdown begins a line, it means one.
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"


def rendered(text: str, *, colour: bool) -> str:
    """Returns a Markdown text as lines for the terminal, as wide as that is."""
    console = Console(no_color=not colour, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(_TerminalMarkdown(text))
    lines = [line.rstrip() for line in captured.get().split("\n")]
    single = (line for before, line in pairwise(["", *lines]) if line or before)
    return "\n".join(single).strip("\n") + "\n"
