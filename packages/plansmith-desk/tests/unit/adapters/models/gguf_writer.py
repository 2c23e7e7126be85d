"""Writes GGUF files of plain tensors: adapters that were trained, and toy models of tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plansmith_desk.model.gguf import TensorHead, packed_head, packed_text, padded

Tensors = Mapping[str, npt.NDArray[Any]]
Value = str | float | int | bool | Sequence[str] | Sequence[int]


def write_gguf(path: Path, header: Mapping[str, Value], tensors: Tensors) -> None:
    """Writes a file of plain tensors (float16 or float32)."""
    kinds = {"float32": "F32", "float16": "F16"}
    heads = [
        TensorHead(name, kinds[tensor.dtype.name], tensor.shape) for name, tensor in tensors.items()
    ]
    fields = b"".join(packed_text(name) + _packed_value(value) for name, value in header.items())
    with path.open("wb") as file:
        file.write(packed_head(fields, len(header), heads))
        for tensor in tensors.values():
            file.write(padded(np.ascontiguousarray(tensor).tobytes()))


def _packed_value(value: Value) -> bytes:
    match value:
        case str():
            return struct.pack("<I", 8) + packed_text(value)
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case _:
            return struct.pack("<I", 9) + _packed_list(value)


def _packed_list(values: Sequence[str] | Sequence[int]) -> bytes:
    kind = 8 if all(isinstance(each, str) for each in values) else 5
    packed = (
        packed_text(each) if isinstance(each, str) else struct.pack("<i", each) for each in values
    )
    return struct.pack("<IQ", kind, len(values)) + b"".join(packed)
