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
from typing import Final, cast

from plansmith.errors import ToolFailed
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, ChatModel, ToolSource
from plansmith_desk.agents.local import LocalAgent, LocalLimits
from plansmith_desk.agents.toolbox import Choice, Stop
from plansmith_desk.folder import Folder
from plansmith_desk.sandbox.sandbox import BoxFile, Outcome, Sandbox
from plansmith_planner.agent_cards import CODER

RUN: Final = "python.run"
INPUTS: Final = "inputs.json"


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
        """The coder's card."""
        return self.agent.spec

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the task's result, with the files, the last code and what it printed."""
        bench = Workbench(
            sandbox=self.sandbox,
            given=await asyncio.to_thread(self._files, inputs),
            most_failures=self.most_failures,
        )
        shown = {name: value for name, value in inputs.items() if name != "files"}
        shown |= {"files": list[Json](sorted(bench.given))}
        result = await self.agent.work_with([bench], task, shown, call)
        return result | bench.summary(cast("list[Json]", result["notes"]))

    def _files(self, inputs: Mapping[str, Json]) -> dict[str, bytes]:
        """Returns the files of the working folder: the inputs as JSON, and those that they name."""
        given: dict[str, bytes] = {}
        named = inputs.get("files")
        for entry in named if isinstance(named, list) else [named] if named else []:
            name, content = self._file(entry)
            if name in given:
                raise ToolFailed(
                    Sentence("two of the coder's files are called '{name}'", name=name)
                )
            given[name] = content
        data = {name: value for name, value in inputs.items() if name != "files"}
        return {**given, INPUTS: json.dumps(data, ensure_ascii=False).encode()}

    def _file(self, entry: Json) -> tuple[str, bytes]:
        """Reads a file by its path in the folder, or takes the content that another agent made."""
        if isinstance(entry, str):
            if self.folder is None:
                hint = Sentence("give the coder a folder to read from")
                raise ToolFailed(Sentence("the coder cannot read {name}", name=entry), hint=hint)
            return entry, self.folder.read(entry, most=self.sandbox.limits.given_bytes)
        if isinstance(entry, dict):
            name, text, coded = (entry.get(key) for key in ("name", "text", "base64"))
            if isinstance(name, str) and isinstance(text, str):
                return name, text.encode()
            if isinstance(name, str) and isinstance(coded, str):
                try:
                    return name, base64.b64decode(coded, validate=True)
                except binascii.Error:
                    raise ToolFailed(
                        Sentence("the content of {name} is not base64", name=name)
                    ) from None
        raise ToolFailed(
            Sentence("an entry of the coder's files is neither a path nor a file"),
            hint='write "a.csv" or {"name": "a.csv", "text": "…"}',
        )


@dataclass(kw_only=True)
class Workbench:
    """The tool that runs code for one task; keeps what was run, its output and its files."""

    sandbox: Sandbox
    given: Mapping[str, bytes]
    most_failures: int
    made: dict[str, BoxFile] = field(default_factory=dict[str, BoxFile])
    ran: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the one tool. In a weak sandbox code may change anything; the effect says so."""
        about = (
            "Run a whole Python program. It sees only its working folder, with the files of the "
            f"task and {INPUTS}; files made before are there again. No network. Print what you "
            "want to see; write files that should be kept into the working folder."
        )
        schema = {
            "type": "object",
            "properties": {"code": {"type": "string", "minLength": 1, "maxLength": 200_000}},
            "required": ["code"],
            "additionalProperties": False,
        }
        return [
            ToolSpec(
                name=RUN,
                description=about,
                input_schema=schema,
                effect=Effect.WRITE if self.sandbox.allow_weak else Effect.READ,
                open_world=self.sandbox.allow_weak,
                idempotent=True,  # the same code is never run twice in a task
                timeout_s=self.sandbox.limits.wall_s + 30.0,
            )
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Runs code; the same failing code again, or one failure too many, ends the task."""
        del tool, call
        code = str(arguments.get("code", ""))
        earlier = self.ran.get(code)
        if earlier is not None:
            if not earlier.ok:
                raise Stop(
                    f"the coder wrote the same code again after it failed: {_reason(earlier)}"
                )
            return _outcome_json(earlier)
        files = {**self.given, **{name: each.content for name, each in self.made.items()}}
        outcome = await self.sandbox.run(code, files)
        self.ran[code] = outcome
        self.made |= {each.path: each for each in outcome.files}
        failures = sum(not each.ok for each in self.ran.values())
        if not outcome.ok and failures >= self.most_failures:
            raise Stop(
                f"the coder's code failed {failures} times, at last with: {_reason(outcome)}"
            )
        return _outcome_json(outcome)

    def summary(self, notes: list[Json]) -> dict[str, Json]:
        """Returns what the task's result says about the code and the files."""
        last = next(reversed(self.ran.items()), None)
        seen = dict.fromkeys(note for each in self.ran.values() for note in each.notes)
        missing = dict.fromkeys(each for one in self.ran.values() for each in one.missing)
        more: list[Json] = [*notes, *seen]
        more += [f"the sandbox is weak here: {each}" for each in missing]
        if last is None:
            return {"files": [], "notes": [*more, "no code was run"]}
        code, outcome = last
        if not outcome.ok:
            more.append(f"the last code that was run failed: {_reason(outcome)}")
        return {
            "files": [_file_entry(each) for each in self.made.values()],
            "code": code,
            "output": outcome.stdout,
            "notes": more,
        }


def coder(
    *,
    model: ChatModel,
    sandbox: Sandbox | None = None,
    sources: Sequence[ToolSource] = (),
    tools: Choice | None = None,
    folder: Path | None = None,
    limits: LocalLimits | None = None,
    prompts: Path | None = None,
    asks: bool = False,
) -> Coder:
    """Makes a coder. If it accepts a weak sandbox, its card declares the effect write."""
    box = sandbox or Sandbox()
    effect = Effect.WRITE if box.allow_weak else Effect.READ
    agent = LocalAgent(
        spec=CODER.replace(effect=effect),
        model=model,
        prompt="coder",
        sources=sources,
        tools=tools or Choice(),
        limits=limits or LocalLimits(),
        prompts=prompts,
        asks=asks,
    )
    return Coder(agent=agent, sandbox=box, folder=None if folder is None else Folder(folder))


def _outcome_json(outcome: Outcome) -> Json:
    """Returns an outcome as the model sees it."""
    shown: dict[str, Json] = {
        "ok": outcome.ok,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "files": [{"name": each.path, "size": len(each.content)} for each in outcome.files],
    }
    if outcome.stopped:
        shown["stopped"] = outcome.stopped
    if outcome.notes:
        shown["notes"] = list[Json](outcome.notes)
    return shown


def _reason(outcome: Outcome) -> str:
    """Returns why code failed, in one line."""
    lines = outcome.stderr.strip().splitlines()
    return outcome.stopped or (lines[-1][:300] if lines else f"exit code {outcome.exit_code}")


def _file_entry(file: BoxFile) -> Json:
    kind = mimetypes.guess_type(file.path)[0] or "application/octet-stream"
    entry: dict[str, Json] = {
        "name": file.path,
        "type": kind,
        "size": len(file.content),
        "sha256": file.sha256,
    }
    try:
        text = None if b"\0" in file.content else file.content.decode()
    except UnicodeDecodeError:
        text = None
    content: dict[str, Json] = (
        {"base64": base64.b64encode(file.content).decode()} if text is None else {"text": text}
    )
    return entry | content
