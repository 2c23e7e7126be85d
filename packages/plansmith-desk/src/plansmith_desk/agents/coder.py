"""An agent that writes Python for a task, runs it in the sandbox and returns result and files."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, ChatModel
from plansmith_desk.agents.local import LocalAgent, LocalLimits
from plansmith_desk.agents.toolbox import Stop
from plansmith_desk.folder import Folder
from plansmith_desk.sandbox.sandbox import BoxFile, Outcome, Sandbox
from plansmith_desk.tool_specs import record
from plansmith_desk.toolset import string
from plansmith_planner.agent_cards import CODER

_INPUTS: Final = "inputs.json"
_ABOUT: Final = (
    "Run a whole Python program. It sees only its working folder, with the files of the task and "
    f"{_INPUTS}; files made before are there again. No network. Print what you want to see; write "
    "files that should be kept into the working folder."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Coder:
    """An agent that writes Python code and runs it only in the sandbox.

    `folder` holds the files that a plan may name in the input `files`. After `most_failures`
    failures of the code the task has failed.
    """

    agent: LocalAgent
    sandbox: Sandbox
    folder: Folder | None = None
    most_failures: int = 4

    @property
    def spec(self) -> AgentSpec:
        return self.agent.spec

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the task's result, with the files, the last code and what it printed."""
        entries, data = inputs.get("files"), {**inputs}
        data.pop("files", None)
        given: dict[str, bytes] = {}
        for entry in entries if isinstance(entries, list) else [entries] if entries else []:
            name, content = await asyncio.to_thread(self._file, entry)
            if name in given:
                raise ToolFailed(Sentence("two of its files are called '{name}'", name=name))
            given[name] = content
        given[_INPUTS] = json.dumps(data, ensure_ascii=False).encode()
        bench = _Workbench(self.sandbox, given, self.most_failures)
        visible: dict[str, Json] = {**data, "files": [*sorted(given)]}
        result = await self.agent.work_with([bench], task, visible, call)
        notes = result["notes"]
        return result | bench.summary(notes if isinstance(notes, list) else [])

    def _file(self, entry: Json) -> tuple[str, bytes]:
        """Reads a file by its path in the folder, or takes the content that another agent made."""
        if isinstance(entry, str):
            if self.folder is None:
                hint = Sentence("give the coder a folder to read from")
                raise ToolFailed(Sentence("the coder cannot read {name}", name=entry), hint=hint)
            return entry, self.folder.read(entry, most=self.sandbox.limits.given_bytes)
        match entry:
            case {"name": str(name), "text": str(text)}:
                return name, text.encode()
            case {"name": str(name), "base64": str(coded)}:
                try:
                    return name, base64.b64decode(coded, validate=True)
                except binascii.Error:
                    what = Sentence("the content of {name} is not base64", name=name)
                    raise ToolFailed(what) from None
            case _:
                what = Sentence("an entry of the coder's files is neither a path nor a file")
                raise ToolFailed(what, hint='write "a.csv" or {"name": "a.csv", "text": "…"}')


@dataclass
class _Workbench:
    """The tool that runs code for one task; keeps what was run, its output and its files."""

    sandbox: Sandbox
    given: Mapping[str, bytes]
    most_failures: int
    made: dict[str, BoxFile] = field(default_factory=dict[str, BoxFile])
    ran: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the one tool. In a weak sandbox code may change anything; the effect says so."""
        weak = self.sandbox.allow_weak
        code = string("The whole program.", minLength=1, maxLength=200_000)
        return [
            ToolSpec(
                name="python.run",
                description=_ABOUT,
                input_schema=record({"code": code}),
                effect=Effect.WRITE if weak else Effect.READ,
                open_world=weak,
                idempotent=True,  # the same code is never run twice in a task
                timeout_s=self.sandbox.limits.wall_s + 30.0,
            )
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Runs code; the same failing code again, or one failure too many, ends the task."""
        del tool, call
        code = str(arguments["code"])
        outcome = self.ran.get(code)
        if outcome is not None and not outcome.ok:
            raise Stop(f"the coder wrote the same code again after it failed: {_reason(outcome)}")
        if outcome is None:
            files = {name: each.content for name, each in self.made.items()}
            outcome = self.ran[code] = await self.sandbox.run(code, {**self.given, **files})
            self.made |= {each.path: each for each in outcome.files}
            failures = sum(not each.ok for each in self.ran.values())
            if not outcome.ok and failures >= self.most_failures:
                last = _reason(outcome)
                raise Stop(f"the coder's code failed {failures} times, at last with: {last}")
        fields: dict[str, Json] = {
            "ok": outcome.ok,
            "stdout": outcome.stdout,
            "stderr": outcome.stderr,
            "files": [{"name": each.path, "size": len(each.content)} for each in outcome.files],
        }
        more: dict[str, Json] = {"stopped": outcome.stopped, "notes": [*outcome.notes]}
        return fields | {name: value for name, value in more.items() if value}

    def summary(self, notes: list[Json]) -> dict[str, Json]:
        ran = list(self.ran.items())
        box_notes = dict.fromkeys(note for _, each in ran for note in each.notes)
        missing = dict.fromkeys(wall for _, each in ran for wall in each.missing)
        more: list[Json] = [*notes, *box_notes]
        more += [f"the sandbox is weak here: {each}" for each in missing]
        if not ran:
            return {"files": [], "notes": [*more, "no code was run"]}
        code, outcome = ran[-1]
        if not outcome.ok:
            more.append(f"the last code that was run failed: {_reason(outcome)}")
        files: list[Json] = [_file_entry(each) for each in self.made.values()]
        return {"files": files, "code": code, "output": outcome.stdout, "notes": more}


def coder(
    *,
    model: ChatModel,
    sandbox: Sandbox | None = None,
    folder: Path | None = None,
    limits: LocalLimits | None = None,
    prompts: Path | None = None,
    asks: bool = False,
) -> Coder:
    """Makes a coder. If it accepts a weak sandbox, its card declares the effect write."""
    box = sandbox or Sandbox()
    agent = LocalAgent(
        spec=CODER.replace(effect=Effect.WRITE if box.allow_weak else Effect.READ),
        model=model,
        prompt="coder",
        limits=limits or LocalLimits(),
        prompts=prompts,
        asks=asks,
    )
    return Coder(agent=agent, sandbox=box, folder=None if folder is None else Folder(folder))


def _reason(outcome: Outcome) -> str:
    lines = outcome.stderr.strip().splitlines()
    return outcome.stopped or (lines[-1][:300] if lines else f"exit code {outcome.exit_code}")


def _file_entry(file: BoxFile) -> dict[str, Json]:
    entry: dict[str, Json] = {
        "name": file.path,
        "type": mimetypes.guess_type(file.path)[0] or "application/octet-stream",
        "size": len(file.content),
        "sha256": file.sha256,
    }
    try:
        if b"\0" not in file.content:
            return entry | {"text": file.content.decode()}
    except UnicodeDecodeError:
        pass
    return entry | {"base64": base64.b64encode(file.content).decode()}
