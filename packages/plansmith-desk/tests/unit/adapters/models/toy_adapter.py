"""Writes a small LoRA adapter in the GGUF format, for the smallest known model."""

from __future__ import annotations

import random
import struct
from pathlib import Path

_WIDTH = 576  # of smollm2-135m
_RANK = 4
_STRING, _FLOAT = 8, 6
_ALIGNED = 32


def write_adapter(path: Path, *, strength: float, seed: int = 1) -> Path:
    """Writes an adapter that changes the first layer's queries as strongly as told."""
    chance = random.Random(seed)
    facts = [
        _fact("general.type", _STRING, _text("adapter")),
        _fact("general.architecture", _STRING, _text("llama")),
        _fact("adapter.type", _STRING, _text("lora")),
        _fact("adapter.lora.alpha", _FLOAT, struct.pack("<f", float(_RANK))),
    ]
    size = _WIDTH * _RANK
    tensors, data = b"", b""
    for end, shape in (("lora_a", (_WIDTH, _RANK)), ("lora_b", (_RANK, _WIDTH))):
        tensors += _text(f"blk.0.attn_output.weight.{end}") + struct.pack("<I2Q", 2, *shape)
        tensors += struct.pack("<IQ", 0, len(data))
        data += struct.pack(f"<{size}f", *(chance.uniform(-1, 1) * strength for _ in range(size)))
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, len(facts)) + b"".join(facts) + tensors
    path.write_bytes(head + b"\0" * (-len(head) % _ALIGNED) + data)
    return path


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _fact(name: str, kind: int, value: bytes) -> bytes:
    return _text(name) + struct.pack("<I", kind) + value
