"""Planning with a real client, a real server and real sockets."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Told, typed

from plansmith import Effect, ToolSpec
from plansmith.clock import SystemClock
from plansmith.plan.planning import PlanRequest
from plansmith.testing import Gate, ModelServer, Refusal, Reply
from plansmith_planner.make import make_model
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import ModelSettings
from plansmith_planner.stages import PlannerDeps

TOOLS = [ToolSpec(name="weather", description="The weather in a city", effect=Effect.READ)]
PLAN: dict[str, Any] = {
    "goal": "Compare the weather",
    "steps": [
        {"id": "oslo", "kind": "tool", "tool": "weather", "inputs": {"city": "Oslo"}},
        {"id": "rome", "kind": "tool", "tool": "weather", "inputs": {"city": "Rome"}},
        {"id": "say", "kind": "reply", "instruction": "Compare {{oslo}} and {{rome}}."},
    ],
}


def deps(server: ModelServer, **settings: Any) -> PlannerDeps:
    clock = SystemClock()
    model = ModelSettings(model="openai:test", base_url=server.url, **settings)
    return PlannerDeps(plan_model=make_model(model, clock=clock), clock=clock, tools=TOOLS)


@pytest.mark.parametrize(
    "answers",
    [
        [Reply(PLAN)],
        [Reply(PLAN, tool="answer")],
        [Reply(f"Sure!\n```json\n{json.dumps(PLAN)}\n```\nEnjoy.")],
        [Reply(PLAN, thinks="let me see")],
        [Refusal(429, retry_after="0"), Reply(PLAN)],
        [Refusal(500), Reply(PLAN)],
        [Reply(PLAN, ends="cut"), Reply(PLAN)],
        [Reply(PLAN, ends="reset"), Reply(PLAN)],
        [Reply(PLAN, ends="malformed"), Reply(PLAN)],
    ],
    ids=["json", "tool", "prose", "thinking", "429", "500", "cut", "reset", "malformed"],
)
async def test_a_plan_comes_through_whatever_the_server_does(answers: list[Any]) -> None:
    async with ModelServer(*answers) as server:
        planned = await make_plan(PlanRequest("Compare the weather"), deps=deps(server))
        assert planned.plan is not None, planned.problems
        assert not planned.plan.degraded, planned.problems
        assert [step.id for step in planned.plan.steps] == ["oslo", "rome", "say"]
        server.finish()


@pytest.mark.parametrize("status", [401, 404])
async def test_a_refusal_is_a_stand_in_that_says_what_to_do(status: int) -> None:
    async with ModelServer(Refusal(status)) as server:
        planned = await make_plan(PlanRequest("Compare the weather"), deps=deps(server))
        assert planned.plan is not None
        assert planned.plan.degraded
        [told] = [each for each in planned.problems if each.code == "PS015"]
        assert told.hint


async def test_a_server_that_is_not_there_is_a_stand_in_too() -> None:
    server = ModelServer()
    async with server:
        url = server.url
    clock = SystemClock()
    settings = ModelSettings(model="openai:test", base_url=url, tries=1)
    planned = await make_plan(
        PlanRequest("x"),
        deps=PlannerDeps(plan_model=make_model(settings, clock=clock), clock=clock),
    )
    assert planned.plan is not None
    assert planned.plan.degraded


async def test_the_first_step_is_handed_over_while_the_rest_is_still_being_written() -> None:
    text = json.dumps(PLAN)
    gate = Gate()
    first_end = text.index("}}") + 2
    seen: list[str] = []
    arrived = asyncio.Event()

    def on_step(step: Any) -> None:
        seen.append(step.id)
        arrived.set()

    async with ModelServer(Reply(text, chunk=1, gate=gate)) as server:
        planning = asyncio.ensure_future(
            make_plan(PlanRequest("Compare"), deps=deps(server), on_step=on_step)
        )
        gate.let(first_end + 1)
        async with asyncio.timeout(120):
            await arrived.wait()
        assert seen == ["oslo"]
        assert not planning.done()
        gate.let(len(text))
        planned = await planning
        assert seen == ["oslo", "rome", "say"]
        assert planned.plan is not None


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
    told = json.loads(done.out)
    assert done.code == 0, done.err
    assert [step["id"] for step in told["plan"]["steps"]] == ["oslo", "rome", "say"]
    assert told["hash"]
    assert told["picks"][0]["reason"]
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


def test_a_missing_key_is_told_when_the_model_is_asked_and_not_before(project: Project) -> None:
    own = project.folder / ".config" / "plansmith"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(
        '[models.plan]\nmodel = "openai:x"\napi_key_env = "NO_SUCH_KEY"\n'
    )
    done = project.types("plan", "Compare Oslo and Rome", "--tools", "tools.json")
    assert done.code == 3
    assert f"{done.out}{done.err}".count("export NO_SUCH_KEY") == 1
    assert "Traceback" not in done.err


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
