"""What a person approves before an MCP server starts, and the command it starts with."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.sentence import Sentence
from plansmith.secrets import SHORTEST, Hider
from plansmith.text import safe
from plansmith_connect.mcp.settings import ServerSettings
from plansmith_connect.mcp.trusted_copy import refuse_folder

# What a server may see of the environment without being given it by name.
PASSED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"),
    *("USER", "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE"),
    *("SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
_REFERENCE: Final = re.compile(r"\$\{([^{}:]+(?::[^{}-][^{}]{0,200})?)(?::-([^{}]*))?\}")
_SECRET: Final = re.compile(r"key|token|secret|passw|auth|credential|cookie|bearer", re.IGNORECASE)
_HASHED: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FETCHERS: Final = ("npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Target:
    """The settings of a server with all references filled in and its whole environment."""

    settings: ServerSettings
    secrets: Hider

    def hide_secrets(self, text: str) -> str:
        return str(self.secrets.hide(text))


def launch_definition(settings: ServerSettings, environment: Mapping[str, str]) -> dict[str, Json]:
    """Returns what is approved; secret values as hashes, references unfilled.

    Command and folder have their references filled in, since they decide what is started.
    """
    tools: dict[str, Json] = {name: each.to_json() for name, each in settings.tools.items()}
    common: dict[str, Json] = {"trusted": settings.trusted, "tools": tools}
    if settings.url:
        return {**common, "url": settings.url, "headers": _without_secrets(settings.headers)}
    return {
        **common,
        "command": expand(settings.command, environment),
        "args": list(settings.args),
        "cwd": expand(settings.cwd, environment),
        "env": _without_secrets(settings.env),
        "pass_env": list(settings.pass_env),
        "folder": settings.folder,
        "files": {**settings.files},
    }


def _without_secrets(values: Mapping[str, str]) -> dict[str, Json]:
    return {
        name: f"sha256:{canonical_hash(value)}" if _is_secret(name, value) else value
        for name, value in values.items()
    }


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and bool(_SECRET.search(name)) and not _REFERENCE.search(value)


def launch_lines(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yields a launch as a person reads it before approving, with the exact command."""
    if "url" in definition:
        yield Sentence("MCP server {name}, reached at", name=safe(name))
        yield f"    {safe(definition['url'])}"
        yield from _values("mcp.header", definition["headers"])
        url: str = definition["url"]
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            yield Sentence("    The connection is not encrypted.")
    else:
        yield Sentence("MCP server {name}, started with the command", name=safe(name))
        yield from _command_lines(definition)
    yield Sentence(
        "    Its hints about its own tools are believed."
        if definition["trusted"]
        else "    Its hints about its own tools are ignored: every tool counts as a write."
    )
    for tool, chosen in definition["tools"].items():
        yield Sentence("    You say of {tool}: {what}", tool=safe(tool), what=safe(str(chosen)))


def _command_lines(definition: Mapping[str, Any]) -> Iterator[str]:
    command: str = definition["command"]
    cwd, folder = (definition[key] for key in ("cwd", "folder"))
    yield f"    {safe(shlex.join([command, *definition['args']]))}"
    found = shutil.which(command)
    yield (
        Sentence("    that is {file}", file=safe(found))
        if found
        else Sentence("    that is not found on this machine")
    )
    yield (
        Sentence("    in {folder}", folder=safe(cwd))
        if cwd
        else Sentence("    in the folder Plansmith runs in")
    )
    if folder:
        yield Sentence("    in a copy of what you trusted in {folder}:", folder=safe(folder))
        yield from _values("mcp.copied_file", definition["files"])
    yield from _values("mcp.environment", definition["env"])
    if passed := definition["pass_env"]:
        names = [safe(each) for each in passed]
        yield Sentence("    gets from your environment: {names}", names=names)
    if os.path.basename(command) in _FETCHERS:  # noqa: PTH119 - a command is no path
        yield Sentence("    It downloads what it starts: give an exact version.")


def _values(code: str, values: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        secret = _HASHED.fullmatch(value)
        text = Sentence("(a secret in the file)") if secret else safe(value)
        yield Sentence(code, name=safe(key), value=text)


def target(settings: ServerSettings, environment: Mapping[str, str]) -> Target:
    """Returns the server to start or reach; its environment is an allow-list."""
    fill = partial(expand, environment=environment)
    env = {key: fill(each) for key, each in settings.env.items()}
    texts = {name: fill(getattr(settings, name)) for name in ("command", "cwd", "url")}
    args = tuple(map(fill, settings.args))
    headers = {key: fill(each) for key, each in settings.headers.items()}
    if settings.folder:
        named = (texts["command"], *args, *env.values(), f"./{texts['cwd']}")
        refuse_folder(Path(settings.folder), named)
        env["PLANSMITH_FOLDER"] = settings.folder
    passed = (*PASSED, *settings.pass_env)
    env = {name: environment[name] for name in passed if name in environment} | env
    filled = settings.model_copy(update={**texts, "args": args, "env": env, "headers": headers})
    return Target(filled, _secrets(settings, environment))


def _secrets(settings: ServerSettings, environment: Mapping[str, str]) -> Hider:
    texts = (*settings.args, settings.url, *settings.env.values(), *settings.headers.values())
    named = [found[1] for text in texts for found in _REFERENCE.finditer(text)]
    values = [(name, environment.get(name, "")) for name in (*named, *settings.pass_env)]
    given = (settings.env | settings.headers).items()
    values += [(name, value) for name, value in given if _is_secret(name, value)]
    hider = Hider()
    for name, value in values:
        if len(value) >= SHORTEST:  # a shorter one would hurt other texts
            hider.learn(value, name.removeprefix("secret:"))
    return hider


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Fills in `${NAME}` and `${NAME:-default}` from the environment."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        held = environment.get(name)
        if held:
            return held
        if default is None:
            why = Sentence("the environment has no {name}", name=name)
            raise Misconfigured(why, hint=f"export {name}=…")
        return default

    return _REFERENCE.sub(value, text)
