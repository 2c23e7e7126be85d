"""Ranking by meaning, with a small model of arbitrary weights."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import Misconfigured
from plansmith_planner.ranking import minilm
from plansmith_planner.ranking.minilm import Encoder, MiniLmRanker, piece_numbers

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


def write_model(folder: Path, *, words: tuple[str, ...] = WORDS) -> Path:
    """Write the two files of a model, as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(1)
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, shape in shapes().items():
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


needs_numpy = pytest.mark.skipif(
    find_spec("numpy") is None, reason="numpy is not installed: pip install numpy"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def test_nothing_is_loaded_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda _name: None)
    ranker = MiniLmRanker()
    assert ranker.scores("anything", []) == []
    with pytest.raises(Misconfigured, match="pip install"):
        ranker.scores("anything", ["text"])


def test_a_missing_numpy_is_named(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(minilm, "import_module", missing)
    with pytest.raises(Misconfigured, match="pip install numpy"):
        MiniLmRanker(model).scores("anything", ["text"])


def _header(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


DAMAGED: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "noise": lambda _: b"\xff" * 64,
    "no table": lambda _: _header(b"[]"),
    "no arrays": lambda _: _header(b"{}"),
    "no text": lambda _: _header(b"\xff" * 9),
    "cut short": lambda raw: raw[:-100],
    "another shape": lambda raw: raw.replace(b"[256, 24]", b"[250, 24]"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_file_that_is_no_model_is_refused_by_name(model: Path, kind: str) -> None:
    path = model / "model.safetensors"
    made = DAMAGED[kind](path.read_bytes())
    path.unlink()
    if made is not None:
        path.write_bytes(made)
    with pytest.raises(Misconfigured, match=r"model\.safetensors") as caught:
        MiniLmRanker(model).scores("anything", ["text"])
    assert "pip install" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "error"),
    [(("[UNK]", "weather"), r"\[CLS\], \[SEP\] not in it"), ((*WORDS, "extra"), "fewer words")],
)
def test_a_vocabulary_that_does_not_fit_is_refused(
    tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    with pytest.raises(Misconfigured, match=error):
        Encoder(write_model(tmp_path, words=words))


def test_a_request_in_a_script_the_model_cannot_read_gets_no_opinion(tmp_path: Path) -> None:
    ranker = MiniLmRanker(tmp_path / "never read")
    assert ranker.scores("明天北京 weather 怎么样", ["weather", "mail"]) == [0.0, 0.0]
    assert ranker.scores("погода", ["weather"]) == [0.0]


@needs_numpy
def test_the_text_itself_is_nearest(model: Path) -> None:
    texts = ["send mail", "weather city", "citys", ""]
    scores = MiniLmRanker(model).scores("weather city", texts)
    assert scores[1] == pytest.approx(1.0, abs=1e-3)
    assert max(scores) == scores[1]


@needs_numpy
def test_texts_are_scored_alike_alone_and_together(model: Path) -> None:
    texts = ["mail", "send mail citys " * 20, "weather"]
    together = MiniLmRanker(model).scores("weather", texts)
    alone = [MiniLmRanker(model).scores("weather", [text])[0] for text in texts]
    assert together == pytest.approx(alone, abs=1e-3)


@needs_numpy
def test_vectors_are_kept_in_a_folder_and_read_again(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["mail", "weather"]
    first = MiniLmRanker(model, cache=tmp_path / "kept").scores("city", texts)
    embedded: list[str] = []
    real = Encoder.embed

    def watched(self: Encoder, given: list[str]) -> object:
        embedded.extend(given)
        return real(self, given)

    monkeypatch.setattr(Encoder, "embed", watched)
    again = MiniLmRanker(model, cache=tmp_path / "kept")
    assert again.scores("city", texts) == first
    assert embedded == ["city"]
    again.scores("city", ["weather", "send"])
    assert embedded == ["city", "send", "city"]


@needs_numpy
def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path, model: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    assert len(MiniLmRanker(model, cache=taken / "folder").scores("city", ["mail"])) == 1


PIECES = ("[UNK]", "[CLS]", "[SEP]", "play", "##ing", "cafe", "!", "天", "气")
VOCABULARY = {piece: number for number, piece in enumerate(PIECES)}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("playing", ["play", "##ing"]),
        ("Café!", ["cafe", "!"]),
        ("天气", ["天", "气"]),
        ("xyz play", ["[UNK]", "play"]),
        ("x" * 200, ["[UNK]"]),
        ("\ud800", []),
        ("", []),
    ],
)
def test_text_is_cut_into_the_longest_known_pieces(text: str, pieces: list[str]) -> None:
    numbers = piece_numbers(text, VOCABULARY, 64)
    assert [PIECES[number] for number in numbers] == ["[CLS]", *pieces, "[SEP]"]


def test_a_long_text_is_cut_off() -> None:
    assert len(piece_numbers("play " * 500, VOCABULARY, 16)) == 16
