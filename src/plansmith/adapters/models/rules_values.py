"""Values that stand in a request as they are: quoted texts, paths, addresses, dates, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from plansmith.adapters.models.demo import keyword

_QUOTED: Final = re.compile(
    r"\"([^\"\n]{1,500})\"|“([^”\n]{1,500})”|「([^」\n]{1,500})」|《([^》\n]{1,500})》"
    r"|`([^`\n]{1,500})`|(?<!\w)'([^'\n]{1,500})'(?!\w)|‘([^’\n]{1,500})’"
)
_URL: Final = re.compile(r"https?://[^\s\"'<>，。；）]+[^\s\"'<>，。；）.,;:!?)]")
_MAIL: Final = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_GLOB: Final = re.compile(r"(?<![\w./*?-])(?=[\w/*?-]*[./])[\w./?-]*\*[\w./*?-]*")
_FILE: Final = re.compile(
    r"(?:[\w~.-]+/)+[\w.-]+|[A-Za-z0-9_~.-]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,4}(?!\w|\.\w)"
    r"|[\w-]+\.[A-Za-z][A-Za-z0-9]{0,4}(?!\w|\.\w)"
)
# Chinese writes no spaces: a verb before a name is not part of it.
_VERB: Final = re.compile("^(?:请|帮我|把|将|在|从|对|读取|读|打开|查看|看|统计|分析|写入|保存到)+")
_DATE: Final = re.compile(r"(?<!\d)(\d{4})(?:-|/|年)(\d{1,2})(?:-|/|月)(\d{1,2})(?:日)?(?!\d)")
_SUM: Final = re.compile(r"[\d(][\d\s.,()]*(?:[-+*/^×÷%][\d\s.,()]*)*[-+*/^×÷][\d\s.,()]*[\d)%]")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)")
_SHARE: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*% of ([\d.,]*\d)|([\d.,]*\d)\s*的\s*(\d+(?:\.\d+)?)%"
)
_KIND: Final = re.compile(r"(?<![\w*.])\.?([A-Za-z]{2,4})(?: |-)?(?:files?\b|文件)")
_KINDS: Final = frozenset(
    ("csv", "tsv", "json", "md", "txt", "pdf", "html", "py", "xml", "yaml", "log", "svg", "png")
)
_FOLDER: Final = re.compile(
    r"\b(?:folder|directory) ([\w./-]*\w)|([\w./-]*\w) (?:folder|directory)\b"
)
_PLAIN: Final = frozenset({"this", "the", "current", "that", "my", "a", "working", "same", "here"})
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z]\w+(?: [A-Z]\w+)*")


@dataclass(slots=True)
class Values:
    """What a request holds, by kind, in the order in which it stands there."""

    quoted: list[str] = field(default_factory=list[str])
    urls: list[str] = field(default_factory=list[str])
    mails: list[str] = field(default_factory=list[str])
    patterns: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    folders: list[str] = field(default_factory=list[str])
    dates: list[str] = field(default_factory=list[str])
    sums: list[str] = field(default_factory=list[str])
    numbers: list[float] = field(default_factory=list[float])
    names: list[str] = field(default_factory=list[str])
    keyword: str = ""


def read_values(text: str) -> Values:
    """Every value once: what is part of a longer one is not told again."""
    rest = _Rest(text)
    word = keyword(text)
    values = Values(keyword="" if word.isdecimal() else word)
    for quoted in rest.take(_QUOTED, lambda found: next(filter(None, found.groups()))):
        _sort_in(quoted, values)
    values.urls += rest.take(_URL)
    values.mails += rest.take(_MAIL)
    values.patterns += rest.take(_GLOB)
    kinds = [found[1].lower() for found in _KIND.finditer(text)]
    values.patterns += [f"*.{kind}" for kind in kinds if kind in _KINDS]
    values.dates += rest.take(_DATE, _iso)
    values.paths += rest.take(_FILE, lambda found: _VERB.sub("", found[0]) or found[0])
    folders = [found[1] or found[2] for found in _FOLDER.finditer(text)]
    values.folders += [each for each in folders if each.lower() not in _PLAIN]
    values.sums += rest.take(_SHARE, _share)
    values.sums += rest.take(_SUM, lambda found: found[0].strip())
    values.numbers += [float(each.replace(",", "")) for each in rest.take(_NUMBER)]
    values.names += rest.take(_NAME)
    return values


def _sort_in(quoted: str, values: Values) -> None:
    """A quoted path or address is one of those, not a text."""
    for pattern, kind in (
        (_URL, values.urls),
        (_MAIL, values.mails),
        (_GLOB, values.patterns),
        (_FILE, values.paths),
    ):
        if pattern.fullmatch(quoted):
            kind.append(quoted)
            return
    values.quoted.append(quoted)


def _iso(found: re.Match[str]) -> str:
    return f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d}"


def _share(found: re.Match[str]) -> str:
    share, whole = (found[1], found[2]) if found[1] else (found[4], found[3])
    return f"{share}% * {whole.replace(',', '')}"


class _Rest:
    """A text from which values are taken out one kind after another."""

    def __init__(self, text: str) -> None:
        self._text = text

    def take(
        self,
        pattern: re.Pattern[str],
        read: Callable[[re.Match[str]], str] = lambda found: found[0],
    ) -> list[str]:
        found = [read(each) for each in pattern.finditer(self._text)]
        self._text = pattern.sub(lambda each: " " * len(each[0]), self._text)
        return found
