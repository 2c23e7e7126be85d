"""Checks, without a network, that locks/ holds what the projects ask for."""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
APART = ("docs", "rivals")
LOCKS = ("core", "dev", "pip", *APART)
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?P<rest>.*)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")
HOST = re.compile(r"://|--(extra-)?index|--find-links|--trusted-host| @ ")
# What `scripts/plansmith` sets up; a lock for development has every package with every extra.
CORE = (
    "plansmith-cli",
    "plansmith-connect[a2a,mcp]",
    "plansmith-desk[agents,documents,local]",
    "plansmith-planner[models]",
)
Project = Mapping[str, Any]


class Pin(NamedTuple):
    """One line of a lock: a package at a version, with or without hashes."""

    name: str
    version: str
    hashed: bool


def read_projects(root: Path) -> dict[str, Project]:
    """Read the pyproject.toml of the house (under an empty name) and of each package."""
    paths = [root / "pyproject.toml", *sorted(root.glob("packages/*/pyproject.toml"))]
    found = [tomllib.loads(path.read_text(encoding="utf-8")) for path in paths]
    return {each.get("project", {}).get("name", ""): each for each in found}


def packages(projects: Mapping[str, Project], lock: str) -> list[str]:
    """Name the packages of ours that a lock is for, with their extras."""
    if lock == "core":
        return list(CORE)
    return [
        f"{name}[all]" if "all" in each["project"].get("optional-dependencies", {}) else name
        for name, each in projects.items()
        if name
    ]


def digest(projects: Mapping[str, Project], lock: str) -> str:
    """Name everything a lock is made from, in sixteen letters."""
    groups = projects[""]["dependency-groups"]
    asked: object = groups.get(lock)
    if lock not in APART:
        fields = ("requires-python", "dependencies", "optional-dependencies")
        tables = [
            {field: each["project"].get(field) for field in fields}
            for name, each in projects.items()
            if name
        ]
        asked = [tables, groups["build"], groups["dev"], packages(projects, lock)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def followed(
    projects: Mapping[str, Project], asked: Sequence[str]
) -> tuple[set[str], list[Requirement]]:
    """Follow packages of ours with their extras: name them, and what they ask of others."""
    found: list[Requirement] = []
    seen: set[tuple[str, str]] = set()
    waiting = list(map(Requirement, asked))
    while waiting:
        each = waiting.pop()
        if each.name not in projects:
            found.append(each)
            continue
        table = projects[each.name]["project"]
        for extra in {"", *each.extras} - {more for name, more in seen if name == each.name}:
            seen.add((each.name, extra))
            lines = table["optional-dependencies"][extra] if extra else table["dependencies"]
            waiting += map(Requirement, lines)
    return {name for name, _ in seen}, found


def wanted(projects: Mapping[str, Project]) -> dict[str, list[Requirement]]:
    """Say which requirements each lock has to hold."""
    groups = {
        name: [*map(Requirement, lines)]
        for name, lines in projects[""]["dependency-groups"].items()
    }
    more = {"core": groups["build"], "dev": [*groups["build"], *groups["dev"]]}
    ours = {
        lock: [*followed(projects, packages(projects, lock))[1], *lines]
        for lock, lines in more.items()
    }
    return ours | {name: groups[name] for name in APART}


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
    """Say where the smaller lock has another version than the widest."""
    widest = {(pin.name, pin.version) for pin in read_pins(locks["dev"])}
    for pin in read_pins(locks["core"]):
        if (pin.name, pin.version) not in widest:
            yield f"core: {pin.name} {pin.version} is not what locks/dev.txt has"


def check(projects: Mapping[str, Project], locks: Mapping[str, str]) -> list[str]:
    """Say everything that is wrong with the locks, by the text of each."""
    asked = wanted(projects)
    problems = [
        problem
        for name in locks
        for problem in lock_problems(name, locks[name], asked.get(name, []))
    ]
    problems += [
        f"{name}: a pyproject.toml has changed since it was made"
        for name, text in locks.items()
        if digest(projects, name) not in text
    ]
    return [*problems, *disagreements(locks)]


def main() -> int:
    """Print the problems; with --digest LOCK or --packages LOCK, what a lock is made from."""
    projects = read_projects(ROOT)
    if "--digest" in sys.argv:
        print(digest(projects, sys.argv[-1]))
        return 0
    if "--packages" in sys.argv:
        named = {Requirement(each).name: each for each in packages(projects, sys.argv[-1])}
        names, _ = followed(projects, list(named.values()))
        print(*(f"./packages/{named.get(name, name)}" for name in sorted(names)), sep="\n")
        return 0
    texts = {name: (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8") for name in LOCKS}
    problems = check(projects, texts)
    for problem in problems:
        print(problem)
    if problems:
        print("scripts/lock makes the locks again.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
