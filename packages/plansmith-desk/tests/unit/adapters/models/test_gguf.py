"""GGUF files: read as written, values by the definition of each type, adapters merged in."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.unit.adapters.models.gguf_writer import Value, write_gguf
from tests.unit.adapters.models.toy_model import HIDDEN, Runtime, write_toy_model

from plansmith_desk.model.gguf import TYPES, GgufFile, dequantize, merge

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


def test_a_gguf_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    half = np.arange(12, dtype=np.float16).reshape(3, 4)
    single = np.arange(5, dtype=np.float32)
    header: dict[str, Value] = {
        "name": "x",
        "count": 3,
        "share": 0.5,
        "flag": True,
        "words": ["a", "你"],
        "n": [1, -2],
    }
    write_gguf(tmp_path / "a.gguf", header, {"half": half, "single": single})
    found = GgufFile(tmp_path / "a.gguf")
    assert found.header == header
    assert found.tensors["half"].shape == (3, 4)
    assert (found.tensors["half"].data.view(np.float16) == half).all()
    assert (found.tensors["single"].data.view(np.float32)[0] == single).all()


def test_a_file_of_another_format_is_refused_as_no_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"<html>not found</html>")
    with pytest.raises(ValueError, match="not a GGUF file: download the model again"):
        GgufFile(tmp_path / "a.gguf")


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


def q4_k(raw: bytes) -> list[float]:
    found: list[float] = []
    for place in range(8):
        scale, least = scale_and_least(raw[4:16], place)
        for byte in raw[16 + place // 2 * 32 :][:32]:
            value = byte >> 4 if place % 2 else byte & 15
            found.append(half(raw, 0) * scale * value - half(raw, 2) * least)
    return found


def q6_k(raw: bytes) -> list[float]:
    low, high, scales = raw[:128], raw[128:192], struct.unpack_from("<16b", raw, 192)
    found: list[float] = []
    for value in range(256):
        part, row, at = value // 128, value % 128 // 32, value % 32
        byte = low[part * 64 + row % 2 * 32 + at]
        bits = (byte >> 4 if row >= 2 else byte & 15) | (high[part * 32 + at] >> 2 * row & 3) << 4
        found.append(half(raw, 208) * scales[value // 16] * (bits - 32))
    return found


@pytest.mark.parametrize("defined", [q8_0, q4_0, q5_0, q4_k, q6_k])
def test_quantised_values_are_those_of_the_definition(
    defined: Callable[[bytes], list[float]],
) -> None:
    kind = defined.__name__.upper()
    size, width = next((values, raw) for name, values, raw in TYPES.values() if name == kind)
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (6, width), dtype=np.uint8)
    # The scales of a block are numbers, not any bits.
    for place in {"Q6_K": (208,), "Q4_K": (0, 2)}.get(kind, (0,)):
        scales = rng.standard_normal((6, 1)).astype(np.float16)
        blocks[:, place : place + 2] = scales.view(np.uint8)
    expected = [defined(block.tobytes()) for block in blocks]
    found = dequantize(kind, blocks.reshape(2, -1), (2, 3 * size))
    assert np.allclose(found, np.array(expected).reshape(2, -1), rtol=1e-5, atol=1e-6)


def test_plain_values_are_read_as_they_are() -> None:
    values = np.arange(6, dtype=np.float16).reshape(2, 3)
    assert (dequantize("F16", values.view(np.uint8), (2, 3)) == values).all()
