"""GGUF files, the format of llama.cpp: reads them, and merges an adapter into rounded weights."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

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
        start = _aligned(self._at, step)
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
        offset += _aligned(head.size, _ALIGNMENT)
    return padded(bytes(out))


def padded(raw: bytes) -> bytes:
    """Fills bytes up to where the next tensor may begin."""
    return raw.ljust(_aligned(len(raw), _ALIGNMENT), b"\0")


def packed_text(text: str) -> bytes:
    """Returns a text behind its length."""
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _aligned(size: int, step: int) -> int:
    return -(-size // step) * step


Values = npt.NDArray[np.float32]
Blocks = npt.NDArray[Any]

BLOCK: Final = 32
# Where the largest value of a block may come to lie between -8 and 7. A block takes the place
# with the least squared error.
PLACES: Final = (-8.0, -7.2, 7.2, 8.6, -8.8)
_LEAST: Final = np.float32(1e-30)
_SUB: Final = 32  # values that share a scale within a block of 256


def dequantize(kind: str, data: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> Values:
    """Returns the values of a tensor from its raw bytes."""
    raw = np.ascontiguousarray(data).reshape(-1)
    if kind in _PLAIN:
        return np.asarray(raw.view(_PLAIN[kind]), dtype=np.float32).reshape(shape)
    size, values = _QUANTISED[kind]
    return values(raw.reshape(-1, size)).reshape(shape)


def _half(raw: Blocks) -> Values:
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _q8_0(raw: Blocks) -> Values:
    return _half(raw[:, :2]) * raw[:, 2:].view(np.int8).astype(np.float32)


def _q4_0(raw: Blocks) -> Values:
    return _half(raw[:, :2]) * (_nibbles(raw[:, 2:]).astype(np.float32) - 8)


def _q5_0(raw: Blocks) -> Values:
    high = np.unpackbits(np.ascontiguousarray(raw[:, 2:6]), axis=1, bitorder="little")
    low = _nibbles(raw[:, 6:])
    found: Values = _half(raw[:, :2]) * ((low | (high << 4)).astype(np.float32) - 16)
    return found


def _nibbles(raw: Blocks) -> Blocks:
    """Returns the low halves of the bytes of a block, then the high ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=1)


def _q4_k(raw: Blocks) -> Values:
    scales, mins = _scales_and_mins(raw)
    quants = raw[:, -128:].reshape(len(raw), 4, 1, _SUB)
    low = np.concatenate([quants & 15, quants >> 4], axis=2).reshape(len(raw), 8, _SUB)
    found: Values = scales[:, :, None] * low.astype(np.float32) - mins[:, :, None]
    return found


def _scales_and_mins(raw: Blocks) -> tuple[Values, Values]:
    """Returns the eight scales and minima, packed in six bits each."""
    first, middle, last = raw[:, 4:8], raw[:, 8:12], raw[:, 12:16]
    scale = np.concatenate([first & 63, (last & 15) | ((first >> 2) & 48)], axis=1)
    least = np.concatenate([middle & 63, (last >> 4) | ((middle >> 2) & 48)], axis=1)
    return (
        _half(raw[:, 0:2]) * scale.astype(np.float32),
        _half(raw[:, 2:4]) * least.astype(np.float32),
    )


def _q6_k(raw: Blocks) -> Values:
    quants = raw[:, :128].reshape(len(raw), 2, 1, 64)
    low = np.concatenate([quants & 15, quants >> 4], axis=2).reshape(len(raw), 8, _SUB)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8)[None, None, :, None]
    high = (raw[:, 128:192].reshape(len(raw), 2, 1, _SUB) >> shifts) & 3
    values = (low | (high.reshape(len(raw), 8, _SUB) << 4)).astype(np.float32) - 32
    scales = _half(raw[:, 208:]) * raw[:, 192:208].view(np.int8).astype(np.float32)
    found: Values = scales[:, :, None] * values.reshape(len(raw), 16, 16)
    return found


_PLAIN: Final[dict[str, Any]] = {"F32": np.float32, "F16": np.float16}
_QUANTISED: Final[dict[str, tuple[int, Callable[[Blocks], Values]]]] = {
    "Q4_0": (18, _q4_0),
    "Q5_0": (22, _q5_0),
    "Q8_0": (34, _q8_0),
    "Q4_K": (144, _q4_k),
    "Q6_K": (210, _q6_k),
}


