"""A process that executes a run, and may kill or stop itself at a chosen append.

python -m tests.crash.worker URL FOLDER RUN [lease=S] [kill_before=N] [kill=N] [stop=N] [force]
    [preview]
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.crash.halting import halting_store

from plansmith import Effect, Plan, ToolSpec
from plansmith.app import Plansmith
from plansmith.errors import RunBusy
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call

KINDS = ("read", "keyed", "write", "read")


def twenty_steps() -> Plan:
    """Twenty steps of all effects, partly in a chain and partly side by side."""
    steps: list[dict[str, Any]] = [
        {
            "id": f"s{number}",
            "tool": KINDS[number % 4],
            "inputs": {"name": f"s{number}"},
            "after": [f"s{number - 2}"] if number > 1 else [],
        }
        for number in range(20)
    ]
    return Plan.model_validate({"goal": "twenty", "steps": steps})


def act_twice() -> Plan:
    """Two steps, each of which waits in its call until a file lets it go on."""
    steps = [
        {"id": "a", "tool": "act", "inputs": {"name": "a"}},
        {"id": "b", "tool": "act", "inputs": {"name": "b"}, "after": ["a"]},
    ]
    return Plan.model_validate({"goal": "act twice", "steps": steps})


class Service:
    """The world outside: one line a call in the file `effects`, there before the call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(
                name=name,
                effect=Effect.READ if name == "read" else Effect.WRITE,
                idempotent=name == "keyed",
            )
            for name in ("read", "keyed", "write", "act")
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        with (self.folder / "effects").open("a") as file:
            file.write(f"{arguments['name']} {tool} {call.key}\n")
        let = self.folder / f"go-{arguments['name']}"
        while tool == "act" and not let.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        return {"name": arguments["name"]}

    @property
    def calls(self) -> list[list[str]]:
        """The name, the tool and the key of each call."""
        file = self.folder / "effects"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def approve_what_is_seen(smith: Plansmith, run: str) -> None:
    """Preview a run that is not approved, and approve what the preview shows."""
    known = await smith.get(run)
    if not known.is_approved and not known.started_at:
        seen = await smith.preview(known, by="ada")
        assert seen.preview is not None
        await smith.decide(run, approve=seen.preview.hash, by="ada")


async def main(url: str, folder: Path, run: str, *words: str) -> None:
    """Execute the run as far as it goes, and print how it stands."""
    options = {name: value for name, _, value in (each.partition("=") for each in words)}
    store, limits = halting_store(url), Limits(width=3, lease_s=float(options.get("lease", 20)))
    async with Plansmith(tools=[Service(folder)], store=store, limits=limits) as smith:
        try:
            if "force" in options:
                await smith.resume(run, by="ada", force=True)
            for name in ("kill_before", "kill", "stop"):
                if name in options:
                    sends = signal.SIGSTOP if name == "stop" else signal.SIGKILL
                    store.halt(int(options[name]), sends=sends, before=name == "kill_before")
            if "preview" in options:
                await approve_what_is_seen(smith, run)
            sys.stdout.write(f"{(await smith.runs.run(run)).status.value}\n")
        except RunBusy as busy:
            sys.stdout.write(f"busy: {busy}\n")


if __name__ == "__main__":
    url, folder, run, *words = sys.argv[1:]
    asyncio.run(main(url, Path(folder), run, *words))
