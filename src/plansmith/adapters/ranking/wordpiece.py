"""BERT's way of cutting text into the pieces of its vocabulary, lower case."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

_LONGEST_WORD: Final = 100
_UNKNOWN: Final = "[UNK]"


class WordPieces:
    """A vocabulary, and the numbers of the pieces of a text in it."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary

    def numbers(self, text: str, most: int) -> list[int]:
        """At most so many numbers, between those of the opening and the closing mark."""
        found = [self._numbers["[CLS]"]]
        for word in _words(text):
            found.extend(self._pieces(word))
            if len(found) >= most:
                break
        return [*found[: most - 1], self._numbers["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        unknown = [self._numbers[_UNKNOWN]]
        if len(word) > _LONGEST_WORD:
            return unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((e for e in ends if prefix + word[start:e] in self._numbers), None)
            if end is None:
                return unknown
            found.append(self._numbers[prefix + word[start:end]])
            start = end
        return found


def _words(text: str) -> Iterator[str]:
    """Words, with punctuation and Chinese characters each on its own."""
    plain = unicodedata.normalize("NFD", text.lower())
    word: list[str] = []
    for char in plain:
        category = unicodedata.category(char)
        if category in ("Mn", "Cc", "Cf", "Cs") and not char.isspace():
            continue
        alone = _stands_alone(char, category)
        if (alone or char.isspace()) and word:
            yield "".join(word)
            word = []
        if alone:
            yield char
        elif not char.isspace():
            word.append(char)
    if word:
        yield "".join(word)


def _stands_alone(char: str, category: str) -> bool:
    ascii_mark = char.isascii() and not char.isalnum() and not char.isspace()
    return ascii_mark or category.startswith("P") or "\u3400" <= char <= "\u9fff"
