"""The tokenizer of a GGUF file: byte-level pairs with the splitting rule of Qwen2."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

_CONTROL: Final = frozenset({3, 4})  # kinds of tokens that stand for themselves, such as <|im_end|>


class Tokenizer:
    """Turns text into token ids and back, as llama.cpp does."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.tokens: Sequence[str] = header["tokenizer.ggml.tokens"]
        self.end = int(header["tokenizer.ggml.eos_token_id"])
        kinds: Sequence[int] = header["tokenizer.ggml.token_type"]
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        merges: Sequence[str] = header["tokenizer.ggml.merges"]
        self._ranks = {tuple(merge.split(" ", 1)): rank for rank, merge in enumerate(merges)}
        controls = [
            token for token, kind in zip(self.tokens, kinds, strict=True) if kind in _CONTROL
        ]
        self._controls = frozenset(controls)
        longest_first = sorted(controls, key=len, reverse=True)
        self._control = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        self._known: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text; names of control tokens become control tokens."""
        found: list[int] = []
        for part in self._control.split(text) if self._controls else [text]:
            if part in self._controls:
                found.append(self._ids[part])
            else:
                for piece in _splitter().findall(part):
                    found.extend(self._piece(piece))
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids."""
        back = _bytes_of_signs()
        raw = b"".join(
            token.encode() if token in self._controls else bytes(back[sign] for sign in token)
            for token in (self.tokens[each] for each in ids)
        )
        return raw.decode("utf-8", "replace")

    def _piece(self, piece: str) -> tuple[int, ...]:
        found = self._known.get(piece)
        if found is None:
            signs = "".join(signs_of_bytes()[byte] for byte in piece.encode())
            found = self._known[piece] = tuple(self._merged(signs))
        return found

    def _merged(self, signs: str) -> Iterator[int]:
        parts = list(signs)
        while len(parts) > 1:
            pairs = pairwise(parts)
            rank, place = min(
                (self._ranks.get(pair, sys.maxsize), place) for place, pair in enumerate(pairs)
            )
            if rank == sys.maxsize:
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return (self._ids[part] for part in parts)


def chat_text(messages: Sequence[tuple[str, str]]) -> str:
    """Returns messages (role, text) as Qwen2's chat template writes them, without the answer."""
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)


ANSWER_START: Final = "<|im_start|>assistant\n"


@functools.cache
def _splitter() -> re.Pattern[str]:
    """Returns Qwen2's rule; `re` has no classes of letters and numbers, so they are spelled out."""
    letters, numbers = _class("L"), _class("N")
    return re.compile(
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
        rf"|[^\r\n{letters}{numbers}]?[{letters}]+"
        rf"|[{numbers}]"
        rf"| ?[^\s{letters}{numbers}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def _class(kind: str) -> str:
    """Returns the signs of a Unicode category as ranges of a regular expression."""
    inside = [unicodedata.category(chr(code))[0] == kind for code in range(sys.maxunicode + 1)]
    ranges: list[str] = []
    start = -1
    for code, is_inside in enumerate([*inside, False]):
        if is_inside and start < 0:
            start = code
        elif not is_inside and start >= 0:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    return "".join(ranges)


@functools.cache
def signs_of_bytes() -> list[str]:
    """Returns the visible sign that stands for each byte in the vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    signs = {byte: chr(byte) for byte in plain}
    signs |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    return [signs[byte] for byte in range(256)]


@functools.cache
def _bytes_of_signs() -> dict[str, int]:
    return {sign: byte for byte, sign in enumerate(signs_of_bytes())}
