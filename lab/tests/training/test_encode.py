from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize
from lab.tests.training.toy_rows import ANSWER, CHINESE, FOLDER, TOOLS, folder_row, sql
from lab.training.batches import Data, batch_of, cut_batches
from lab.training.encode import arrays_of, encode_rows, vocabulary_of
from lab.training.network_files import read_index, read_raw
from lab.training.pack import pack
from lab.training.prompts import Renderer, Row
from lab.training.tokenizer import Tokenizer
from tests.unit.adapters.models.toy_model import toy_header, write_toy_model

from plansmith_desk.model.prompt import RULES
from plansmith_desk.model.wording import SYSTEM

ROWS: list[tuple[int, Row]] = [(0, FOLDER), (0, CHINESE), (0, TOOLS), (0, ANSWER), (1, FOLDER)]


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer(toy_header())


def written(path: Path, rows: list[tuple[int, Row]], shared_by: int = 2) -> Data:
    encoded = encode_rows(rows, tokenizer(), longest=20_000, shared_by=shared_by)
    arrays, _ = arrays_of(encoded, tokenizer(), vocabulary_of(encoded, tokenizer()))
    np.savez(path, allow_pickle=False, **arrays)
    return Data(path)


def test_a_row_is_rendered_as_the_product_asks_its_model() -> None:
    found = Renderer().render(FOLDER)
    assert found.long_start.startswith(f"<|im_start|>system\n{RULES}<|im_end|>\n<|im_start|>user\n")
    assert "\ntables.sql(" in found.long_start
    assert found.rest == (
        "Folder:\nsales.csv: region (North/South), units (4, 1)\nnotes.md: Team meeting\n"
        "Now: Monday 2026-11-16 09:12\nRequest: total units<|im_end|>\n<|im_start|>assistant\n"
    )
    assert found.answer == (
        '{"calls":[{"tool":"tables.sql","args":{"query":"SELECT SUM(units) FROM '
        '\\"sales.csv\\""}}]}<|im_end|>'
    )


def test_an_answer_row_is_rendered_with_the_prompt_of_answers() -> None:
    found = Renderer().render(ANSWER)
    assert found.long_start == found.short_start
    assert SYSTEM in found.long_start
    assert found.answer == "It ends on 3 May.<|im_end|>"


def test_encoded_rows_are_the_tokens_of_the_whole_prompt(tmp_path: Path) -> None:
    data = written(tmp_path / "data.npz", ROWS)
    renderer = Renderer()
    for number, (_, row) in enumerate(ROWS):
        text = renderer.render(row)
        start = data.starts[int(data.start[number])]
        ids = np.concatenate([start, data.rests[number], data.answers[number]])
        assert tokenizer().encode(text.long_start + text.rest + text.answer) == ids.tolist()


def test_encoded_rows_with_all_tools_share_one_start(tmp_path: Path) -> None:
    data = written(tmp_path / "data.npz", ROWS)
    assert data.start[0] == data.start[1] == data.start[4]
    assert data.start[2] != data.start[0]
    assert data.rows(0) == [0, 1, 2, 3]
    assert data.rows(1) == [4]


def test_an_encoded_row_that_is_too_long_is_left_out_aloud(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = folder_row("x " * 900, {"reply": "no"})
    assert len(encode_rows([(0, FOLDER), (0, long)], tokenizer(), longest=900, shared_by=1)) == 1
    assert "left out, over 900 tokens: {'folder': 1}" in capsys.readouterr().out


def test_an_encoded_row_with_words_outside_the_vocabulary_is_left_out_aloud(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rare = folder_row("Ω!", {"reply": "no"})
    rows = encode_rows([(0, FOLDER), (0, rare)], tokenizer(), longest=9000, shared_by=1)
    known = vocabulary_of(rows, tokenizer())
    lost = next(iter({*rows[1].rest} - {*rows[0].rest, *tokenizer().encode(rows[0].start)}))
    _, kept = arrays_of(rows, tokenizer(), known[known != lost])
    assert [row.row for row in kept] == [FOLDER]
    assert "words outside the vocabulary: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"calls": [{"tool": "tables.guess", "args": {}}]}, "tables.guess is not offered"),
        (sql("SELECT 1") | {"calls": [{"tool": "tables.sql", "args": {}}]}, "tables.sql: query"),
        ({"calls": [{"tool": "files.read", "args": {"path": "a", "x": 1}}]}, "files.read: x"),
        ({"calls": [{"tool": "files.read", "args": {"path": "$1"}}]}, "$1 is no call before it"),
    ],
)
def test_an_encoded_row_whose_answer_no_tool_allows_is_left_out_aloud(
    answer: dict[str, Any], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = folder_row("x", answer)
    assert len(encode_rows([(0, FOLDER), (0, wrong)], tokenizer(), longest=9000)) == 1
    assert f"left out, 1 rows: {problem}" in capsys.readouterr().out.replace("files.read: $", "$")


def test_a_batch_marks_exactly_the_tokens_of_the_answers(tmp_path: Path) -> None:
    data = written(tmp_path / "data.npz", ROWS)
    batch = batch_of(data, [0, 1])
    following = np.append(batch.ends.reshape(-1)[1:], 0)[batch.places]
    assert following.tolist() == batch.labels.tolist()
    assert (len(batch.start) + batch.ends.shape[1]) % 16 == 0
    assert np.bincount(batch.owners).tolist() == [len(data.answers[0]), len(data.answers[1])]


def test_batches_hold_every_row_once_and_one_start_each(tmp_path: Path) -> None:
    data = written(tmp_path / "data.npz", ROWS * 5)
    rows = data.rows(0)
    batches = list(cut_batches(data, rows, tokens=9000, most=3))
    assert sorted(row for batch in batches for row in batch) == rows
    assert all(len({int(data.start[row]) for row in batch}) == 1 for batch in batches)
    assert max(map(len, batches)) <= 3


def test_packed_pieces_hold_the_weights_of_the_words_in_use(tmp_path: Path) -> None:
    model = write_toy_model(tmp_path / "toy.gguf")
    words = np.array([3, 5, 250])
    names = pack(model, words, tmp_path / "pack", piece=50_000)
    index, raw = read_index(tmp_path / "pack"), read_raw(tmp_path / "pack")
    assert len(names) > 1
    assert index["config"]["vocabulary"] == 3
    tensors = {each.name: each for each in GGUFReader(model).tensors}
    for entry in index["tensors"]:
        data = raw[entry["start"] : entry["start"] + entry["bytes"]]
        kind, shape = GGMLQuantizationType[entry["kind"]], entry["shape"]
        values = dequantize(data, kind).reshape(shape)
        whole = dequantize(tensors[entry["name"]].data, kind)
        by_word = entry["name"] in {"token_embd.weight", "output.weight"}
        assert (values == (whole[words] if by_word else whole)).all()
