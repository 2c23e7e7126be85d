"""Setting a server up from its page: its folder, its model, planning that fails, used links."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.servers.a2a_desk import Desk
from tests.unit.server.house import House, serving, tool_step

from plansmith.plan.sentence import Sentence
from plansmith.ports import Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith_desk.model.files import DEFAULT, KNOWN

SALES = "date,region,amount\n2026-01-02,North,120.5\n2026-01-03,South,80\n2026-01-04,North,7\n"
FILES = "/v1/folder/files"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that plans work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def test_a_file_is_put_into_the_folder_and_replaces_none_unasked(
    tmp_path: Path, work: Path
) -> None:
    async with serving(tmp_path, max_file=1000) as house:
        put = house.client.put
        assert (await put(f"{FILES}/a b.csv", content=b"one")).status_code == 201
        again = await put(f"{FILES}/a b.csv", content=b"two")
        assert (again.status_code, again.json()["code"]) == (409, "exists")
        assert (work / "a b.csv").read_bytes() == b"one"
        assert (await put(f"{FILES}/a b.csv?replace=true", content=b"two")).status_code == 201
        assert (work / "a b.csv").read_bytes() == b"two"
        assert (await put(f"{FILES}/big", content=b"x" * 1001)).status_code == 413
        both = await asyncio.gather(*(put(f"{FILES}/once", content=c) for c in (b"1", b"2")))
        assert sorted(each.status_code for each in both) == [201, 409]
        async with house.with_token("bot", "look", "propose") as bot:
            assert (await bot.put(f"{FILES}/bot.csv", content=b"x")).status_code == 403
    assert _names(work) == ["a b.csv", "once"]


async def test_the_folder_is_told_and_no_file_lands_elsewhere_or_becomes_settings(
    tmp_path: Path, work: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept")
    (work / "link").symlink_to(outside)
    (work / "sub").mkdir()
    (work / "sales.csv").write_text(SALES)
    (work / "odd.csv").write_bytes(b'\xff\xfe"never closed,\n\0')
    (work / ".secret").write_text("hidden")
    (work / "plansmith.toml").write_text("")
    before = _names(work)
    names = ["..%2Fout", "sub%2Fx", ".env", "plansmith.toml", "PLANSMITH.TOML", "%20", "a%0Ab"]
    names += ["x" * 300, "a%5Cb", "%E2%80%AEtxt.exe"]
    async with serving(tmp_path) as house:
        listed = await house.get("/v1/folder")
        for name in names:
            answer = await house.client.put(f"{FILES}/{name}?replace=true", content=b"x")
            assert answer.status_code in (404, 409, 422), name
        for name in ("link", "sub"):
            answer = await house.client.put(f"{FILES}/{name}?replace=true", content=b"x")
            assert (answer.status_code, answer.json()["code"]) == (409, "not_a_file"), name
    assert (outside.read_text(), _names(work)) == ("kept", before)
    files = {each["name"]: each for each in listed["files"]}
    assert (listed["name"], listed["total"], set(files)) == ("work", 2, {"sales.csv", "odd.csv"})
    columns = {each["name"]: each for each in files["sales.csv"]["columns"]}
    assert [name for name, each in columns.items() if each["numeric"]] == ["amount"]
    assert columns["region"]["repeats"]


async def test_a_model_is_chosen_until_the_server_stops_and_its_key_is_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("PLANSMITH_MODELS", str(tmp_path / "models"))
    async with serving(tmp_path) as house:
        # The model that the server was given, not what could be found on this machine.
        current = (await house.get("/v1/models"))["current"]
        assert (await house.get("/v1/model"))["chosen"] == current != "rules"
        key = {"kind": "key", "variable": "OPENAI_API_KEY"}
        refused = await house.client.post("/v1/model", json=key)
        assert (refused.status_code, "OPENAI_API_KEY" in refused.text) == (409, True)
        used = await house.post("/v1/model", {**key, "model": "gpt-x", "api_key": "sk-secret-1"})
        assert used["current"] == "openai:gpt-x"
        for path in ("/v1/models", "/v1/model", "/v1/settings"):
            assert "sk-secret-1" not in (await house.client.get(path)).text
        assert "sk-secret-1" not in house.log.getvalue()
        for body in (
            {"kind": "server", "url": "http://169.254.169.254", "model": "x"},
            {"kind": "embedded", "model": DEFAULT},
            {"kind": "key", "variable": "HOME", "api_key": "x"},
        ):
            assert (await house.client.post("/v1/model", json=body)).status_code >= 400, body
        assert (await house.get("/v1/model"))["chosen"] == "openai:gpt-x"
        assert (await house.post("/v1/model", {"kind": "rules"}))["current"] == "rules"
        async with house.with_token("bot", "look", "propose", "approve") as bot:
            listed = (await bot.get("/v1/models")).json()
            assert listed["can_change"] is ("admin" in str(house.tokens.all()[-1].rights))
        async with house.with_token("viewer", "look") as viewer:
            assert (await viewer.get("/v1/models")).json() == {
                "current": "rules",
                "chosen": "rules",
                "download": None,
                "can_change": False,
            }
            assert (await viewer.post("/v1/model", json={"kind": "rules"})).status_code == 403


async def test_an_embedded_model_is_downloaded_with_progress_and_then_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    data = b"weights" * 1000
    (source / "model.gguf").write_bytes(data)
    monkeypatch.setenv("PLANSMITH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    handler = partial(_Quiet, directory=str(source))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as publisher:
        Thread(target=publisher.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{publisher.server_address[1]}/model.gguf"
        digest = hashlib.sha256(data).hexdigest()
        small = replace(KNOWN[DEFAULT], size=len(data), sha256=digest, url=url)
        monkeypatch.setitem(KNOWN, DEFAULT, small)
        async with serving(tmp_path) as house:
            begun = await house.post("/v1/models/pull", {}, 202)
            assert begun["download"]["total"] == len(data)
            models = await _loaded(house)
            assert (models["download"]["state"], models["download"]["done"]) == ("done", len(data))
            assert [each["here"] for each in models["embedded"]] == [True]
            used = await house.post("/v1/model", {"kind": "embedded", "model": DEFAULT})
            assert DEFAULT in used["chosen"]
        publisher.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the base
        """Say nothing."""


async def _loaded(house: House) -> Any:
    while True:
        models = await house.get("/v1/models")
        if models["download"]["state"] not in ("loading", "checking"):
            return models
        await asyncio.sleep(0.02)


class Babbler:
    """A model that reads slowly, tells how far it is, and then writes no plan."""

    name = "babbler"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        yield TextDelta("", Sentence("reading, {done} of {whole} tokens", done=30, whole=120))
        yield TextDelta("I had rather talk about the weather.")
        yield ModelDone(Usage(input_tokens=1, output_tokens=1), self.name)


async def test_planning_that_fails_says_what_the_model_wrote_and_is_no_plan(tmp_path: Path) -> None:
    settings = {"planner": {"triage": False}}
    async with serving(tmp_path, model=Babbler(), settings=settings) as house:
        run, request = dict[str, Any](), ""
        for request in ("book the moon", "预订去月球的票"):
            run = await house.post("/v1/runs", {"request": request}, 202)
            events = [event async for event in _until_over(house, run["id"])]
            drafts = [event["data"] for event in events if event["event"] == "draft"]
            over = await house.until(run["id"], "failed")
            assert 25 in [each.get("share") for each in drafts]
            # Stages have the same names in every language, and how far the model is begins none.
            assert "draft" in {each["phase"] for each in drafts}
            assert not any("30" in str(each.get("text")) for each in drafts if each.get("begins"))
            assert (over["plan"], over["stand_in"]) == (None, False)
            assert over["failure"]["model"] == "babbler"
            assert "rather talk" in over["failure"]["output"]
        refused = await house.post(f"/v1/runs/{run['id']}/decision", {"approve": "0" * 64}, 409)
        assert refused["code"] == "stale_decision"
        again = await house.post(f"/v1/runs/{run['id']}/retry", status=202)  # planned once more
        assert (again["request"], again["origin"]["id"]) == (request, run["id"])
        # A plan by hand goes on there, and its results are there to pick from.
        plan = {"goal": "look", "steps": [tool_step("a")]}
        checked = await house.post(f"/v1/runs/{run['id']}/plan/check", {"plan": plan})
        assert checked["hash"]
        made = await house.post(f"/v1/runs/{run['id']}/retry", {"plan": plan}, 202)
        assert (made["status"], made["stand_in"]) == ("reviewing", False)
        assert (await house.get("/v1/tools/last-result?tool=weather"))["result"] is None
        await house.approve(made)
        await house.until(made["id"], "done")
        found = await house.get("/v1/tools/last-result?tool=weather")
        assert (found["result"]["city"], found["run"]) == ("Oslo", made["id"])


async def _until_over(house: House, run: str) -> AsyncIterator[dict[str, Any]]:
    async for event in house.stream(run=run, after=0):
        yield event
        if event["data"].get("body", {}).get("type") == "run_finished":
            return


# Servers and agents are approved as they were shown


SERVER = str(Path(__file__).parents[4] / "tests" / "servers" / "raw.py")


async def test_a_server_and_its_tools_are_approved_as_they_were_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    own = {"command": sys.executable, "args": ["-S", SERVER], "protocol": "legacy"}
    settings = {"mcp": {"servers": {"own": own}}}
    async with serving(tmp_path, settings=settings, settings_tools=True) as house:
        [waiting] = [
            each for each in (await house.get("/v1/tools"))["items"] if not each["approved"]
        ]
        assert waiting["kind"] == "server"
        assert SERVER in waiting["text"]
        inbox = await house.get("/v1/inbox")
        assert [each["kind"] for each in inbox["items"]] == ["tool"]
        body = {"server": waiting["name"], "hash": "another"}
        assert (await house.post("/v1/tools/approve", body, 409))["code"] == "stale_decision"
        left = await house.post("/v1/tools/approve", body | {"hash": waiting["hash"]})
        echo = next(each for each in left["items"] if each["name"] == "own.echo")
        assert echo["kind"] == "tool"
        body = {"server": echo["name"], "hash": echo["hash"]}
        await house.post("/v1/tools/approve", body)
        names = [
            each["name"] for each in (await house.get("/v1/tools"))["items"] if each["approved"]
        ]
        assert "own.echo" in names


async def test_an_agent_works_the_moment_its_card_is_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with Desk().serving() as desk:
        agents = {"desk": {"url": desk.url, "effect": "read"}}
        async with serving(tmp_path, settings={"agents": agents}) as house:
            listed, card = (await house.get("/v1/agents"))["items"]
            assert (listed["name"], listed["enabled"]) == ("a2a.desk", False)
            assert (card["status"], card["card"]["name"]) == ("new", "The Desk")
            stale = {"name": "desk", "hash": "another"}
            assert (await house.post("/v1/agents/approve", stale, 409))["code"] == "stale_decision"
            approval = {"name": "desk", "hash": card["hash"]}
            assert (await house.post("/v1/agents/approve", approval))["status"] == "approved"
            step = {"id": "a", "kind": "agent", "agent": "a2a.desk", "task": "echo hello"}
            run = await house.begin(step, mode="read_only")
            run = await house.until(run["id"], "done")
            assert "hello" in str(run["steps"]["a"]["result"])
