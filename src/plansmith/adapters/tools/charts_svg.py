"""Drawings as SVG: elements with everything escaped, and a page that says what it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Final

# Told apart also by people who do not see all colours, in this order.
COLOURS: Final = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"),
    *("#7A5195", "#4D4D4D", "#B2182B", "#1B7837", "#8C510A", "#01665E"),
)
INK: Final = "#222222"
SOFT: Final = "#5F5F5F"
GRID: Final = "#DDDDDD"
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(name: str, *children: str, **attributes: str | float) -> str:
    """One element; `_` in the name of an attribute is `-` in SVG."""
    said = "".join(
        f' {key.replace("_", "-")}="{escape(_shown(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{said}>{''.join(children)}</{name}>" if children else f"<{name}{said}/>"


def plain(text: str) -> str:
    """A text as part of a drawing, whatever is in it."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def label(text: str, x: float, y: float, **attributes: str | float) -> str:
    """A text at a place."""
    return element("text", plain(text), x=x, y=y, **({"fill": INK} | attributes))


def tip(text: str) -> str:
    """What is shown when one points at a mark, and read out instead of it."""
    return element("title", plain(text))


def marker(kind: int, x: float, y: float, colour: str, *children: str) -> str:
    """A mark for a point; each series has its own form beside its own colour."""
    size = 4.0
    if kind % 4 == 0:
        return element("circle", *children, cx=x, cy=y, r=size, fill=colour)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.2), (1.2, 1), (-1.2, 1)),
        3: ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    }[kind % 4]
    points = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners)
    return element("polygon", *children, points=points, fill=colour)


def page(width: int, height: int, title: str, about: str, parts: Sequence[str]) -> str:
    """The whole drawing, with a title and a description for those who do not see it."""
    body = [
        element("title", plain(title), id="title"),
        element("desc", plain(about), id="about"),
        element("rect", width=width, height=height, fill="#FFFFFF"),
        *parts,
    ]
    return (
        element(
            "svg",
            "\n",
            "\n".join(body),
            "\n",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            aria_labelledby="title about",
            font_family="system-ui, 'DejaVu Sans', 'Noto Sans', Arial, sans-serif",
            font_size=13,
        )
        + "\n"
    )


def _shown(value: str | float) -> str:
    if isinstance(value, str):
        return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
    return f"{value:.2f}".rstrip("0").rstrip(".")
