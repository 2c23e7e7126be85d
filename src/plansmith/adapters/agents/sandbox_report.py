"""What confines code on this machine, in words for whoever asks `doctor`."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from plansmith.adapters.agents.sandbox import Sandbox
from plansmith.errors import PlansmithError

_WORDS: Final = {
    "namespaces": "no network, and no files but its own",
    "landlock": "no files but its own",
    "seccomp": "no dangerous system calls",
    "cgroup memory": "memory of all its processes limited by the kernel",
    "cgroup pids": "number of its processes limited by the kernel",
    "cgroup cpu": "one processor for all of them",
}
_COUNTED: Final = (
    "the kernel keeps no limit on {} for all processes of the code together: each one is limited, "
    "and their sum is looked at 20 times a second"
)


class WallFinding(NamedTuple):
    """One thing worth knowing of the sandbox, and what to do about it."""

    level: Literal["ok", "note", "warning"]
    text: str
    hint: str = ""


async def wall_findings() -> list[WallFinding]:
    """Which walls stand and which do not, found by running nothing behind them."""
    try:
        outcome = await Sandbox(allow_weak=True).run("")
    except PlansmithError as error:
        return [WallFinding("warning", f"no code is run here: {error.message}", error.hint)]
    standing = [words for name, words in _WORDS.items() if name in outcome.standing]
    found = [WallFinding("ok", f"code runs with {'; '.join(standing)}")] if standing else []
    if "namespaces" not in outcome.standing:
        told = "code is not run here unless a weak sandbox is accepted (allow_weak)"
        found.append(WallFinding("warning", told, "allow user namespaces on this machine"))
    found += [WallFinding("warning", f"not kept from code: {each}") for each in outcome.missing]
    limits = {"memory": "memory", "pids": "processes"}
    lacking = [what for name, what in limits.items() if f"cgroup {name}" not in outcome.standing]
    if lacking:
        hint = "run Plansmith in a cgroup that is delegated to it (systemd: Delegate=yes)"
        found.append(WallFinding("note", _COUNTED.format(" and ".join(lacking)), hint))
    return found
