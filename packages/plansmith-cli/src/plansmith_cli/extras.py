"""What an extra brings: whether it is there, and the command that installs it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Final

from plansmith.errors import Refused
from plansmith.plan.sentence import Sentence

_EXTRA: Final = "local"
_PACKAGE: Final = "xllamacpp"
_OWN: Final = re.compile(r"(?P<name>plansmith(?:-\w+)?)(?:\[(?P<extras>[\w,]+)\])?")
_NAME: Final = re.compile(r"[\w.-]+")
_OF_EXTRA: Final = re.compile(r"^(?P<wanted>[^;]+);.*\bextra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")


def install_command(*extras: str) -> list[str]:
    """Returns the command that installs extras into the environment of this very program."""
    wanted = _requirements(*extras)
    if find_spec("pip") is None and (uv := shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable, *wanted]
    return [sys.executable, "-m", "pip", "install", *wanted]


def install_hint(*extras: str) -> str:
    """Returns that command as it is typed."""
    return shlex.join(install_command(*extras))


def _requirements(*extras: str) -> list[str]:
    """Returns what extras ask for: by name, since Plansmith need not be on an index."""
    found: list[str] = []
    waiting, seen = [("plansmith", each) for each in extras], set[tuple[str, str]]()
    while waiting:
        package, extra = waiting.pop()
        seen.add((package, extra))
        for text in metadata.requires(package) or ():
            each, name = _OF_EXTRA.match(text), _NAME.match(text)
            if each is None and name and not (_OWN.match(text) or _is_there(name[0])):
                found.append(text)
            if each is None or each["extra"] != extra:
                continue
            own = _OWN.match(each["wanted"])
            if own is None:
                found.append(each["wanted"].strip())
            elif _is_there(own["name"]):
                more = {(own["name"], name) for name in (own["extras"] or "").split(",") if name}
                waiting += more - seen
            else:
                found.append(f"packages/{each['wanted'].partition('=')[0].strip()}")
    return list(dict.fromkeys(found))


def _is_there(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def missing_runtime() -> Sentence:
    """Says that the runtime is missing, and the command that installs it."""
    return Sentence(
        "The model needs the runtime {name}, which is not installed. This installs it: {command}",
        name=_PACKAGE,
        command=install_hint(_EXTRA),
    )


def install_runtime() -> None:
    """Installs the runtime; raises `Refused` if that fails."""
    done = subprocess.run(install_command(_EXTRA), stdout=sys.stderr, check=False)  # noqa: S603 - ours
    if done.returncode:
        code = Sentence(
            "{command} ended with {code}", command=install_command(_EXTRA)[0], code=done.returncode
        )
        raise Refused(code, hint=missing_runtime())
