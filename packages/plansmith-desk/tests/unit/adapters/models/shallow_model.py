"""Writes a GGUF model with only the first layers of another: nonsense, but many times as fast."""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from pathlib import Path

_ALIGNED = 32
_TEXT, _LIST = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_COUNT = b"llama.block_count" + struct.pack("<I", 4)


def write_shallow(whole: Path, path: Path, *, layers: int) -> Path:
    """Writes the model with so many layers; its words and its template stay as they were."""
    reader = _Reader(whole.read_bytes())
    fields = reader.fields()
    heads = reader.tensor_heads()
    start = _rounded(reader.at)
    offsets = sorted({offset for *_, offset in heads} | {len(reader.raw) - start})
    end_of = dict(pairwise(offsets))
    names, data, size, count = b"", list[bytes](), 0, 0
    for name, form, offset in heads:
        found = re.match(rb"blk\.(\d+)\.", name)
        if found and int(found[1]) >= layers:
            continue
        names += _packed(name) + form + struct.pack("<Q", size)
        kept = reader.raw[start + offset : start + end_of[offset]]
        data.append(kept.ljust(_rounded(len(kept)), b"\0"))
        size += len(data[-1])
        count += 1
    at = fields.index(_COUNT) + len(_COUNT)
    fields = fields[:at] + struct.pack("<I", layers) + fields[at + 4 :]
    head = b"GGUF" + struct.pack("<IQQ", 3, count, reader.field_count) + fields + names
    path.write_bytes(head.ljust(_rounded(len(head)), b"\0") + b"".join(data))
    return path


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 24
        _, self._tensor_count, self.field_count = struct.unpack_from("<IQQ", raw, 4)

    def fields(self) -> bytes:
        """The facts before the tensors, as they lie in the file."""
        start = self.at
        for _ in range(self.field_count):
            self._text()
            self._skip(self._number("<I"))
        return self.raw[start : self.at]

    def tensor_heads(self) -> list[tuple[bytes, bytes, int]]:
        """The name of each tensor, its packed shape and type, and where its data begins."""
        found: list[tuple[bytes, bytes, int]] = []
        for _ in range(self._tensor_count):
            name, start = self._text(), self.at
            dimensions = self._number("<I")
            self.at += 8 * dimensions + 4  # and the type
            found.append((name, self.raw[start : self.at], self._number("<Q")))
        return found

    def _number(self, form: str) -> int:
        (found,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return int(found)

    def _text(self) -> bytes:
        size = self._number("<Q")
        self.at += size
        return self.raw[self.at - size : self.at]

    def _skip(self, kind: int) -> None:
        if kind == _TEXT:
            self._text()
        elif kind == _LIST:
            inner, count = self._number("<I"), self._number("<Q")
            if inner in _SIZES:
                self.at += count * _SIZES[inner]
            else:
                for _ in range(count):
                    self._skip(inner)
        else:
            self.at += _SIZES[kind]


def _packed(name: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name


def _rounded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
