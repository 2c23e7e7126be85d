"""Adapters over the weights: found, checked, loaded, and part of what a kept state is named by."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.adapters.models.gguf_writer import Value, write_gguf
from tests.unit.adapters.models.local_weights import FOLDER, SMALL, shallow_weights, small_weights

from plansmith.errors import Misconfigured, ModelFailed
from plansmith.ports import Message, Prompt
from plansmith_desk.model import files
from plansmith_desk.model.embedded import embedded_model
from plansmith_desk.model.engine import Engine, PromptCache
from plansmith_desk.model.files import KNOWN, Adapter, ModelFolder, weights_path
from plansmith_desk.model.model import LocalModel
from plansmith_planner.model_calls import read_answer

_MOST_SHIPPED = 20_000_000
ASKED = [Message("system", "Answer."), Message("user", "How are you?")]
LETTERS = "root ::= [a-z]{10}\n"


def answered(engine: Engine) -> str:
    async def ask() -> str:
        model = LocalModel(lambda: engine, name="local:small")
        _ = [each async for each in model.prime([ASKED[0], Message("user", "")])]
        answer = await read_answer(model.constrained(Prompt(ASKED), grammar=LETTERS))
        return answer.text

    try:
        return asyncio.run(ask())
    finally:
        engine.close()


def test_an_adapter_changes_what_the_model_writes_and_has_states_of_its_own(
    tmp_path: Path,
) -> None:
    cache = PromptCache(tmp_path / "states")
    loud = write_adapter(tmp_path / "loud.gguf", strength=2.0)
    answers = [
        answered(Engine(shallow_weights(), context=256, threads=2, cache=cache, adapter=each))
        for each in (None, loud, loud)
    ]
    assert answers[0] != answers[1] == answers[2]
    assert len(list(cache.folder.glob("*.state"))) == 2


def test_an_adapter_that_does_not_fit_its_model_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF nothing")
    engine = Engine(small_weights(), context=256, threads=1, adapter=bad)
    with pytest.raises(ModelFailed, match=r"with the adapter .*bad.gguf cannot be loaded"):
        answered(engine)


def test_every_known_adapter_is_in_the_package_whole_and_small() -> None:
    for model in KNOWN.values():
        if model.adapter is not None:
            assert model.adapter.find().stat().st_size == model.adapter.size <= _MOST_SHIPPED


def test_a_missing_or_changed_adapter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ADAPTERS", tmp_path)
    path = tmp_path / "a.gguf"
    adapter = Adapter("a.gguf", 3, hashlib.sha256(b"abc").hexdigest())
    with pytest.raises(Misconfigured, match="is missing"):
        adapter.find()
    path.write_bytes(b"abd")
    with pytest.raises(Misconfigured, match="damaged"):
        adapter.find()
    path.write_bytes(b"abc")
    small_weights()
    monkeypatch.setitem(KNOWN, SMALL.name, replace(SMALL, adapter=adapter))
    assert weights_path(SMALL.name, ModelFolder(FOLDER)).adapter == path


def test_an_adapter_file_can_be_named_beside_its_model(tmp_path: Path) -> None:
    toy = write_adapter(tmp_path / "toy.gguf", strength=0.1)
    path = small_weights()
    found = weights_path(f"{SMALL.name}+{toy}", ModelFolder(FOLDER))
    assert (found.path, found.adapter) == (path, toy)
    assert weights_path(f"{path}+{toy}", ModelFolder(FOLDER)).adapter == toy
    assert embedded_model(f"{SMALL.name}+{toy}").name == f"local:{SMALL.name}+{toy}"
    with pytest.raises(Misconfigured, match="there is no file"):
        weights_path(f"{SMALL.name}+{tmp_path}/none.gguf", ModelFolder(FOLDER))
    odd = tmp_path / "a+b.gguf"  # a file with a plus in its name is a file
    odd.write_bytes(b"x")
    assert weights_path(str(odd), ModelFolder(tmp_path)) == (odd, None, None)


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
