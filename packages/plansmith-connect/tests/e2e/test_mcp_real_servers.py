"""Real MCP servers from the package indexes, as real processes, in plans that run end to end."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.a2a_desk import Desk
from tests.servers.kit import approved, limits, use
from tests.servers.real import node_servers, python_servers

from plansmith import Effect, Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import ToolFailed
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.tools.functions import tool
from plansmith_connect.a2a.agent import connect
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers
from plansmith_connect.mcp.settings import ServerSettings


@pytest.fixture(scope="session")
def newer() -> Path:
    return python_servers("newer")


@pytest.fixture(scope="session")
def older() -> Path:
    return python_servers("older")


@pytest.fixture(scope="session")
def node() -> Path:
    return node_servers()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "note.txt").write_text("buy milk", encoding="utf-8")
    return folder.resolve()


def server(folder: Path, command: str, *args: str, **more: Any) -> ServerSettings:
    return ServerSettings(command=str(folder / command), args=args, limits=limits(), **more)


async def ready(**named: ServerSettings) -> McpServers:
    source = McpServers(named, approvals=Approvals())
    await approved(source)
    states = {each.name: each for each in source.statuses()}
    assert all(each.state == "running" for each in states.values()), states
    return source


@pytest.fixture
async def everything(node: Path) -> AsyncIterator[McpServers]:
    async with await ready(every=server(node, "mcp-server-everything")) as source:
        yield source


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)})


async def test_one_plan_uses_a_server_of_npm_one_of_pypi_a_function_and_an_agent(
    node: Path, newer: Path, work: Path
) -> None:
    @tool(effect="read")
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    source = await ready(
        files=server(node, "mcp-server-filesystem", str(work), trusted=True),
        time=server(newer, "mcp-server-time"),
    )
    wanted = plan(
        {
            "id": "now",
            "tool": "time.convert_time",
            "inputs": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        },
        {"id": "note", "tool": "files.read_text_file", "inputs": {"path": f"{work}/note.txt"}},
        {"id": "said", "agent": "a2a.desk", "task": "echo {{note.content}}"},
        {"id": "loud", "tool": "shout", "inputs": {"text": "{{said.text}}"}},
        {
            "id": "write",
            "tool": "files.write_file",
            "inputs": {"path": f"{work}/out.txt", "content": "{{loud}} at {{now.target.datetime}}"},
        },
    )
    async with source, Desk().serving() as desk:
        effects = {spec.name: spec.effect for spec in await source.tools()}
        assert effects["files.read_text_file"] is Effect.READ
        assert effects["files.write_file"] is Effect.FINAL
        assert effects["time.convert_time"] is Effect.WRITE
        agents = [await connect("desk", desk.url)]
        app = Plansmith(tools=[shout, source], agents=agents, limits=Limits(data="show"))
        run = await app.submit(wanted)
        assert run.status is RunStatus.REVIEWING
        assert not (work / "out.txt").exists()
        await app.decide(run.id, approve=wanted.hash, by="ada")
        run = await app.runs.run(run.id)
        assert run.status is RunStatus.DONE, run
        with pytest.raises(ToolFailed, match="outside allowed directories"):
            await use(source, "files.read_text_file", path="/etc/hostname")
    written = (work / "out.txt").read_text(encoding="utf-8")
    assert written.startswith("BUY MILK at ")
    assert "T21:00:00" in written


async def test_the_everything_server_gives_text_images_links_and_structure(
    everything: McpServers,
) -> None:
    assert await use(everything, "every.echo", message="hi") == "Echo: hi"
    image = (await use(everything, "every.get-tiny-image"))["parts"][0]
    assert (image["kind"], image["mime_type"]) == ("image", "image/png")
    links = await use(everything, "every.get-resource-links", count=2)
    assert [each["kind"] for each in links["parts"]] == ["link", "link"]
    weather = await use(everything, "every.get-structured-content", location="New York")
    assert set(weather) == {"temperature", "conditions", "humidity"}
    progress: list[str] = []
    call = Call(key="k", progress=progress.append)
    given: dict[str, Any] = {"duration": 0.1, "steps": 2}
    await everything.call("every.trigger-long-running-operation", given, call)
    assert progress == ["1 of 2", "2 of 2"]


async def test_a_question_of_a_real_server_is_answered_by_the_person_in_the_run(
    everything: McpServers,
) -> None:
    wanted = plan({"id": "ask", "tool": "every.trigger-elicitation-request"})
    app = Plansmith(tools=[everything])
    run = await app.submit(wanted)
    await app.decide(run.id, approve=wanted.hash, by="ada")
    run = await app.runs.run(run.id)
    assert run.status is RunStatus.ASKING
    [question] = run.questions.values()
    assert question.text.startswith("every asks: Please provide inputs")
    await app.answer(run.id, question.question, {"name": "Ada", "check": True}, by="ada")
    run = await app.runs.run(run.id)
    assert run.status is RunStatus.DONE, run
    assert "Ada" in str(run.steps["ask"].result)


async def test_servers_of_both_eras_and_three_libraries_change_what_they_should(
    node: Path, newer: Path, older: Path, work: Path
) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(work)], check=True)
    source = await ready(
        git=server(newer, "mcp-server-git", "--repository", str(work)),
        memory=server(node, "mcp-server-memory", env={"MEMORY_FILE_PATH": f"{work}/memory.json"}),
        sql=server(older, "mcp-server-sqlite", "--db-path", str(work / "a.db")),
    )
    async with source:
        protocols = {each.name: each.protocol for each in source.statuses()}
        assert protocols["git"] >= "2026" > max(protocols["memory"], protocols["sql"])
        status = await use(source, "git.git_status", repo_path=str(work))
        assert "note.txt" in str(status)
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote notes"]}
        await use(source, "memory.create_entities", entities=[entity])
        graph = await use(source, "memory.read_graph")
        assert graph["entities"][0]["name"] == "Ada"
        await use(source, "sql.create_table", query="CREATE TABLE t (x)")
        await use(source, "sql.write_query", query="INSERT INTO t VALUES (7)")
        assert "7" in await use(source, "sql.read_query", query="SELECT x FROM t")
    with sqlite3.connect(work / "a.db") as database:
        assert database.execute("SELECT x FROM t").fetchall() == [(7,)]
    database.close()
