"""The whole way at toy size: rows, packed weights, training, writing, an adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize
from lab.tests.training.toy_rows import ANSWER
from lab.training.convert import convert
from lab.training.encode import arrays_of, encode_rows
from lab.training.pack import pack
from lab.training.prompts import Row
from lab.training.tokenizer import Tokenizer
from tests.unit.adapters.models.gguf_writer import header_of
from tests.unit.adapters.models.toy_model import LAYERS, Runtime, toy_header, write_toy_model

from plansmith_desk.model.gguf import merge, quantize

ROOT = Path(__file__).parents[3]
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs torch: only who trains installs it"
)


def toy_lora(path: Path, *, broken: bool = False) -> Path:
    """Weights as `lab.training.train` saves them, drawn."""
    rng = np.random.default_rng(2)
    arrays = {}
    for layer in range(LAYERS):
        name = f"blk.{layer}.attn_output.weight"
        arrays[f"{name}.lora_a"] = rng.standard_normal((4, 64)).astype(np.float16)
        arrays[f"{name}.lora_b"] = rng.standard_normal((64, 4)).astype(np.float16)
    if broken:
        arrays["blk.0.attn_output.weight.lora_a"][0, 0] = np.nan
    np.savez(path, allow_pickle=False, rank=4, alpha=8.0, **arrays)
    return path


def test_a_converted_adapter_changes_what_the_runtime_writes(tmp_path: Path) -> None:
    model = write_toy_model(tmp_path / "toy.gguf")
    size = convert(toy_lora(tmp_path / "lora.npz"), tmp_path / "adapter.gguf", "toy")
    assert size == (tmp_path / "adapter.gguf").stat().st_size
    assert header_of(tmp_path / "adapter.gguf")["adapter.lora.alpha"] == 8.0
    plain = Runtime(model).likeliest("the total")
    assert Runtime(model, tmp_path / "adapter.gguf").likeliest("the total") != plain


def test_an_adapter_with_broken_weights_is_not_converted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not finite: blk\.0\.attn_output.*train again"):
        convert(toy_lora(tmp_path / "lora.npz", broken=True), tmp_path / "a.gguf", "toy")
    assert not (tmp_path / "a.gguf").exists()


def prepared(folder: Path) -> Path:
    """Writes the toy model, its rows and its pieces as they travel."""
    model = write_toy_model(folder / "toy.gguf")
    tokenizer = Tokenizer(toy_header())
    rows: list[tuple[int, Row]] = [
        (part, {**ANSWER, "request": f"the {number}", "answer": f"total {number % 3}"})
        for number in range(20)
        for part in (0, 1)
    ]
    encoded = encode_rows(rows, tokenizer, shared_by=4)
    words = np.arange(len(tokenizer), dtype=np.int32)
    arrays, _ = arrays_of(encoded, tokenizer, words)
    np.savez(folder / "data.npz", allow_pickle=False, **arrays)
    pack(model, words, folder / "pack", piece=100_000)
    return model


def run(folder: Path, module: str, *options: str) -> str:
    command = [sys.executable, "-m", f"training.{module}", "pack", "data.npz", *options]
    done = subprocess.run(
        [*command, "--device", "cpu"],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def losses(said: str) -> list[float]:
    steps = [line for line in said.splitlines() if line.startswith("step ")]
    return [float(line.split("loss ")[1].split(",")[0]) for line in steps]


@needs_torch
def test_both_ways_of_attention_give_the_same_values_and_gradients() -> None:
    attention: Any = import_module("lab.training.attention")
    torch: Any = import_module("torch")
    assert attention.difference("cpu", torch.float32) < 1e-5
    assert attention.difference("cpu", torch.bfloat16) < 0.05


@needs_torch
def test_a_toy_training_lowers_the_loss_and_its_adapter_runs(tmp_path: Path) -> None:
    model = prepared(tmp_path)
    options = ("--steps", "60", "--warm-up", "3", "--rate", "0.01", "--rows", "8")
    said = run(tmp_path, "train", "lora.npz", *options)
    assert losses(said)[-1] < losses(said)[0] / 2
    assert "at the end, answer: loss" in said
    run(tmp_path, "generate", "answers.npz", "--lora", "lora.npz", "--most", "16")
    with np.load(tmp_path / "answers.npz") as stored:
        assert len(stored["rows"]) == 20
    convert(tmp_path / "lora.npz", tmp_path / "adapter.gguf", "toy")
    plain = Runtime(model).likeliest("the total")
    assert Runtime(model, tmp_path / "adapter.gguf").likeliest("the total") != plain


@needs_torch
def test_rounded_weights_in_training_are_those_of_a_prepared_file(tmp_path: Path) -> None:
    rounding: Any = import_module("lab.training.rounding")
    torch: Any = import_module("torch")
    values = np.random.default_rng(3).standard_normal((8, 96)).astype(np.float32)
    values[2] = 0.0
    found = rounding.rounded(torch.from_numpy(values)).numpy()
    assert (found == dequantize(quantize(values), GGMLQuantizationType.Q4_0)).all()


@needs_torch
def test_a_toy_training_aware_of_rounding_keeps_its_answers_in_a_prepared_file(
    tmp_path: Path,
) -> None:
    model = prepared(tmp_path)
    options = ("--steps", "60", "--warm-up", "3", "--rate", "0.01", "--rows", "8", "--quantised")
    said = run(tmp_path, "train", "lora.npz", *options)
    assert losses(said)[-1] < losses(said)[0] / 2
    convert(tmp_path / "lora.npz", tmp_path / "adapter.gguf", "toy")
    merged = tmp_path / "merged.gguf"
    merge(model, tmp_path / "adapter.gguf", merged, threads=1, progress=lambda _: None)
    tokenizer = Tokenizer(toy_header())
    row = encode_rows([(0, {**ANSWER, "request": "the 1", "answer": "total 1"})], tokenizer)[0]
    asked = row.start + tokenizer.decode(row.rest)
    written = Runtime(merged).likeliest(asked)
    assert max(written, key=lambda token: written[token]) == row.answer[0]


@needs_torch
def test_a_training_without_all_pieces_says_which_are_missing(tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "pack" / "piece1" / "weights").unlink()
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(tmp_path, "train", "lora.npz", "--steps", "1")
    assert "pieces are missing, bring them first: pack/piece1/weights" in failed.value.stderr
