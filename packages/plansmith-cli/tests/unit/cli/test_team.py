"""`plansmith team research` and `team data`, with a model behind a real socket."""

from __future__ import annotations

import asyncio
import json
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Cli
from tests.servers.model_server import ModelServer, Refusal, Reply, Request

from plansmith.engine.call import RunningCalls
from plansmith.store.urls import open_store

BY_CITY = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city ORDER BY n DESC"
RESEARCH: dict[str, Any] = {
    "goal": "Bridge",
    "steps": [
        {"id": "find", "kind": "agent", "agent": "researcher", "task": "When was it opened?"},
        {"id": "say", "kind": "reply", "instruction": "Say {{find.text}}"},
    ],
}
DATA: dict[str, Any] = {
    "goal": "Customers",
    "steps": [
        {"id": "count", "kind": "agent", "agent": "sql_writer", "task": "Customers by city."},
        {
            "id": "chart",
            "kind": "tool",
            "tool": "charts.draw",
            "inputs": {
                "kind": "bar",
                "rows": {"$from": "count", "$path": ["rows"]},
                "x": "city",
                "y": "n",
                "title": "Customers",
                "path": "customers.svg",
            },
        },
        {"id": "say", "kind": "reply", "instruction": "Say {{count.rows}} {{chart.path}}"},
    ],
}
FINISH: dict[str, Any] = {
    "text": "It was opened in 1932.",
    "citations": [{"path": "bridge.md", "quote": "opened in 1932"}],
}

PARTS: dict[str, Reply | Refusal] = {}  # what a test has the model say instead


def _offered(request: Request, name: str) -> str:
    """A tool under the name by which the provider knows it."""
    names = [str(tool["function"]["name"]) for tool in request.json.get("tools", [])]
    return next((each for each in names if each.startswith(name)), name)


