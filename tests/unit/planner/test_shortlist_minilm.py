from __future__ import annotations

from pathlib import Path

import pytest

from plansmith.adapters.ranking import minilm
from plansmith.adapters.ranking.minilm import MiniLmRanker
from plansmith.adapters.ranking.wordpiece import WordPieces
from plansmith.errors import Misconfigured

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
    numbers = WordPieces(VOCABULARY).numbers(text, 64)
    assert [PIECES[number] for number in numbers] == ["[CLS]", *pieces, "[SEP]"]


def test_a_long_text_is_cut_off() -> None:
    assert len(WordPieces(VOCABULARY).numbers("play " * 500, 16)) == 16


def test_nothing_is_loaded_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda _name: None)
    ranker = MiniLmRanker()
    assert ranker.scores("anything", []) == []
    with pytest.raises(Misconfigured, match="pip install"):
        ranker.scores("anything", ["text"])


def test_a_missing_numpy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(minilm, "import_module", missing)
    with pytest.raises(Misconfigured, match="numpy"):
        MiniLmRanker(tmp_path).scores("anything", ["text"])
