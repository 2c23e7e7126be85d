"""Checks, without a network, that locks/ holds what pyproject.toml asks for."""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
APART = ("docs", "rivals")
LOCKS = ("core", "dev", "all", "pip", *APART)
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?P<rest>.*)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")
HOST = re.compile(r"://|--(extra-)?index|--find-links|--trusted-host| @ ")


class Pin(NamedTuple):
    """One line of a lock: a package at a version, with or without hashes."""

    name: str
    version: str
    hashed: bool


def digest(project: Mapping[str, Any], lock: str) -> str:
    """Name everything a lock is made from, in sixteen letters."""
    table, groups = project["project"], project["dependency-groups"]
    asked: tuple[object, ...] = (
        table["requires-python"],
        table["dependencies"],
        table["optional-dependencies"],
        {"build": groups["build"]},
    )
    if lock in APART:
        asked = (table["requires-python"], groups[lock])
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def wanted(project: Mapping[str, Any]) -> dict[str, list[Requirement]]:
    """Say which requirements each lock has to hold."""
    table = project["project"]
    extras: dict[str, list[str]] = table["optional-dependencies"]
    build = project["dependency-groups"]["build"]
    always = ("models", "mcp", "a2a", "local", "documents", "server")
    used = [line for name in always for line in extras[name]]
    core = [*table["dependencies"], *used, *build]
    more = ("dev", "postgres", "duckdb", "charts", "oidc", "scale", "telemetry")
    dev = [*core, *(line for name in more for line in extras[name])]
    everything = [*dev, *(line for lines in extras.values() for line in lines)]
    return {
        lock: [line for line in map(Requirement, lines) if line.name != table["name"]]
        for lock, lines in (
            *(("core", core), ("dev", dev), ("all", everything)),
            *((name, project["dependency-groups"][name]) for name in APART),
        )
    }


def read_pins(text: str) -> list[Pin]:
    """Read the pins of a lock; a line that continues is one line."""
    lines = text.replace("\\\n", " ").splitlines()
    return [
        Pin(canonicalize_name(found["name"]), found["version"], bool(HASH.search(found["rest"])))
        for found in map(PIN.match, lines)
        if found
    ]


def lock_problems(name: str, text: str, requirements: list[Requirement]) -> Iterator[str]:
    """Say what is wrong with one lock taken alone."""
    pins = read_pins(text)
    yield from (f"{name}: {pin.name} has no hash" for pin in pins if not pin.hashed)
    yield from (f"{name}: names a host: {line}" for line in text.splitlines() if HOST.search(line))
    for asked in requirements:
        versions = [pin.version for pin in pins if pin.name == canonicalize_name(asked.name)]
        if not versions:
            yield f"{name}: {asked} is missing"
        for version in versions:
            if not asked.specifier.contains(version, prereleases=True):
                yield f"{name}: {asked.name} {version} does not satisfy {asked}"


def disagreements(locks: Mapping[str, str]) -> Iterator[str]:
    """Say where a smaller lock has another version than the widest."""
    widest = {(pin.name, pin.version) for pin in read_pins(locks["all"])}
    for name in ("core", "dev"):
        for pin in read_pins(locks[name]):
            if (pin.name, pin.version) not in widest:
                yield f"{name}: {pin.name} {pin.version} is not what locks/all.txt has"


def check(project: Mapping[str, Any], locks: Mapping[str, str]) -> list[str]:
    """Say everything that is wrong with the locks, by the text of each."""
    asked = wanted(project)
    problems = [
        problem
        for name in locks
        for problem in lock_problems(name, locks[name], asked.get(name, []))
    ]
    problems += [
        f"{name}: pyproject.toml has changed since it was made"
        for name, text in locks.items()
        if digest(project, name) not in text
    ]
    return [*problems, *disagreements(locks)]


def main() -> int:
    """Print the problems, or with --digest LOCK what a lock is made from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if "--digest" in sys.argv:
        print(digest(project, sys.argv[-1]))
        return 0
    texts = {name: (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8") for name in LOCKS}
    problems = check(project, texts)
    for problem in problems:
        print(problem)
    if problems:
        print("scripts/lock makes the locks again.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
