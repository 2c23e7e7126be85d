"""Each type against the definition of its blocks, value by value."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from plansmith_desk.model.gguf import TYPES, dequantize


def half(raw: bytes, at: int) -> float:
    return float(struct.unpack_from("<e", raw, at)[0])


def q8_0(raw: bytes) -> list[float]:
    return [half(raw, 0) * value for value in struct.unpack_from("<32b", raw, 2)]


def q4_0(raw: bytes) -> list[float]:
    low = [half(raw, 0) * ((byte & 15) - 8) for byte in raw[2:]]
    return low + [half(raw, 0) * ((byte >> 4) - 8) for byte in raw[2:]]


def q5_0(raw: bytes) -> list[float]:
    (high,) = struct.unpack_from("<I", raw, 2)
    halves = [byte & 15 for byte in raw[6:]] + [byte >> 4 for byte in raw[6:]]
    return [
        half(raw, 0) * ((value | (high >> place & 1) << 4) - 16)
        for place, value in enumerate(halves)
    ]


def scale_and_least(packed: bytes, place: int) -> tuple[int, int]:
    if place < 4:
        return packed[place] & 63, packed[place + 4] & 63
    return (
        packed[place + 4] & 15 | packed[place - 4] >> 6 << 4,
        packed[place + 4] >> 4 | packed[place] >> 6 << 4,
    )


def k_values(raw: bytes, quants: bytes, high: bytes) -> list[float]:
    found: list[float] = []
    for place in range(8):
        scale, least = scale_and_least(raw[4:16], place)
        for at in range(32):
            byte = quants[place // 2 * 32 + at]
            value = (byte >> 4 if place % 2 else byte & 15) | (high[at] >> place & 1) << 4
            found.append(half(raw, 0) * scale * value - half(raw, 2) * least)
    return found


def q4_k(raw: bytes) -> list[float]:
    return k_values(raw, raw[16:], bytes(32))


def q5_k(raw: bytes) -> list[float]:
    return k_values(raw, raw[48:], raw[16:48])


def q6_k(raw: bytes) -> list[float]:
    low, high, scales = raw[:128], raw[128:192], struct.unpack_from("<16b", raw, 192)
    found: list[float] = []
    for value in range(256):
        part, row, at = value // 128, value % 128 // 32, value % 32
        byte = low[part * 64 + row % 2 * 32 + at]
        bits = (byte >> 4 if row >= 2 else byte & 15) | (high[part * 32 + at] >> 2 * row & 3) << 4
        found.append(half(raw, 208) * scales[value // 16] * (bits - 32))
    return found


@pytest.mark.parametrize("defined", [q8_0, q4_0, q5_0, q4_k, q5_k, q6_k])
def test_quantised_values_are_those_of_the_definition(
    defined: Callable[[bytes], list[float]],
) -> None:
    kind = defined.__name__.upper()
    size, width = next((values, raw) for name, values, raw in TYPES.values() if name == kind)
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (6, width), dtype=np.uint8)
    # The scales of a block are numbers, not any bits.
    for place in {"Q6_K": (208,), "Q4_K": (0, 2), "Q5_K": (0, 2)}.get(kind, (0,)):
        scales = rng.standard_normal((6, 1)).astype(np.float16)
        blocks[:, place : place + 2] = scales.view(np.uint8)
    expected = [defined(block.tobytes()) for block in blocks]
    found = dequantize(kind, blocks.reshape(2, -1), (2, 3 * size))
    assert np.allclose(found, np.array(expected).reshape(2, -1), rtol=1e-5, atol=1e-6)


def test_plain_values_are_read_as_they_are() -> None:
    values = np.arange(6, dtype=np.float16).reshape(2, 3)
    assert (dequantize("F16", values.view(np.uint8), (2, 3)) == values).all()
