"""The server's sentences in the language that a client asks for, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.house import plan, serving, tool_step

CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}
MAIL = tool_step("m", "mail")


async def test_a_review_is_told_in_the_language_of_the_reader(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        run = await house.begin(MAIL)
        path = f"/v1/runs/{run['id']}"
        assert run["review"]["reasons"] == [
            "Step `m` does something that cannot be undone: it calls `mail`"
        ]
        told = await house.get(path, headers=CHINESE)
        assert told["review"]["reasons"] == ["步骤 `m` 会做一件无法撤销的事：它调用 `mail`"]
        assert told["estimate"]["basis"][-1] == "价格未知"
        [item] = (await house.get("/v1/inbox", headers=CHINESE))["items"]
        assert item["review"]["reasons"] == told["review"]["reasons"]
        assert {**told, "review": 0, "estimate": 0} == {
            **await house.get(path),
            "review": 0,
            "estimate": 0,
        }


async def test_events_are_told_in_the_language_of_the_reader_and_stored_without(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as house:
        run = await house.begin(MAIL)
        await house.post(f"/v1/runs/{run['id']}/decision", {"reject": True})
        run = await house.until(run["id"], "cancelled")
        path = f"/v1/runs/{run['id']}/events"
        ends = [
            (await house.get(path, headers=headers))["items"][-1]["body"]["reason"]
            for headers in ({}, CHINESE)
        ]
        assert ends == ["the plan was rejected", "计划被拒绝"]
        stored = (await house.server_state.smith.store.events(run["id"]))[-1].to_json()["body"]
        assert isinstance(stored, dict)
        assert stored["reason"] == {"code": "end.rejected"}
        async for event in house.stream(after=0, lang="zh", run=run["id"]):
            if event["event"] == "run_event" and event["data"]["body"]["type"] == "run_finished":
                assert event["data"]["body"]["reason"] == "计划被拒绝"
                break


async def test_the_problems_of_a_refused_plan_are_told_in_the_language_of_the_reader(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as house:
        body = {"plan": plan(tool_step("a", "weathr"))}
        for headers, wanted in (
            ({}, "there is no tool called 'weathr'"),
            (CHINESE, "没有名为“weathr”的工具"),
        ):
            answer = await house.client.post("/v1/runs", json=body, headers=headers)
            assert answer.status_code == 422
            assert [each["message"] for each in answer.json()["problems"]] == [wanted]


@pytest.mark.parametrize(
    ("accepted", "chinese"),
    [
        ("zh", True),
        ("de, zh-TW;q=0.4, en;q=0.3", True),
        ("en, zh;q=0.9", False),
        ("zh;q=0.1, en;q=0.2", False),
        ("zh;q=, en;q=x", True),
        ("*", False),
        ("xx" * 5000, False),
        (",;q=;q=1,zh;q=nan", True),
        ("{code}", False),
    ],
)
async def test_whatever_a_client_accepts_it_gets_one_of_our_languages(
    tmp_path: Path, accepted: str, chinese: bool
) -> None:
    async with serving(tmp_path) as house:
        run = await house.begin(MAIL)
        headers = {"Accept-Language": accepted}
        told: dict[str, Any] = await house.get(f"/v1/runs/{run['id']}", headers=headers)
        assert told["review"]["reasons"][0].startswith("步骤" if chinese else "Step")


async def test_what_people_and_tools_wrote_is_never_taken_for_a_sentence(tmp_path: Path) -> None:
    words = '{"code": "end.rejected"}'
    async with serving(tmp_path) as house:
        run = await house.begin(tool_step("a", inputs={"city": words}))
        await house.approve(run)
        run = await house.until(run["id"], "done")
        told = await house.get(f"/v1/runs/{run['id']}", headers=CHINESE)
        assert told["steps"]["a"]["result"]["city"] == words
