from __future__ import annotations

import numpy as np

from plansmith_desk.model.gguf.dequantize import dequantize
from plansmith_desk.model.gguf.quantize import quantize


def test_quantised_values_lie_within_half_a_step_of_the_values() -> None:
    values = np.random.default_rng(1).standard_normal((16, 256)).astype(np.float32)
    found = dequantize("Q4_0", quantize(values), values.shape)
    largest = np.abs(values.reshape(-1, 32)).max(1)
    error = np.abs(found - values).reshape(-1, 32).max(1)
    assert (error < largest / 6).all()


def test_quantised_values_have_a_smaller_error_than_with_the_largest_value_at_the_end() -> None:
    values = np.random.default_rng(2).standard_normal((64, 256)).astype(np.float32)
    blocks = values.reshape(-1, 32)
    at = np.abs(blocks).argmax(1)[:, None]
    scale = np.take_along_axis(blocks, at, 1) / -8
    plain = np.clip(np.rint(blocks / scale), -8, 7) * scale
    found = dequantize("Q4_0", quantize(values), values.shape).reshape(-1, 32)
    assert ((found - blocks) ** 2).sum() < 0.93 * ((plain - blocks) ** 2).sum()


def test_quantised_zeros_stay_zeros_and_four_bits_stay_as_they_are() -> None:
    steps = np.tile(np.arange(-8, 8, dtype=np.float32), 4).reshape(2, 32) * 0.5
    values = np.concatenate([steps, np.zeros((1, 32), np.float32)])
    assert (dequantize("Q4_0", quantize(values), values.shape) == values).all()
