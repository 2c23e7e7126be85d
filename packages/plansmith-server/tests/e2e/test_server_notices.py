"""Notices: people are told by webhook, Slack or mail what waits, once, and never late for a run."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.server.house import House, plan, serving, tool_step
from tests.waiting import until

from plansmith_server.settings import NoticeSettings
from plansmith_server.team import notices as sending


class Received:
    """What a web server was sent, and what it answers next."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.statuses: list[int] = []


@contextmanager
def hook() -> Iterator[tuple[str, Received]]:
    got = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            got.paths.append(self.path)
            got.headers.append(dict(self.headers))
            got.bodies.append(json.loads(self.rfile.read(size)))
            self.send_response(got.statuses.pop(0) if got.statuses else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def serving_notices(tmp_path: Path, **channel: Any) -> AsyncIterator[House]:
    settings = {"notices": {"team": {"after_s": 0, **channel}}}
    async with serving(tmp_path, settings=settings) as house:
        yield house


async def arrived(got: Received, count: int) -> None:
    await until(lambda: len(got.bodies) >= count)


async def test_a_webhook_is_told_of_a_plan_and_of_a_question_once_each(tmp_path: Path) -> None:
    with hook() as (url, got):
        async with serving_notices(tmp_path, url=url, page="https://plans.example/") as house:
            run = await house.begin(tool_step("a", "mail"))
            await arrived(got, 1)
            asked = await house.begin({"id": "ask", "kind": "ask", "question": "Which city?"})
            await arrived(got, 2)
            await house.approve(asked)
            await arrived(got, 3)
            [item] = got.bodies[0]["items"]
            assert (item["kind"], item["run"], item["goal"]) == ("review", run["id"], "a goal")
            assert item["link"] == f"https://plans.example/#/runs/{run['id']}"
            assert got.bodies[0]["title"] == "Plansmith waits for you: a goal"
            [question] = got.bodies[2]["items"]
            assert (question["kind"], question["text"]) == ("question", "Which city?")
            assert "Which city?" in got.bodies[2]["text"]

            async def counted() -> bool:  # the receiver has a notice before the server counts it
                return bool((await house.get("/v1/notices"))["items"][0]["sent"] == 3)

            await until(counted)
            [row] = (await house.get("/v1/notices"))["items"]
            assert (row["sent"], row["failed"], row["error"]) == (3, 0, "")
            assert row["to"] == url.removesuffix("/hook")


async def test_slack_gets_text_that_can_neither_call_a_channel_nor_dress_up_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hook() as (url, got):
        monkeypatch.setenv("HOOK_URL", f"{url}/T000/secret")
        notices = {"team": {"kind": "slack", "url": "${secret:hook}", "after_s": 0}}
        secrets = {"hook": {"env": "HOOK_URL", "tools": ["notices.team"]}}
        settings = {"notices": notices, "secrets": secrets}
        async with serving(tmp_path, settings=settings) as house:
            evil = plan(tool_step("a", "mail"), goal="<!channel> <https://evil|click> & more")
            await house.post("/v1/runs", {"plan": evil}, 202)
            await arrived(got, 1)
            assert "&lt;!channel&gt; &lt;https://evil|click&gt; &amp; more" in got.bodies[0]["text"]
            assert "<" not in got.bodies[0]["text"]
            [row] = (await house.get("/v1/notices"))["items"]
            assert row["to"] == "[hidden]"
            assert "secret" not in house.log.getvalue()


async def test_a_failing_webhook_is_tried_again_then_given_up_and_no_run_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WAITS", (0.0, 0.0, 0.0))
    with hook() as (url, got):
        got.statuses = [503, 429, 200, 500, 500, 500, 307, 404]
        async with serving_notices(tmp_path, url=url) as house:
            for count, (sent, failed) in ((3, (1, 0)), (6, (1, 1)), (7, (1, 2)), (8, (1, 3))):
                run = await house.begin(tool_step("a", "mail"))
                await arrived(got, count)
                await house.approve(run)
                await house.until(run["id"], "done")
                channel = house.server_state.notices.channels["team"]
                await until(lambda: (channel.sent, channel.failed) == (sent, failed))  # noqa: B023
            [row] = (await house.get("/v1/notices"))["items"]
            assert row["error"] == "it answered 404"
            assert '"notice_not_sent"' in house.log.getvalue()
        assert set(got.paths) == {"/hook"}  # no redirection was followed


async def test_a_test_notice_says_at_once_whether_it_arrives(tmp_path: Path) -> None:
    with hook() as (url, got):
        async with serving_notices(tmp_path, url=url, language="zh") as house:
            row = await house.post("/v1/notices/team/test")
            assert (row["sent"], got.bodies[0]["event"]) == (1, "test")
            assert "测试" in got.bodies[0]["text"]
            got.statuses = [500]
            failed = await house.client.post("/v1/notices/team/test", json={})
            assert (failed.status_code, failed.json()["detail"]) == (503, "it answered 500")
            assert (await house.client.post("/v1/notices/x/test", json={})).status_code == 404
            async with house.with_token("looker", "look") as looker:
                assert (await looker.post("/v1/notices/team/test")).status_code == 403


async def test_mail_has_a_subject_of_one_line_and_the_link(tmp_path: Path) -> None:
    got = asyncio.get_running_loop().create_future()

    async def smtp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = ""
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().upper():
            if line.startswith("DATA"):
                writer.write(b"354 go\r\n")
                text = (await reader.readuntil(b"\r\n.\r\n")).decode()
            writer.write(b"221 bye\r\n" if line.startswith("QUIT") else b"250 ok\r\n")
        writer.close()
        # Only now: a test that ends before the sender hangs up leaves its connection open.
        got.set_result(text)

    async with await asyncio.start_server(smtp, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        mail = {"kind": "mail", "host": "127.0.0.1", "port": port, "security": "none"}
        who = {"sender": "plans@example.org", "to": ["ann@example.org"]}
        async with serving_notices(tmp_path, **mail, **who) as house:
            goal = "pay\r\nBcc: evil@example.org"
            await house.post("/v1/runs", {"plan": plan(tool_step("a", "mail"), goal=goal)}, 202)
            async with asyncio.timeout(60):
                text = await got
            head, _, body = text.partition("\r\n\r\n")
            assert "To: ann@example.org" in head
            assert "\nBcc:" not in head
            assert "/#/runs/" in body.replace("=\r\n", "")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"url": "http://hooks.example/x"}, "https://"),
        ({"url": "https://hooks.example/x", "token": "plain"}, "secret:NAME"),
        ({"kind": "slack"}, "needs a url"),
        ({"kind": "mail", "host": "mail.example"}, "host, sender and to"),
    ],
)
def test_settings_that_would_leak_or_cannot_work_are_refused(
    settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValidationError, match=why.replace("{", r"\{")):
        NoticeSettings.model_validate(settings)
