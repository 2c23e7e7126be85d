"""Values of quantised tensors, block by block: of the types in model files, and to four bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

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
    """Returns the two-byte numbers of each block."""
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
    quants = raw[:, 16:].reshape(len(raw), 4, 1, _SUB)
    values = np.concatenate([quants & 15, quants >> 4], axis=2).reshape(len(raw), 8, _SUB)
    found: Values = scales[:, :, None] * values.astype(np.float32) - mins[:, :, None]
    return found


def _q5_k(raw: Blocks) -> Values:
    scales, mins = _scales_and_mins(raw)
    quants = raw[:, 48:].reshape(len(raw), 4, 1, _SUB)
    low = np.concatenate([quants & 15, quants >> 4], axis=2).reshape(len(raw), 8, _SUB)
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    high = (raw[:, None, 16:48] >> shifts) & 1
    values = (low | (high << 4)).astype(np.float32)
    found: Values = scales[:, :, None] * values - mins[:, :, None]
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
    "Q5_K": (176, _q5_k),
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
