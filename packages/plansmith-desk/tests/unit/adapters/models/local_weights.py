"""The smallest known model for tests, from the person's cache.

Run as a program, this file fetches it; tests only use what is there.
"""

from __future__ import annotations

import re
import struct
import tempfile
from functools import cache
from pathlib import Path

import pytest

from plansmith_desk.model import gguf
from plansmith_desk.model.download import pull_local, pull_remote
from plansmith_desk.model.engine import Engine
from plansmith_desk.model.files import ModelFolder, known_model, models_folder

FOLDER = models_folder()  # before any test gives itself another home
SMALL = known_model("smollm2-135m")
_KEPT = tempfile.TemporaryDirectory(prefix="plansmith-weights-")


@cache
def _small() -> Path | None:
    return pull_local(SMALL, ModelFolder(FOLDER))


def small_weights() -> Path:
    """The file, or a skipped test where it cannot be had."""
    found = _small()
    if found is None:
        pytest.skip(f"needs the model {SMALL.name}: plansmith model pull {SMALL.name}")
    return found


@cache
def small_engine() -> Engine:
    """One engine for all tests: loading takes longer than answering."""
    return Engine(small_weights(), context=768, threads=2)


@cache
def shallow_weights() -> Path:
    """The same model with its first two layers only, which takes a tenth of the time.

    For tests of what the engine does around the weights: states, turns, grammars, its context.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Of tensors that are only copied no value is read.
        patch.setitem(gguf.TYPES, 3, ("Q4_1", 32, 20))
        patch.setitem(gguf._CODES, "Q4_1", 3)
        whole = gguf.GgufFile(small_weights())
        layers = {name: re.match(r"blk\.(\d+)\.", name) for name in whole.tensors}
        kept = [whole.tensors[name] for name, at in layers.items() if not at or int(at[1]) < 2]
        count = b"llama.block_count" + struct.pack("<I", 4)
        before = count + struct.pack("<I", whole.header["llama.block_count"])
        fields = whole.raw_header.replace(before, count + struct.pack("<I", 2))
        heads = [gguf.TensorHead(each.name, each.kind, each.shape) for each in kept]
        path = Path(_KEPT.name) / "shallow.gguf"
        with path.open("wb") as file:
            file.write(gguf.packed_head(fields, len(whole.header), heads))
            file.writelines(gguf.padded(each.data.tobytes()) for each in kept)
    return path


@cache
def shallow_engine() -> Engine:
    """One engine of the shallow model for all tests."""
    return Engine(shallow_weights(), context=768, threads=2)


if __name__ == "__main__":
    if _small() is None:
        pull_remote(SMALL, ModelFolder(FOLDER))
