"""Converts a trained LoRA into an adapter that llama.cpp loads over the model file.

`python -m training.convert LORA.npz ADAPTER.gguf --name NAME`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plansmith.adapters.models.local.gguf.file import Value, write_gguf


def convert(lora: Path, adapter: Path, name: str) -> int:
    """Writes the adapter; returns its size in bytes."""
    with np.load(lora) as stored:
        alpha = float(stored["alpha"])
        tensors: dict[str, npt.NDArray[Any]] = {
            each: stored[each].astype(np.float16) for each in stored.files if ".lora_" in each
        }
    broken = [each for each, values in tensors.items() if not np.isfinite(values).all()]
    if broken:
        raise ValueError(f"weights are not finite: {', '.join(broken[:3])}; train again")
    header: dict[str, Value] = {
        "general.architecture": "qwen2",
        "general.type": "adapter",
        "general.name": name,
        "adapter.type": "lora",
        "adapter.lora.alpha": alpha,
    }
    write_gguf(adapter, header, tensors)
    return adapter.stat().st_size


def main() -> None:
    """Converts one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lora", type=Path)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--name", default="Plansmith planner")
    options = parser.parse_args()
    size = convert(options.lora, options.adapter, options.name)
    print(f"{options.adapter}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