def quantize(values: Values) -> npt.NDArray[np.uint8]:
    """Returns rows of Q4_0 blocks; each row is a multiple of 32 values."""
    rows = len(values)
    # One block a column: sums over a block are then sums of whole rows, which are fast.
    columns = np.ascontiguousarray(values.reshape(-1, BLOCK).T)
    scales, steps = _rounded(columns)
    raw = np.empty((columns.shape[1], 2 + BLOCK // 2), dtype=np.uint8)
    raw[:, :2] = scales.astype(np.float16)[:, None].view(np.uint8)
    codes = (steps + 8).astype(np.uint8)
    raw[:, 2:] = (codes[: BLOCK // 2] | (codes[BLOCK // 2 :] << 4)).T
    return raw.reshape(rows, -1)


def _rounded(columns: Values) -> tuple[Values, Values]:
    """Returns the scale of each block and its values as whole steps from -8 to 7."""
    most: Values = columns.max(0)
    least: Values = columns.min(0)
    largest = np.where(most > -least, most, least)
    turned: Values = np.zeros_like(largest)
    np.divide(1, largest, out=turned, where=largest != 0)
    steps: Values = np.empty_like(columns)
    best: Values = np.zeros_like(largest)
    scales, gains = best.copy(), best.copy()
    for place in PLACES:
        shared, squares = _fit(columns, turned * np.float32(place), steps)
        scale = np.divide(shared, squares + _LEAST, dtype=np.float32)
        # With the best scale for these steps, this much of the squares is explained.
        gain = np.multiply(shared, scale, dtype=np.float32)
        better = gain > gains
        best[better] = place
        np.copyto(scales, scale, where=better)
        np.copyto(gains, gain, where=better)
    _fit(columns, turned * best, steps)
    return scales, steps


def _fit(columns: Values, factors: Values, steps: Values) -> tuple[Values, Values]:
    """Rounds to `steps`; returns for each block what they share with it, and their squares."""
    np.multiply(columns, factors, out=steps)
    np.rint(steps, out=steps)
    np.clip(steps, -8, 7, out=steps)
    shared: Values = np.einsum("ij,ij->j", steps, columns)
    squares: Values = np.einsum("ij,ij->j", steps, steps)
    return shared, squares


_CHUNK: Final = 1 << 17  # values that a thread works on: they fit into its cache

Narrow = dict[str, tuple[Values, Values]]


def merge(
    base: Path, adapter: Path, out: BinaryIO, *, threads: int, progress: Callable[[float], None]
) -> str:
    """Writes one file from two; returns its SHA-256. `progress` gets the share that is done.

    The adapter is merged into the weights, which are rounded to four bits: llama.cpp lays Q4_0 out
    for the processor when it loads a file, and reads and writes faster then.
    """
    file = GgufFile(base)
    narrow = _narrow(GgufFile(adapter), file)
    heads = [
        TensorHead(each.name, "Q4_0" if _is_rounded(each) else each.kind, each.shape)
        for each in file.tensors.values()
    ]
    total, done, digest = sum(head.size for head in heads), 0, hashlib.sha256()

    def write(raw: bytes) -> None:
        digest.update(raw)
        out.write(raw)

    write(packed_head(file.raw_header, len(file.header), heads))
    with ThreadPoolExecutor(threads) as pool:
        for tensor, head in zip(file.tensors.values(), heads, strict=True):
            rows = max(1, _CHUNK // tensor.shape[-1])
            parts = [slice(first, first + rows) for first in range(0, len(tensor.data), rows)]
            for raw in pool.map(partial(_merged, tensor, narrow.get(tensor.name)), parts):
                write(raw)
                done += len(raw)
                progress(done / total)
            write(bytes(-head.size % _ALIGNMENT))
    return digest.hexdigest()


def _merged(tensor: RawTensor, change: tuple[Values, Values] | None, rows: slice) -> bytes:
    if not _is_rounded(tensor):
        return tensor.data[rows].tobytes()
    data = tensor.data[rows]
    values = dequantize(tensor.kind, data, (len(data), tensor.shape[-1]))
    if change is not None:
        down, up = change
        # Not by a matrix library: its threads would spin beside ours.
        values = values + np.einsum("or,ri->oi", up[rows], down)
    return quantize(values).tobytes()


def _is_rounded(tensor: RawTensor) -> bool:
    """Whether a tensor is multiplied with; of the embedding only single rows are looked up."""
    matrix = len(tensor.shape) == 2 and tensor.shape[-1] % BLOCK == 0
    return matrix and tensor.name != "token_embd.weight"


def _narrow(adapter: GgufFile, base: GgufFile) -> Narrow:
    """Returns the two matrices of each tensor that the adapter changes, the second one scaled."""
    alpha = float(adapter.header.get("adapter.lora.alpha", 0.0))
    found: Narrow = {}
    for name in {each.rsplit(".lora_", 1)[0] for each in adapter.tensors}:
        parts = [adapter.tensors.get(f"{name}.lora_{letter}") for letter in "ab"]
        down, up = (
            dequantize(part.kind, part.data, part.shape) for part in parts if part is not None
        )
        tensor = base.tensors.get(name)
        if tensor is None or not _is_rounded(tensor) or tensor.shape != (len(up), down.shape[1]):
            raise ValueError(f"the adapter does not fit the model at {name}")
        found[name] = (down, up * np.float32(alpha / len(down) if alpha else 1.0))
    return found
