"""Merges an adapter into the weights of a model file, and rounds them to four bits.

llama.cpp lays Q4_0 out for the processor when it loads a file: it reads and writes faster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plansmith_desk.model.gguf.blocks import BLOCK, dequantize, quantize
from plansmith_desk.model.gguf.file import GgufFile, RawTensor, TensorHead, packed_head, padded

_CHUNK: Final = 1 << 17  # values that a thread works on: they fit into its cache
_AHEAD: Final = 64  # chunks that may wait to be written

Values = npt.NDArray[np.float32]
Narrow = dict[str, tuple[Values, Values]]


class _Job(NamedTuple):
    tensor: RawTensor
    first: int
    last: int


def merge(
    base: Path, adapter: Path, out: BinaryIO, *, threads: int, progress: Callable[[float], None]
) -> str:
    """Writes one file from two; returns its SHA-256. `progress` gets the share that is done."""
    file = GgufFile(base)
    narrow = _narrow(GgufFile(adapter), file)
    heads = [
        TensorHead(each.name, "Q4_0" if _is_rounded(each) else each.kind, each.shape)
        for each in file.tensors.values()
    ]
    digest = hashlib.sha256()

    def write(raw: bytes) -> None:
        digest.update(raw)
        out.write(raw)

    write(packed_head(file.raw_header, len(file.header), heads))
    total, done = sum(head.size for head in heads), 0
    jobs = [job for tensor in file.tensors.values() for job in _jobs(tensor)]
    with ThreadPoolExecutor(threads) as pool:
        written = 0
        for job, raw in zip(jobs, _in_order(pool, jobs, narrow), strict=True):
            written += len(raw)
            done += len(raw)
            write(raw)
            if job.last == len(job.tensor.data):
                write(padded(bytes(written % BLOCK))[written % BLOCK :])
                written = 0
            progress(done / total)
    return digest.hexdigest()


def _in_order(pool: ThreadPoolExecutor, jobs: list[_Job], narrow: Narrow) -> Iterator[bytes]:
    """Yields the bytes of each job; only a few jobs are ahead of what is written."""
    for first in range(0, len(jobs), _AHEAD):
        yield from pool.map(partial(_bytes, narrow=narrow), jobs[first : first + _AHEAD])


def _bytes(job: _Job, narrow: Narrow) -> bytes:
    tensor, rows = job.tensor, slice(job.first, job.last)
    if not _is_rounded(tensor):
        return tensor.data[rows].tobytes()
    values = dequantize(tensor.kind, tensor.data[rows], (job.last - job.first, tensor.shape[-1]))
    if tensor.name in narrow:
        down, up = narrow[tensor.name]
        # Not by a matrix library: its threads would spin beside ours.
        values = values + np.einsum("or,ri->oi", up[rows], down)
    return quantize(values).tobytes()


def _jobs(tensor: RawTensor) -> Iterator[_Job]:
    rows = max(1, _CHUNK // tensor.shape[-1])
    for first in range(0, len(tensor.data), rows):
        yield _Job(tensor, first, min(first + rows, len(tensor.data)))


def _is_rounded(tensor: RawTensor) -> bool:
    """Whether a tensor is multiplied with; of the embedding only single rows are looked up."""
    matrix = len(tensor.shape) == 2 and tensor.shape[-1] % BLOCK == 0
    return matrix and tensor.name != "token_embd.weight"


def _narrow(adapter: GgufFile, base: GgufFile) -> Narrow:
    """Returns the two matrices of each tensor that the adapter changes, the second one scaled."""
    alpha = float(adapter.header.get("adapter.lora.alpha", 0.0))
    found: Narrow = {}
    for name in {each.rsplit(".lora_", 1)[0] for each in adapter.tensors}:
        parts = [adapter.tensors.get(f"{name}.lora_{letter}") for letter in "ab"]
        down, up = (_values(part) for part in parts if part is not None)
        tensor = base.tensors.get(name)
        if tensor is None or not _is_rounded(tensor) or tensor.shape != (len(up), down.shape[1]):
            raise ValueError(f"the adapter does not fit the model at {name}")
        found[name] = (down, up * np.float32(alpha / len(down) if alpha else 1.0))
    return found


def _values(part: RawTensor) -> Values:
    return dequantize(part.kind, part.data, part.shape)
