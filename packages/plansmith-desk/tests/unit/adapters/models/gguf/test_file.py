from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.adapters.models.gguf_writer import Value, write_gguf

from plansmith_desk.model.gguf import GgufFile


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
