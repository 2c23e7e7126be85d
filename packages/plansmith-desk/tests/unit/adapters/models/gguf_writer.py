"""Writes GGUF files of plain tensors: adapters that were trained, and toy models of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from gguf import GGUFReader, GGUFValueType, GGUFWriter

Tensors = Mapping[str, npt.NDArray[Any]]
Value = str | float | int | bool | Sequence[str] | Sequence[int]
_KINDS = {
    str: GGUFValueType.STRING,
    bool: GGUFValueType.BOOL,
    int: GGUFValueType.UINT32,
    float: GGUFValueType.FLOAT32,
    list: GGUFValueType.ARRAY,
}


def write_gguf(path: Path, header: Mapping[str, Value], tensors: Tensors) -> None:
    """Writes a file of plain tensors (float16 or float32)."""
    writer = GGUFWriter(path, "")
    writer.kv_data[0].clear()
    for name, value in header.items():
        writer.add_key_value(name, value, _KINDS[type(value)])
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def header_of(path: Path) -> dict[str, Any]:
    """Returns the fields of a file by name."""
    fields = GGUFReader(path).fields.values()
    return {each.name: each.contents() for each in fields if not each.name.startswith("GGUF.")}
