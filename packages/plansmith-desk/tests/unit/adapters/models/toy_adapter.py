"""Writes a small LoRA adapter in the GGUF format, for the smallest known model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.unit.adapters.models.gguf_writer import Value, write_gguf

_WIDTH = 576  # of smollm2-135m
_RANK = 4


def write_adapter(path: Path, *, strength: float, seed: int = 1) -> Path:
    """Writes an adapter that changes the first layer's queries as strongly as told."""
    chance = np.random.default_rng(seed)
    header: dict[str, Value] = {
        "general.type": "adapter",
        "general.architecture": "llama",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(_RANK),
    }
    tensors = {
        f"blk.0.attn_output.weight.{end}": (chance.uniform(-1, 1, shape) * strength).astype("f4")
        for end, shape in (("lora_a", (_RANK, _WIDTH)), ("lora_b", (_WIDTH, _RANK)))
    }
    write_gguf(path, header, tensors)
    return path
