"""Rounds values to four bits as the type Q4_0 stores them: blocks of 32 values with one scale."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]

BLOCK: Final = 32
# Where the largest value of a block may come to lie between -8 and 7. A block takes the place
# with the least squared error.
PLACES: Final = (-8.0, -7.2, 7.2, 8.6, -8.8)
_LEAST: Final = np.float32(1e-30)


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