def answer(request: Request) -> Reply | Refusal:
    """What the model says, by what it is asked to be."""
    text = json.dumps(request.json)
    parts: dict[str, Reply | Refusal] = {
        "decide what a request needs": Reply(
            {"decision": "ask", "reason": "", "query": "", "answer": "Which bridge?"}
            if "opened?" in text and "old one" not in text
            else {"decision": "plan", "reason": "", "query": "Customers", "answer": ""}
        ),
        "You write plans": Reply(DATA if "sql_writer" in text else RESEARCH),
        "You write one SQL": Reply({"sql": BY_CITY, "reason": ""}),
        "You judge": Reply({"score": 9, "missing": []}),
        "You are a researcher": Reply(FINISH, tool="finish")
        if "opened in 1932" in text
        else Reply({"path": "bridge.md"}, tool=_offered(request, "files_read")),
        "You word the answer": Reply("It is told [step:find][step:chart]."),
        **PARTS,
    }
    found = next((reply for needle, reply in parts.items() if needle in text), None)
    return found or Refusal(400, "a part that nobody plays")


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch, desk: Path) -> Iterator[ModelServer]:
    server = ModelServer(then=answer)
    (desk / "library").mkdir()
    (desk / "library" / "bridge.md").write_text("The bridge was opened in 1932.", encoding="utf-8")
    database = sqlite3.connect(desk / "shop.db")
    database.executescript(
        "CREATE TABLE customers (name TEXT, city TEXT);"
        "INSERT INTO customers VALUES ('Ada', 'Oslo'), ('Bob', 'Oslo'), ('Cid', 'Bergen');"
    )
    database.close()
    with server.in_thread() as url:
        monkeypatch.setenv("PLANSMITH_MODEL", "openai:test")
        monkeypatch.setenv("PLANSMITH_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield server


def named(err: str, verb: str) -> list[str]:
    """The command that goes on with a run, as it is printed, without `plansmith`."""
    commands = [shlex.split(line)[1:] for line in err.splitlines() if "plansmith " in line]
    return next(each for each in commands if each[0] == verb)


def test_a_question_about_the_request_is_answered_for_the_same_team(cli: Cli) -> None:
    asked = "team research 'When was it opened?' --docs library --no-input"
    cli(asked, code=5, err="Which bridge?")
    cli("answer last request:9", "The old one", code=4, err="no open question 'request:9'")
    assert cli("answer last request:1", "The old one")[0] == 0
    cli("go last --team research --docs library", code=0, out="opened in 1932")


def test_data_asks_before_it_draws_and_goes_on_with_the_command_it_names(cli: Cli) -> None:
    words = ("team", "data", "Customers by city?", "--db", "sqlite:///shop.db", "--no-input")
    err = cli(*words, code=5).err
    assert not (cli.folder / "customers.svg").exists()
    err = cli(*named(err, "approve"), code=0).err
    cli(*named(err, "go"), code=0, out=("customers.svg", "GROUP BY city"))
    assert (cli.folder / "customers.svg").is_file()


def test_resume_and_retry_and_report_and_rerun_know_the_team(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARTS, "You are a researcher", Refusal(400, "not now"))
    cli("team research", "When was the old one opened?", "--docs", "library", code=1)
    monkeypatch.delitem(PARTS, "You are a researcher")
    cli("runs retry last", code=0, out=("opened in 1932", "It is told", "bridge.md"))
    assert "opened in 1932" in cli("report last")[1]
    cli("runs rerun last", code=0, out="opened in 1932")


def test_the_run_of_a_team_that_was_killed_is_resumed_beside_an_ordinary_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """The process ends here."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    plain = {"goal": "Look", "steps": [{"id": "a", "tool": "look", "inputs": {"name": "x"}}]}
    (cli.folder / "plan.json").write_text(json.dumps(plain), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(RunningCalls, "launch", die)
        with pytest.raises(Killed):
            cli("team research", "When was the old one opened?", "--docs", "library")
        with pytest.raises(Killed):
            cli("run plan.json --tools tools.py")
    assert {each["status"] for each in cli.json("runs")} == {"running"}
    done = cli.json("go --all --tools tools.py")
    assert [each["status"] for each in done] == ["done", "done"]
    assert {name for each in done for name in each["steps"]} == {"a", "find", "say"}


def test_a_team_that_cannot_be_made_again_says_what_to_do_and_its_run_can_be_seen_and_stopped(
    cli: Cli,
) -> None:
    _, _, err = cli("team", "data", "Customers by city?", "--db", "sqlite:///shop.db", "--no-input")
    _, run, digest, *_ = named(err, "approve")
    (cli.folder / "shop.db").rename(cli.folder / "moved.db")
    gone = ("there is no database shop.db", f"plansmith go {run} --team data --db URL")
    cli("approve", run, digest, code=4, err=gone)
    cli("show", run, code=0, out=run, err="there is no database")
    cli("runs cancel", run, code=0)


async def _events(store: str, run: str) -> str:
    opened = open_store(store)
    found = [event.to_json() for event in await opened.events(run)]
    await opened.close()
    return json.dumps(found)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s3cret@127.0.0.1:1/shop",
        "postgresql://ada@127.0.0.1:1/shop?password=s3cret",
        "postgresql://ada@127.0.0.1:1/shop?pass%77ord=s3cret&sslpassword=s3cret",
    ],
)
def test_the_password_of_a_database_is_in_no_journal(cli: Cli, url: str) -> None:
    cli("team data", "Customers by city?", "--db", url, "--no-input")
    run = cli.json("runs")[0]["id"]
    events = asyncio.run(_events(f"sqlite:///{cli.folder.parent / 'store' / 'runs.db'}", run))
    assert "ada@127.0.0.1" in events
    assert "s3cret" not in events
    cli("go", run, err="the password of postgresql://ada@127.0.0.1:1/shop is not stored in runs")
    own = cli.folder.parent / ".config" / "plansmith" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'[builtin.databases]\nshop = "{url}"\n', encoding="utf-8")
    assert "is not stored in runs" not in cli("go", run)[2]


def test_sql_only_prints_the_statement_and_nothing_else(cli: Cli, model: ModelServer) -> None:
    only = "team data --db sqlite:///shop.db --sql-only"
    assert cli(only, "Customers by city?", code=0).out.strip() == BY_CITY
    assert len(model.chats) == 1
    assert cli.json(only, "By city?")["steps"]["run"]["result"]["rows"] == []
