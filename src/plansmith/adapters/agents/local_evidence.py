"""Evidence: what tools really returned to an agent, and which of its citations that bears out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.plan.data import Json

_SPACE: Final = re.compile(r"\s+")
_GAP: Final = re.compile(r"\s*(?:…|\.\.\.|\[…\]|\[\.\.\.\])\s*")
_QUOTES: Final = str.maketrans("“”„«»‘’‚`", '"""""\'\'\'\'')
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_IN_NAMES: Final = r"[\w/.\-~%?&=]"


@dataclass(frozen=True, slots=True)
class _Seen:
    """One call: the names it can be cited by, and its text, both made comparable."""

    names: str
    text: str


class Evidence:
    """All calls of one task."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def add(self, arguments: Mapping[str, Json], result: Json) -> None:
        """Take down a call that gave a result."""
        text = "\n".join(_texts(result))
        names = "\n".join((*_texts(dict(arguments)), text))
        self._seen.append(_Seen(names, _plain(text)))

    def check(
        self, citations: Sequence[Mapping[str, str]]
    ) -> tuple[list[dict[str, str]], list[str]]:
        """The citations that hold, each once, and in words why the others are dropped."""
        kept: list[dict[str, str]] = []
        notes: list[str] = []
        for citation in citations:
            cited = {name: text.strip() for name, text in citation.items() if text.strip()}
            flaw = self._flaw(cited)
            if flaw:
                shown = cited.get("url") or cited.get("path") or cited.get("title", "")
                notes.append(f"the citation of {shown[:200]!r} was dropped: {flaw}")
            elif cited not in kept:
                kept.append(cited)
        return kept, notes

    def _flaw(self, cited: Mapping[str, str]) -> str:
        name = cited.get("url") or cited.get("path")
        if not name:
            return "it names no url and no path"
        named = [seen for seen in self._seen if _names(seen.names, name)]
        if not named:
            return "no tool returned it"
        parts = [part for part in _GAP.split(_plain(cited.get("quote", ""))) if part.strip('" ')]
        if not any(all(part.strip('" ') in seen.text for part in parts) for seen in named):
            return "its quote is not in what the tools returned of it"
        return ""


def _names(text: str, name: str) -> bool:
    """Whether a text names exactly this, and not something longer."""
    short = name.split("#", 1)[0].rstrip("/") or name
    found = rf"(?<!{_IN_NAMES}){re.escape(short)}/?[.?]?(?!{_IN_NAMES})"
    return re.search(found, text) is not None


def _plain(text: str) -> str:
    """A text as it compares: no matter the case, the spaces and the shape of its quotes."""
    # Letter by letter, so that a part of a text compares like the same part of the whole.
    common = _NOT_ASCII.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    folded = common.translate(_QUOTES).casefold()
    return _SPACE.sub(" ", folded).strip()


def _texts(value: Json) -> Iterator[str]:
    """The texts and numbers in a value, in order."""
    stack: list[Json] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(reversed(node.values()))
        elif isinstance(node, list):
            stack.extend(reversed(node))
        elif node is not None:
            yield node if isinstance(node, str) else str(node)
