"""The shelf: the folder in which weights are kept, shared by all of a person's projects."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from plansmith.adapters.models.local.known import KnownModel, known_model
from plansmith.errors import Misconfigured

Progress = Callable[[int, int], None]

_BLOCK: Final = 1 << 22
_CHOICE: Final = "chosen"
_DECLINED: Final = "declined"


def models_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where weights are kept: PLANSMITH_MODELS, or a folder of the person's cache."""
    environment = os.environ if environment is None else environment
    if environment.get("PLANSMITH_MODELS"):
        return Path(environment["PLANSMITH_MODELS"])
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "plansmith" / "models"


def digest_of(path: Path, progress: Progress = lambda _, __: None) -> str:
    """The SHA-256 of a file, read in blocks."""
    digest, total, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            progress(done, total)
    return digest.hexdigest()


class Shelf:
    """The weights that are here, each checked once against its hash and again when it changed."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or models_folder()

    def path(self, model: KnownModel) -> Path:
        """Where a model's file is, or would be."""
        return self.folder / model.file

    def part(self, model: KnownModel) -> Path:
        """Where a model's file grows while it is fetched."""
        return self.folder / f"{model.name}.part"

    @property
    def states(self) -> Path:
        """Where it is kept what models made of the start of their prompts."""
        return self.folder / "states"

    def has(self, model: KnownModel) -> bool:
        """Whether the file is here; whether it is right is another question."""
        return self.path(model).is_file()

    def is_right(self, model: KnownModel, *, anew: bool = False) -> bool:
        """Whether the file is the model's, byte for byte; remembered until the file changes."""
        path = self.path(model)
        if not path.is_file() or path.stat().st_size != model.size:
            return False
        if not anew and self._remembered(path) == model.sha256:
            return True
        if digest_of(path) != model.sha256:
            return False
        self.remember(model)
        return True

    def remember(self, model: KnownModel) -> None:
        """Note that the file as it stands was found right."""
        path = self.path(model)
        note = {"sha256": model.sha256, **_stamp(path)}
        _mark(path).write_text(json.dumps(note), encoding="utf-8")

    def find(self, model: KnownModel) -> Path:
        """The checked file; `Misconfigured` when it is missing or is not what it should be."""
        path = self.path(model)
        if not path.is_file():
            hint = f"plansmith model pull {model.name} ({model.size / 1e9:.2f} GB)"
            raise Misconfigured(f"the model {model.name} is not on this machine", hint=hint)
        if not self.is_right(model):
            hint = f"plansmith model remove {model.name}, then plansmith model pull {model.name}"
            raise Misconfigured(f"{path} is damaged: its hash is not that of the model", hint=hint)
        return path

    def remove(self, model: KnownModel) -> int:
        """Delete the model's files; the bytes that were freed."""
        files = [self.path(model), self.part(model), _mark(self.path(model))]
        files += self.states.glob("*")
        there = [path for path in files if path.is_file()]
        freed = sum(path.stat().st_size for path in there)
        for path in there:
            path.unlink()
        return freed

    @property
    def chosen(self) -> str:
        """The model that `local` stands for, by name or path; nothing when none was chosen."""
        try:
            return (self.folder / _CHOICE).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def choose(self, name: str) -> None:
        """Let `local` stand for a model from now on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _CHOICE).write_text(f"{name}\n", encoding="utf-8")

    @property
    def is_declined(self) -> bool:
        """Whether the person was offered a model and said no: it is not offered again."""
        return (self.folder / _DECLINED).exists()

    def decline(self) -> None:
        """Note that the person wants no model fetched."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _DECLINED).touch()

    def _remembered(self, path: Path) -> str:
        try:
            note: Any = json.loads(_mark(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ""
        if not isinstance(note, dict):
            return ""
        known = cast("dict[str, Any]", note)
        same = all(known.get(name) == value for name, value in _stamp(path).items())
        return str(known.get("sha256")) if same else ""


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _stamp(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "changed": status.st_mtime_ns}


def weights_path(name: str, shelf: Shelf) -> tuple[Path, KnownModel | None]:
    """The file of `local:NAME`: a path to any GGUF, a known model, or the chosen one."""
    name = name or shelf.chosen
    if name.endswith(".gguf") or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise Misconfigured(f"there is no file {path}", hint="check the path")
        return path, None
    model = known_model(name)
    return shelf.find(model), model
