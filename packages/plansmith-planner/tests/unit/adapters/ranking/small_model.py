"""A model of MiniLM's shape with a few words and arbitrary weights, written as its files are."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "weather", "mail", "send", "city", "##s")
SIZE = 24
WIDE = 8
LAYERS = 6


def shapes() -> dict[str, list[int]]:
    """Every array the network needs."""
    found = {
        "embeddings.word_embeddings.weight": [len(WORDS), SIZE],
        "embeddings.position_embeddings.weight": [256, SIZE],
        "embeddings.token_type_embeddings.weight": [2, SIZE],
        "embeddings.LayerNorm.weight": [SIZE],
        "embeddings.LayerNorm.bias": [SIZE],
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            found |= _linear(f"{at}.attention.{part}", SIZE, SIZE)
        found |= _linear(f"{at}.intermediate.dense", WIDE, SIZE)
        found |= _linear(f"{at}.output.dense", SIZE, WIDE)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{at}.{norm}.weight": [SIZE], f"{at}.{norm}.bias": [SIZE]}
    return found


def _linear(at: str, out: int, into: int) -> dict[str, list[int]]:
    return {f"{at}.weight": [out, into], f"{at}.bias": [out]}


def write(folder: Path, *, without: str = "", words: tuple[str, ...] = WORDS) -> Path:
    """Write the two files; an array can be left out."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(1)
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, shape in shapes().items():
        if name == without:
            continue
        count = math.prod(shape)
        numbers = [1.0] * count if name.endswith("LayerNorm.weight") else []
        numbers = numbers or [chance.gauss(0, 0.5) for _ in range(count)]
        raw = struct.pack(f"<{count}f", *numbers)
        span = [len(body), len(body) + len(raw)]
        table[name] = {"dtype": "F32", "shape": shape, "data_offsets": span}
        body += raw
    head = json.dumps(table).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + body)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder
