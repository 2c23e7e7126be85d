"""For the tests of every face: an agent that notes what it is asked, and the programs of pages."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests import forked

from plansmith import AgentSpec, Effect
from plansmith.plan.data import Json
from plansmith.ports import Call
from plansmith.testing import ScriptedModel
from plansmith_planner.settings import PlannerSettings

Script = Callable[..., ScriptedModel]
NO_TRIAGE = PlannerSettings(triage=False)


class Member:
    """Gives its results in turn, the last one for ever; raises errors, waits for events."""

    def __init__(self, name: str = "researcher", *results: Any, **card: Any) -> None:
        self.spec = AgentSpec(name=name, **{"effect": Effect.READ, **card})
        self.results = list(results)
        self.calls: list[tuple[str, dict[str, Json]]] = []

    @property
    def tasks(self) -> list[str]:
        return [task for task, _ in self.calls]

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        self.calls.append((task, dict(inputs)))
        result: Any = f"{self.spec.name}: {task}"
        if self.results:
            result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, asyncio.Event):
            await result.wait()
            return "done"
        if isinstance(result, Exception):
            raise result
        found: Json = result
        return found


def run_page(system: str, folder: Path, url: str, typed: str = "") -> str:
    """Runs the whole program of a system's page in a folder, with a model behind this address."""
    page = Path(__file__).parents[3] / "docs" / f"from-{system}.md"
    program = page.read_text(encoding="utf-8").rpartition("```python\n")[2].partition("```")[0]
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = forked.run(
        [sys.executable, "program.py"],
        cwd=folder,
        input=typed,
        env=os.environ | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "any"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout)
