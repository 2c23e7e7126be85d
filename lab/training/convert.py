"""Converts a trained LoRA into an adapter that llama.cpp loads over the model file.

`python -m lab.training.convert LORA.npz ADAPTER.gguf --name NAME`; with `--back` an adapter becomes
a LoRA again, to train on (`lab.training.train --begin`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from tests.unit.adapters.models.gguf_writer import Value, header_of, write_gguf


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


def restore(adapter: Path, lora: Path) -> int:
    """Writes the weights of an adapter as a LoRA that can be trained on; returns their number."""
    arrays: dict[str, npt.NDArray[Any]] = {
        each.name: np.asarray(each.data) for each in GGUFReader(adapter).tensors
    }
    rank = next(each.shape[0] for name, each in arrays.items() if name.endswith(".lora_a"))
    alpha = float(header_of(adapter)["adapter.lora.alpha"])
    np.savez(lora, allow_pickle=False, rank=rank, alpha=alpha, **arrays)
    return sum(each.size for each in arrays.values())


def main() -> None:
    """Converts one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lora", type=Path)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--name", default="Plansmith planner")
    parser.add_argument("--back", action="store_true", help="from the adapter to the LoRA")
    options = parser.parse_args()
    if options.back:
        print(f"{options.lora}: {restore(options.adapter, options.lora)} weights")
        return
    size = convert(options.lora, options.adapter, options.name)
    print(f"{options.adapter}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
