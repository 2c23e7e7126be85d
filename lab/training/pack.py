"""Packs a GGUF file for the way to the machine that trains: raw bytes, only the words in use.

`python -m lab.training.pack MODEL.gguf DATA.npz FOLDER` writes folders that can travel one at
a time: `index`, `piece0` and so on.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from gguf.gguf_reader import ReaderTensor
from tests.unit.adapters.models.gguf_writer import header_of

_PIECE: Final = 54_000_000
_BY_WORD: Final = ("token_embd.weight", "output.weight")


def config_of(header: dict[str, Any], vocabulary: int) -> dict[str, float | int]:
    """Returns the sizes of a network as its file tells them."""
    return {
        "layers": header["qwen2.block_count"],
        "hidden": header["qwen2.embedding_length"],
        "inner": header["qwen2.feed_forward_length"],
        "heads": header["qwen2.attention.head_count"],
        "kv_heads": header["qwen2.attention.head_count_kv"],
        "theta": header["qwen2.rope.freq_base"],
        "epsilon": header["qwen2.attention.layer_norm_rms_epsilon"],
        "vocabulary": vocabulary,
    }


def pack(model: Path, words: npt.NDArray[Any], folder: Path, piece: int = _PIECE) -> list[str]:
    """Writes the pieces and their index; returns the names of the pieces."""
    entries: list[dict[str, Any]] = []
    out = bytearray()
    for tensor in GGUFReader(model).tensors:
        raw, shape = _in_use(tensor, words)
        entry = {"name": tensor.name, "kind": tensor.tensor_type.name, "shape": shape}
        entries.append(entry | {"start": len(out), "bytes": len(raw)})
        out += raw
    names: list[str] = []
    even = math.ceil(len(out) / math.ceil(len(out) / piece))
    for start in range(0, len(out), even):
        names.append(f"piece{len(names)}")
        (folder / names[-1]).mkdir(parents=True, exist_ok=True)
        (folder / names[-1] / "weights").write_bytes(out[start : start + even])
    index = {"config": config_of(header_of(model), len(words)), "pieces": names, "tensors": entries}
    (folder / "index").mkdir(parents=True, exist_ok=True)
    (folder / "index" / "index.json").write_text(json.dumps(index), encoding="utf-8")
    return names


def _in_use(tensor: ReaderTensor, words: npt.NDArray[Any]) -> tuple[bytes, list[int]]:
    data, shape = tensor.data, [int(each) for each in reversed(tensor.shape)]
    if tensor.name in _BY_WORD:
        data, shape = data[words], [len(words), *shape[1:]]
    return np.ascontiguousarray(data).tobytes(), shape


def main() -> None:
    """Packs one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    about = "the most bytes of a piece"
    parser.add_argument("--piece", type=int, default=_PIECE, help=about)
    options = parser.parse_args()
    with np.load(options.data) as stored:
        words = stored["vocabulary"]
    names = pack(options.model, words, options.folder, options.piece)
    print(f"{len(names)} pieces of at most {options.piece // 1_000_000} MB, {len(words)} words")


if __name__ == "__main__":
    main()
