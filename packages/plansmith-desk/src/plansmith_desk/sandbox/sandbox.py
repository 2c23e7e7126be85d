"""Runs Python code in a confined process, with limits, and returns its output and files.

docs/local-agents.md says what the walls keep out. Every outcome lists the walls that are missing
on this machine; without `allow_weak` nothing runs if one is missing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from plansmith.errors import Misconfigured, PlansmithError, ToolFailed
from plansmith.plan.sentence import Sentence, joined

_GRACE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of the code. `memory_bytes` is for each process and for all together."""

    wall_s: float = 30.0
    cpu_s: int = 20
    memory_bytes: int = 1024 * 1024 * 1024
    processes: int = 32
    open_files: int = 256
    file_bytes: int = 64 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024
    disk_files: int = 4096
    output_bytes: int = 16 * 1024
    kept_files: int = 20
    kept_bytes: int = 2 * 1024 * 1024
    given_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BoxFile:
    """A file that the code made or changed."""

    path: str
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How code ended: `stopped` is the limit that ended it, `missing` the walls not in place.

    `standing` names the walls in place: namespaces or landlock, seccomp, and limits of cgroups.
    """

    exit_code: int | None
    stopped: str = ""
    stdout: str = ""
    stderr: str = ""
    files: tuple[BoxFile, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.stopped


class Sandbox:
    """Runs Python code on Linux with no network, no files but its own, and limits."""

    def __init__(self, *, limits: SandboxLimits | None = None, allow_weak: bool = False) -> None:
        self.limits = limits or SandboxLimits()
        self.allow_weak = allow_weak

    async def run(self, code: str, files: Mapping[str, bytes] | None = None) -> Outcome:
        """Runs code with files in its working folder; returns its output and the files it made."""
        if sys.platform != "linux":
            hint = Sentence("use an agent on another machine, or leave the coder out")
            raise Misconfigured(Sentence("the sandbox works only on Linux"), hint=hint)
        given = {**(files or {}), "main.py": code.encode(errors="replace")}
        for name in given:
            parts = PurePosixPath(name).parts
            plain = parts and not name.startswith("/") and "\0" not in name
            if not plain or any(part == ".." or part.startswith(".") for part in parts):
                raise ToolFailed(
                    Sentence("'{name}' is not a valid name for a file in the sandbox", name=name)
                )
        size = sum(map(len, given.values()))
        if size > self.limits.given_bytes:
            raise ToolFailed(
                Sentence("the files for the sandbox have {count} bytes", count=size),
                hint=Sentence("the limit is {most} bytes", most=self.limits.given_bytes),
            )
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="plansmith-box-"))
        try:
            result = await self._launch(folder, given)
        finally:
            left = await asyncio.shield(asyncio.to_thread(_remove, folder))
        killed = f"it was killed by signal {result['signal']}" if "signal" in result else ""
        made = [BoxFile(each["path"], base64.b64decode(each["base64"])) for each in result["files"]]
        return Outcome(
            exit_code=result.get("exit"),
            stopped=result.get("stopped", killed),
            stdout=result["stdout"],
            stderr=result["stderr"],
            files=tuple(made),
            notes=(*result["notes"], *left),
            missing=tuple(result["missing"]),
            standing=tuple(result["walls"]),
        )

    async def _launch(self, folder: Path, files: Mapping[str, bytes]) -> dict[str, Any]:
        job: dict[str, object] = {
            "folder": str(folder),
            "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
            "limits": asdict(self.limits),
            "allow_weak": self.allow_weak,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", "plansmith_desk.sandbox.child.launch"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        pipes: Any = process
        try:
            async with asyncio.timeout(self.limits.wall_s + _GRACE_S):
                # The input stays open while the code runs: its end would end the code.
                with suppress(BrokenPipeError, ConnectionResetError):
                    pipes.stdin.write(json.dumps(job).encode() + b"\n")
                    await pipes.stdin.drain()
                reads: list[Awaitable[bytes]] = [pipes.stdout.read(), pipes.stderr.read()]
                return _parsed(*await asyncio.gather(*reads))
        except TimeoutError:
            raise ToolFailed(Sentence("the sandbox did not answer")) from None
        finally:
            pipes.stdin.close()
            await asyncio.shield(_stop(process))


async def _stop(process: Process) -> None:
    """Waits for a process whose input is closed; kills it if it does not end."""
    try:
        async with asyncio.timeout(_GRACE_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _parsed(result: bytes, trouble: bytes) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(result)
    except ValueError:
        lines = trouble.decode(errors="replace").strip().splitlines()
        parsed = {"broken": lines[-1][:500] if lines else Sentence("it said nothing")}
    if "broken" in parsed:
        raise ToolFailed(Sentence("the sandbox could not be set up: {why}", why=parsed["broken"]))
    if "refused" in parsed:
        why = "; ".join(parsed["refused"])
        raise Misconfigured(
            Sentence("code is not run, because it cannot be confined here: {why}", why=why),
            hint=Sentence(
                "allow user namespaces on this machine, or accept a weak sandbox (allow_weak)"
            ),
        )
    return parsed


def _remove(folder: Path) -> list[str]:
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError) as error:
        return [f"the working folder {folder} could not be removed: {type(error).__name__}"]
    return []


class WallFinding(NamedTuple):
    """One finding about the sandbox on this machine, and what to do about it."""

    level: Literal["ok", "note", "warning"]
    text: str
    hint: str = ""


# What each wall does is in the table of sentences: `sandbox.wall_…`.
_WALLS: Final = ["namespaces", "landlock", "seccomp", "cgroup_memory", "cgroup_pids", "cgroup_cpu"]


async def wall_findings() -> list[WallFinding]:
    """Returns which walls work on this machine and which do not."""
    try:
        outcome = await Sandbox(allow_weak=True).run("")
    except PlansmithError as error:
        message = Sentence("no code is run here: {why}", why=error.message)
        return [WallFinding("warning", message, error.hint)]
    found: list[WallFinding] = []
    active = {name.replace(" ", "_") for name in outcome.standing}
    walls = joined([Sentence(f"sandbox.wall_{name}") for name in _WALLS if name in active])
    if walls:
        found.append(WallFinding("ok", Sentence("code runs with {walls}", walls=walls)))
    if "namespaces" not in active:
        message = Sentence("code is not run here unless a weak sandbox is accepted (allow_weak)")
        hint = Sentence("allow user namespaces on this machine")
        found.append(WallFinding("warning", message, hint))
    found += [
        WallFinding("warning", Sentence("not confined: {what}", what=each))
        for each in outcome.missing
    ]
    lacking = [name for name in ("memory", "pids") if f"cgroup_{name}" not in active]
    if lacking:
        message = Sentence(
            "the kernel keeps no limit on {what} for all processes of "
            "the code together: each one is limited, and their sum is "
            "checked 20 times a second",
            what=joined([Sentence(f"sandbox.lacks_{name}") for name in lacking], "text.and"),
        )
        hint = Sentence("run Plansmith in a cgroup that is delegated to it (systemd: Delegate=yes)")
        found.append(WallFinding("note", message, hint))
    return found
