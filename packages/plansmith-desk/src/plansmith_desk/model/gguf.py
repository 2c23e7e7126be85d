"""Merges an adapter into the weights of a model, rounded to four bits: one GGUF file of two."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize
from gguf.gguf_reader import ReaderTensor

Values = npt.NDArray[np.float32]
Change = tuple[Values, Values]  # the two narrow matrices of a tensor that an adapter changes

BLOCK: Final = 32
# Where the largest value of a block may come to lie between -8 and 7. A block takes the place
# with the least squared error.
PLACES: Final = (-8.0, -7.2, 7.2, 8.6, -8.8)
_LEAST: Final = np.float32(1e-30)
_CHUNK: Final = 1 << 17  # values that a thread works on: they fit into its cache
_FOUR_BITS: Final = GGMLQuantizationType.Q4_0
_BLOCK_BYTES: Final = 18


class _File(GGUFReader):
    """A file whose bytes are a plain array: a mapped one takes thrice as long to be cut up."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, np.asarray(value) if name == "data" else value)


def merge(
    base: Path, adapter: Path, out: Path, *, threads: int, progress: Callable[[float], None]
) -> None:
    """Writes one file from two; `progress` gets the share that is done.

    llama.cpp lays Q4_0 out for the processor when it loads a file, and reads and writes faster
    then.
    """
    file = _File(base)
    changes = _changes(GGUFReader(adapter), file)
    with closing(_begun(file, out)) as writer, ThreadPoolExecutor(threads) as pool:
        for done, tensor in enumerate(file.tensors):
            data: npt.NDArray[Any] = tensor.data
            if _is_rounded(tensor):
                rows = max(1, _CHUNK // int(tensor.shape[0]))
                parts = [slice(first, first + rows) for first in range(0, len(data), rows)]
                work = partial(_merged, tensor, changes.get(tensor.name))
                data = np.concatenate(list(pool.map(work, parts)))
            writer.write_tensor_data(data)
            progress((done + 1) / len(file.tensors))


def _begun(file: GGUFReader, out: Path) -> GGUFWriter:
    """Returns a file with the header of another, of which the tensors are still to be written."""
    writer = GGUFWriter(out, "")
    for field in file.fields.values():
        if not field.name.startswith("GGUF."):
            inner = field.types[-1] if field.types[0] is GGUFValueType.ARRAY else None
            writer.kv_data[0].pop(field.name, None)
            writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    for each in file.tensors:
        if _is_rounded(each):
            shape = (int(each.shape[1]), int(each.shape[0]) // BLOCK * _BLOCK_BYTES)
            size, kind = shape[0] * shape[1], np.dtype(np.uint8)
            writer.add_tensor_info(each.name, shape, kind, size, _FOUR_BITS)
        else:
            data: npt.NDArray[Any] = each.data
            writer.add_tensor_info(each.name, data.shape, data.dtype, data.nbytes, each.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    return writer


def _merged(tensor: ReaderTensor, change: Change | None, rows: slice) -> npt.NDArray[np.uint8]:
    values: Values = dequantize(tensor.data[rows], tensor.tensor_type)
    if change is not None:
        down, up = change
        # Not by a matrix library: its threads would spin beside ours.
        values = values + np.einsum("or,ri->oi", up[rows], down)
    return quantize(values)


def _is_rounded(tensor: ReaderTensor) -> bool:
    """Whether a tensor is multiplied with; of the embedding only single rows are looked up."""
    matrix = len(tensor.shape) == 2 and tensor.shape[0] % BLOCK == 0
    return bool(matrix) and tensor.name != "token_embd.weight"


def _changes(adapter: GGUFReader, base: GGUFReader) -> dict[str, Change]:
    """Returns what the adapter changes by tensor, the second matrix scaled."""
    told = adapter.get_field("adapter.lora.alpha")
    alpha = float(told.contents()) if told else 0.0
    tensors, known = ({each.name: each for each in some.tensors} for some in (base, adapter))
    found: dict[str, Change] = {}
    for name in {each.rsplit(".lora_", 1)[0] for each in known}:
        parts = [known[f"{name}.lora_{letter}"] for letter in "ab"]
        down, up = (dequantize(each.data, each.tensor_type) for each in parts)
        tensor = tensors.get(name)
        fits = tensor is not None and [*tensor.shape] == [down.shape[1], len(up)]
        if tensor is None or not fits or not _is_rounded(tensor):
            raise ValueError(f"the adapter does not fit the model at {name}")
        found[name] = (down, up * np.float32(alpha / len(down) if alpha else 1.0))
    return found


def quantize(values: Values) -> npt.NDArray[np.uint8]:
    """Returns rows of Q4_0 blocks; each row is a multiple of 32 values."""
    rows = len(values)
    # One block a column: sums over a block are then sums of whole rows, which are fast.
    columns = np.ascontiguousarray(values.reshape(-1, BLOCK).T)
    scales, steps = _rounded(columns)
    raw = np.empty((columns.shape[1], 2 + BLOCK // 2), dtype=np.uint8)
    raw[:, :2] = scales.astype(np.float16)[:, None].view(np.uint8)
    codes = (steps + 8).astype(np.uint8)
    raw[:, 2:] = (codes[: BLOCK // 2] | (codes[BLOCK // 2 :] << 4)).T
    return raw.reshape(rows, -1)


def _rounded(columns: Values) -> tuple[Values, Values]:
    """Returns the scale of each block and its values as whole steps from -8 to 7."""
    most: Values = columns.max(0)
    least: Values = columns.min(0)
    largest = np.where(most > -least, most, least)
    turned: Values = np.zeros_like(largest)
    np.divide(1, largest, out=turned, where=largest != 0)
    steps: Values = np.empty_like(columns)
    best: Values = np.zeros_like(largest)
    scales, gains = best.copy(), best.copy()
    for place in PLACES:
        shared, squares = _fit(columns, turned * np.float32(place), steps)
        scale = np.divide(shared, squares + _LEAST, dtype=np.float32)
        # With the best scale for these steps, this much of the squares is explained.
        gain = np.multiply(shared, scale, dtype=np.float32)
        better = gain > gains
        best[better] = place
        np.copyto(scales, scale, where=better)
        np.copyto(gains, gain, where=better)
    _fit(columns, turned * best, steps)
    return scales, steps


def _fit(columns: Values, factors: Values, steps: Values) -> tuple[Values, Values]:
    """Rounds to `steps`; returns for each block what they share with it, and their squares."""
    np.multiply(columns, factors, out=steps)
    np.rint(steps, out=steps)
    np.clip(steps, -8, 7, out=steps)
    shared: Values = np.einsum("ij,ij->j", steps, columns)
    squares: Values = np.einsum("ij,ij->j", steps, steps)
    return shared, squares
