"""A secret reaches the call it is for, and nothing else: no answer, no stream, no log, no file."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.server.house import House, serving, tool_step

from plansmith.errors import InputNeeded, ToolFailed
from plansmith.ports import Call
from plansmith_server.app import ROUTES

CANARY = "canary-5b1d0e77c2"


async def test_a_secret_is_nowhere_to_be_read_however_a_tool_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_KEY", CANARY)
    encoded = CANARY.encode()
    forms = [
        base64.b64encode(b"ada:" + encoded).decode(),
        base64.b64encode(b"a:" + encoded).decode(),
        base64.urlsafe_b64encode(encoded).decode(),
        encoded.hex(),
        encoded.hex().upper(),
        quote(CANARY, safe=""),
        quote(CANARY, safe="").lower(),
        html.escape(CANARY),
    ]
    secrets = {"mail_key": {"env": "MAIL_KEY", "tools": ["mail"]}}
    async with serving(tmp_path, store="sqlite", settings={"secrets": secrets}) as house:

        async def careless(tool: str, arguments: Any, call: Call) -> Any:
            assert arguments["key"] == CANARY  # the tool gets it, and says it back
            call.progress(" ".join(forms))
            if arguments["city"] == "Rome":
                return [CANARY, *forms]
            if call.reply is None:
                form = {"type": "string", "enum": ["yes", *forms], "title": CANARY}
                raise InputNeeded(f"Is it {CANARY}?", schema=form, state=list(forms))
            raise ToolFailed(" ".join([CANARY, *forms]))

        monkeypatch.setattr(house.tools, "call", careless)
        step = tool_step("a", "mail", inputs={"city": "Oslo", "key": "${secret:mail_key}"})
        other = tool_step("b", "mail", inputs={"city": "Rome", "key": "${secret:mail_key}"})
        run = await house.begin(other, {**step, "after": ["b"]})
        await house.approve(run)
        await house.until(run["id"], "asking")
        asked = (await house.client.get(f"/v1/runs/{run['id']}")).json()
        (question,) = asked["questions"]
        assert "${secret:mail_key}" in json.dumps(question)
        texts = [json.dumps(asked)]
        given = {"question": question["question"], "answer": "yes"}
        await house.post(f"/v1/runs/{run['id']}/answers", given)
        await house.until(run["id"], "done", "partly_done", "failed", "asking")
        texts += await everything(house, run["id"])
    for form in (CANARY, *forms):
        assert not [text for text in texts if form in text], form
        assert files_with(tmp_path, form.encode()) == []


async def everything(house: House, run: str) -> list[str]:
    """What every route, the stream and the log tell of a run."""
    texts = list[str]()
    for route in ROUTES:
        if route.method == "GET" and route.path != "/v1/events":
            where = route.path.replace("{id}", run).replace("{step:path}", "a")
            texts.append((await house.client.get(where.replace("{name}", "x"))).text)
    last = (await house.get(f"/v1/runs/{run}"))["last"]
    async for event in house.stream(run=run, after=0):
        texts.append(str(event))
        if event["data"].get("number") == last:
            break
    return [*texts, house.log.getvalue()]


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]
