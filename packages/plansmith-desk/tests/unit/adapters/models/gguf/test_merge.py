from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tests.unit.adapters.models.gguf_writer import Value, write_gguf
from tests.unit.adapters.models.toy_model import HIDDEN, Runtime, write_toy_model

from plansmith_desk.model.gguf import GgufFile, dequantize, merge

CHANGED = "blk.1.attn_output.weight"
HEADER: dict[str, Value] = {
    "general.architecture": "qwen2",
    "general.type": "adapter",
    "adapter.type": "lora",
    "adapter.lora.alpha": 8.0,
}


def adapter(path: Path, name: str = CHANGED, width: int = HIDDEN, seed: int = 1) -> Path:
    rng = np.random.default_rng(seed)
    tensors = {
        f"{name}.lora_a": (rng.standard_normal((4, width)) / 8).astype(np.float16),
        f"{name}.lora_b": rng.standard_normal((HIDDEN, 4)).astype(np.float16),
    }
    write_gguf(path, HEADER, tensors)
    return path


def merged(folder: Path, model: Path, over: Path) -> Path:
    path = folder / "merged.gguf"
    with path.open("wb") as out:
        digest = merge(model, over, out, threads=2, progress=lambda _: None)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    return path


def test_a_merged_file_holds_weights_and_adapter_in_four_bits(tmp_path: Path) -> None:
    model, over = write_toy_model(tmp_path / "toy.gguf"), adapter(tmp_path / "a.gguf")
    base, narrow = GgufFile(model), GgufFile(over)
    found = GgufFile(merged(tmp_path, model, over))
    assert found.header == base.header
    raw = base.tensors["token_embd.weight"].data
    assert (found.tensors["token_embd.weight"].data == raw).all()
    assert found.tensors["blk.0.attn_norm.weight"].kind == "F32"
    down, up = (
        dequantize("F16", each.data, each.shape)
        for each in (narrow.tensors[f"{CHANGED}.lora_{letter}"] for letter in "ab")
    )
    for name, change in ((CHANGED, up @ down * 2.0), ("blk.0.ffn_down.weight", 0.0)):
        tensor = base.tensors[name]
        wanted = dequantize("F32", tensor.data, tensor.shape) + change
        given = found.tensors[name]
        assert given.kind == "Q4_0"
        values = dequantize("Q4_0", given.data, given.shape)
        assert np.sqrt(((values - wanted) ** 2).sum() / (wanted**2).sum()) < 0.1


def test_the_runtime_says_with_a_merged_file_what_it_says_with_an_adapter(tmp_path: Path) -> None:
    model, over = write_toy_model(tmp_path / "toy.gguf"), adapter(tmp_path / "a.gguf")
    both = Runtime(model, over).likeliest("the total", 20)
    one = Runtime(merged(tmp_path, model, over)).likeliest("the total", 20)
    plain = Runtime(model).likeliest("the total", 20)
    assert _distance(one, both) < 0.5 * _distance(plain, both)


def _distance(found: dict[int, float], wanted: dict[int, float]) -> float:
    shared = found.keys() & wanted.keys()
    return sum(abs(found[token] - wanted[token]) for token in shared) / len(shared)


@pytest.mark.parametrize(
    ("name", "width"), [("blk.9.attn_output.weight", HIDDEN), (CHANGED, HIDDEN // 2)]
)
def test_an_adapter_of_another_model_is_not_merged(tmp_path: Path, name: str, width: int) -> None:
    model, over = write_toy_model(tmp_path / "toy.gguf"), adapter(tmp_path / "a.gguf", name, width)
    with pytest.raises(ValueError, match=f"does not fit the model at {name}"):
        merged(tmp_path, model, over)
