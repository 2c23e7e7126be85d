"""Reads GGUF files, the format of llama.cpp, and writes their heads."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

_MAGIC: Final = b"GGUF"
_VERSION: Final = 3
_ALIGNMENT: Final = 32
# Codes of values in the header; 8 is a text and 9 a list.
_NUMBERS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT: Final = 8
_LIST: Final = 9
# Codes of tensor types: name, values in a block, bytes of a block.
TYPES: Final = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    6: ("Q5_0", 32, 22),
    8: ("Q8_0", 32, 34),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
}
_CODES: Final = {kind: code for code, (kind, _, _) in TYPES.items()}


@dataclass(frozen=True, slots=True)
class RawTensor:
    """One tensor as it lies in the file: rows of quantised bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]  # rows first, as numpy counts
    data: npt.NDArray[np.uint8]  # one row of bytes per row of values


class TensorHead(NamedTuple):
    """What a file says about a tensor before its data."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Returns the bytes of the data."""
        _, block, size = TYPES[_CODES[self.kind]]
        return math.prod(self.shape) // block * size


class GgufFile:
    """An open file: its header as a dict, its tensors without a copy."""

    def __init__(self, path: Path) -> None:
        self._raw = np.memmap(path, dtype=np.uint8, mode="r")
        self._at = 0
        if bytes(self._raw[:4]) != _MAGIC:
            raise ValueError(f"{path} is not a GGUF file: download the model again")
        self._at = 4
        version = self._number("I")
        if version not in {2, _VERSION}:
            raise ValueError(f"{path} has GGUF version {version}: only 2 and 3 are read")
        tensors, fields = self._number("Q"), self._number("Q")
        self.header: dict[str, Any] = {}
        start = self._at
        for _ in range(fields):
            name = self._text()
            self.header[name] = self._value(self._number("I"))
        self.raw_header = self._raw[start : self._at].tobytes()
        self.tensors = self._tensors(tensors)

    def _number(self, form: str) -> Any:
        size = struct.calcsize(f"<{form}")
        (found,) = struct.unpack(f"<{form}", self._raw[self._at : self._at + size].tobytes())
        self._at += size
        return found

    def _text(self) -> str:
        size = self._number("Q")
        self._at += size
        return bytes(self._raw[self._at - size : self._at]).decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            return self._number(_NUMBERS[kind])
        inner, count = self._number("I"), self._number("Q")
        if inner in {_TEXT, _LIST}:
            return [self._value(inner) for _ in range(count)]
        form = f"<{count}{_NUMBERS[inner]}"
        self._at += (size := struct.calcsize(form))
        return list(struct.unpack(form, self._raw[self._at - size : self._at].tobytes()))

    def _tensors(self, count: int) -> dict[str, RawTensor]:
        heads: list[tuple[str, tuple[int, ...], int, int]] = []
        for _ in range(count):
            name = self._text()
            sizes = [self._number("Q") for _ in range(self._number("I"))]
            code, offset = self._number("I"), self._number("Q")
            heads.append((name, tuple(reversed(sizes)), code, offset))
        step = int(self.header.get("general.alignment", _ALIGNMENT))
        start = _rounded(self._at, step)
        found: dict[str, RawTensor] = {}
        for name, shape, code, offset in heads:
            if code not in TYPES:
                raise ValueError(f"tensor {name} has type {code}, which is not read here")
            kind, block, size = TYPES[code]
            width = shape[-1] // block * size
            rows = math.prod(shape[:-1])
            raw = self._raw[start + offset : start + offset + rows * width]
            found[name] = RawTensor(name, kind, shape, raw.reshape(rows, width))
        return found


def packed_head(fields: bytes, count: int, tensors: Sequence[TensorHead]) -> bytes:
    """Returns all before the data: `count` packed fields, and where the tensors lie."""
    out = bytearray(_MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), count) + fields)
    offset = 0
    for head in tensors:
        out += packed_text(head.name) + struct.pack("<I", len(head.shape))
        out += b"".join(struct.pack("<Q", size) for size in reversed(head.shape))
        out += struct.pack("<IQ", _CODES[head.kind], offset)
        offset += _rounded(head.size, _ALIGNMENT)
    return padded(bytes(out))


def padded(raw: bytes) -> bytes:
    """Fills bytes up to where the next tensor may begin."""
    return raw.ljust(_rounded(len(raw), _ALIGNMENT), b"\0")


def packed_text(text: str) -> bytes:
    """Returns a text behind its length."""
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
