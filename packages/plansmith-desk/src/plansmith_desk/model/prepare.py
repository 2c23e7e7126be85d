"""Prepares a model once on each machine: its adapter merged into weights of four bits, one file.

Tokens are read and written faster than with the downloaded file and an adapter.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from plansmith.plan.sentence import Sentence
from plansmith_desk.model.files import (
    FolderBusy,
    KnownModel,
    ModelFolder,
    Weights,
    digest_of,
    folder_lock,
)

Tell = Callable[[str], None]

# Changes with the way weights are merged and rounded, so that files are then made anew.
_LAYOUT: Final = "q4_0 1"
_STEP: Final = 10  # percent between two messages
_WAIT_S: Final = 1.0
_SPARE: Final = 64 * 1024 * 1024


class NotPrepared(Exception):
    """The file could not be made: the model works without it, slower. Says why."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """The prepared file of a known model and an adapter: where it is, and how it is made."""

    folder: Path
    model: KnownModel
    adapter: Path
    adapter_sha256: str

    @property
    def path(self) -> Path:
        """Returns where the file is, or would be: its name holds a hash of all it is made of."""
        return self.folder / f"{self.model.name}.{_key(self.model, self.adapter_sha256)}.gguf"

    def is_right(self, *, anew: bool = False) -> bool:
        """Whether the file is there and as it was written."""
        return ModelFolder(self.folder).is_unchanged(self.path, anew=anew)

    def make(self, tell: Tell, *, threads: int) -> Path:
        """Returns the file; makes it if need be, or waits for the process that does.

        Raises `NotPrepared`. What `tell` raises ends the work and leaves nothing behind.
        """
        waited = False
        while not self.is_right():
            try:
                with folder_lock(self.folder, "prepare", wait_s=_WAIT_S):
                    if not self.is_right():
                        self._make(tell, threads)
            except FolderBusy:
                name = self.model.name
                if not waited:
                    tell(Sentence("waiting for another process that prepares {name}", name=name))
                waited = True
            except OSError as error:
                why = Sentence("{path} cannot be written: {error}", path=self.path, error=error)
                raise NotPrepared(why) from None
        return self.path

    def _make(self, tell: Tell, threads: int) -> None:
        self._check()
        models, fresh = ModelFolder(self.folder), self.path.with_name(f"{self.path.name}.new")
        work = Sentence("preparing {name} for this machine, once", name=self.model.name)
        told = -_STEP

        def progress(share: float) -> None:
            nonlocal told
            percent = int(share * 100)
            if percent >= told + _STEP:
                told = percent // _STEP * _STEP
                tell(Sentence("{text}: {reason}", text=work, reason=f"{percent} %"))

        # numpy takes long to load, and only this needs it.
        merge: Any = import_module("plansmith_desk.model.gguf.merge").merge
        try:
            with fresh.open("wb") as out:
                base = models.path(self.model)
                digest = merge(base, self.adapter, out, threads=threads, progress=progress)
            fresh.replace(self.path)
        except ValueError as error:
            raise NotPrepared(str(error)) from None
        finally:
            fresh.unlink(missing_ok=True)
        models.remember(self.path, digest)
        self._remove_others(models)

    def _check(self) -> None:
        if find_spec("numpy") is None:
            raise NotPrepared(Sentence("numpy is missing: install plansmith[local]"))
        # The prepared file is never larger than the one that it is made from.
        free, need = shutil.disk_usage(self.folder).free, self.model.size + _SPARE
        if free < need:
            need_mb, free_mb = f"{need / 1e6:.0f}", f"{free / 1e6:.0f}"
            short = Sentence(
                "{need} MB are needed and {free} MB are free", need=need_mb, free=free_mb
            )
            raise NotPrepared(
                Sentence("{folder} has too little space: {why}", folder=self.folder, why=short)
            )

    def _remove_others(self, models: ModelFolder) -> None:
        """Removes files of earlier adapters; keeps the shipped one's beside that of a trial."""
        kept = {self.path.name}
        if self.model.adapter is not None:
            kept.add(f"{self.model.name}.{_key(self.model, self.model.adapter.sha256)}.gguf")
        for path in models.prepared_files(self.model.name):
            if path.name.removesuffix(".checked").removesuffix(".new") not in kept:
                with suppress(OSError):
                    path.unlink()


def preparation(weights: Weights, models: ModelFolder) -> Preparation | None:
    """Returns how a model is prepared; nothing where there is no adapter or a file by its path."""
    if weights.model is None or weights.adapter is None:
        return None
    shipped = weights.model.adapter
    own = shipped is not None and weights.adapter == shipped.path
    sha256 = shipped.sha256 if shipped and own else digest_of(weights.adapter)
    return Preparation(models.folder, weights.model, weights.adapter, sha256)


def _key(model: KnownModel, adapter_sha256: str) -> str:
    facts = f"{model.sha256} {adapter_sha256} {_LAYOUT}"
    return hashlib.sha256(facts.encode()).hexdigest()[:8]
