"""scripts/record.py OUT.svg -- COMMAND: a picture of what a command shows on a terminal.

The command runs on a real pseudo-terminal; what its screen shows at the end becomes an SVG.
"""

from __future__ import annotations

import argparse
import os
import unicodedata
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from tests.e2e import terminal as screens

WIDE: Final = 8.4  # a letter
HIGH: Final = 18
EDGE: Final = 16


def width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def picture(lines: Sequence[str], columns: int) -> str:
    """The lines as an SVG that stands by itself."""
    wide, high = columns * WIDE + 2 * EDGE, len(lines) * HIGH + 2 * EDGE
    rows = "\n".join(
        f'<text x="{EDGE}" y="{EDGE + (number + 0.75) * HIGH:.0f}" xml:space="preserve"'
        f' textLength="{width(line) * WIDE:.0f}" lengthAdjust="spacingAndGlyphs"'
        f"{' class=' + chr(34) + 'typed' + chr(34) if line.startswith('$ ') else ''}>"
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
        if line.strip()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" role="img">\n'
        "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d7dae0}"
        ".typed{fill:#9ece6a}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#16181d"/>\n{rows}\n</svg>\n'
    )


def main() -> None:
    """Run the command, answer what it asks, and draw what is on the screen."""
    parser = argparse.ArgumentParser(prog="scripts/record.py", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--columns", type=int, default=110)
    parser.add_argument("--answer", action="append", default=[], metavar="PROMPT=TEXT")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds without a sign")
    parser.add_argument("--until", default="## Evidence", help="the line before which it ends")
    parser.add_argument("--shown", help="the command as the picture shows it")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    screens.PATIENCE_S = args.patience
    with screens.Terminal(
        args.command,
        folder=args.folder,
        environment=os.environ | {"NO_COLOR": "1"},
        columns=args.columns,
        rows=200,
    ) as terminal:
        for answer in args.answer:
            prompt, _, typed = answer.rpartition("=")
            terminal.until(prompt)
            terminal.type(f"{typed}\n")
        code = terminal.ended()
        lines = terminal.screen.text.rstrip().splitlines()
    if code != 0:
        raise SystemExit("\n".join([*lines, f"the command ended with {code}: no picture"]))
    end = next((at for at, line in enumerate(lines) if line.startswith(args.until)), len(lines))
    lines = [*lines[:end], "…"] if end < len(lines) else lines
    shown = args.shown or " ".join(f'"{word}"' if " " in word else word for word in args.command)
    args.out.write_text(picture([f"$ {shown}", *lines], args.columns), encoding="utf-8")


if __name__ == "__main__":
    main()
