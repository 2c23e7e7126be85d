from __future__ import annotations

import pytest

from plansmith_planner.ranking.minilm import WordPieces

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
