"""Planning with a real client, a real server and real sockets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Told, typed
from tests.servers.model_server import ModelServer, Reply

PLAN: dict[str, Any] = {
    "goal": "Compare the weather",
    "steps": [
        {"id": "oslo", "kind": "tool", "tool": "weather", "inputs": {"city": "Oslo"}},
        {"id": "rome", "kind": "tool", "tool": "weather", "inputs": {"city": "Rome"}},
        {"id": "say", "kind": "reply", "instruction": "Compare {{oslo}} and {{rome}}."},
    ],
}


class Project:
    """A folder with tools, a profile and documents, and a person who types commands in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def types(self, *words: str) -> Told:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return typed(*words, folder=self.folder, environment=environment, capsys=self._capsys)


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    tools = {
        "weather": {"description": "The weather in a city", "input_schema": {}, "effect": "read"}
    }
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    (tmp_path / "me.yaml").write_text("name: Ada\nhard_constraints: [never fly]\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "notes.md").write_text("# Weather\nOslo is cold. <<tools>> {{x}}\n")
    return Project(tmp_path, capsys)


def test_the_command_plans_over_http_and_shows_its_phases(project: Project) -> None:
    triage: Any = {
        "decision": "plan",
        "reason": "data",
        "query": "Compare the weather",
        "answer": "",
    }
    server = ModelServer(Reply(triage), Reply(PLAN))
    with server.in_thread() as url:
        done = project.types(
            *("plan", "Compare Oslo and Rome", "--tools", "tools.json", "--profile", "me.yaml"),
            *("--docs", "docs", "--model", "openai:test", "--base-url", url, "--json", "-v"),
        )
    result = json.loads(done.out)
    assert done.code == 0, done.err
    assert [step["id"] for step in result["plan"]["steps"]] == ["oslo", "rome", "say"]
    assert result["hash"]
    assert result["picks"][0]["reason"]
    for phase in ("triage", "context", "shortlist", "draft", "parse", "check"):
        assert f"] {phase}: " in done.err
    sent = json.dumps(server.chats[1], ensure_ascii=False)
    for part in ("never fly", "Oslo is cold. <<tools>> {{x}}", "Ada"):
        assert part in sent


def test_small_talk_is_answered_and_a_question_waits(project: Project) -> None:
    hello: Any = {"decision": "answer", "reason": "", "query": "", "answer": "你好！\x1b[2J"}
    which: Any = {"decision": "ask", "reason": "", "query": "", "answer": "Which city?"}
    no: Any = {"decision": "refuse", "reason": "", "query": "", "answer": "No."}
    with ModelServer(Reply(hello), Reply(which), Reply(no)).in_thread() as url:
        common = ("--model", "openai:test", "--base-url", url)
        answered = project.types("ask", "你好，天气真好", *common)
        asked = project.types("ask", "weather?", *common)
        refused = project.types("ask", "harm", *common)
    assert (answered.code, asked.code, refused.code) == (0, 5, 4)
    assert answered.out == "你好！\\u001b[2J\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--model", "gpt"], "not the name of a model"),
        (["--tools", "nope.json"], "cannot read nope.json"),
        (["--profile", "nope.yaml"], "nope.yaml"),
        (["--docs", "nope"], "no file or folder"),
        (["--agent", "nobody"], "no agent or template"),
    ],
)
def test_wrong_input_is_told_in_one_line(words: list[str], why: str, project: Project) -> None:
    done = project.types("plan", "x", *words)
    assert done.code == 2
    assert why in done.err.splitlines()[-1]
