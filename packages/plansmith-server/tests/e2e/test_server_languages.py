"""The server's sentences in the language that a client asks for, over real sockets."""

from __future__ import annotations

from typing import Any

from tests.unit.server.house import House, plan, tool_step

CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}
MAIL = tool_step("m", "mail")


async def test_a_review_and_events_are_told_in_the_language_of_the_reader(house: House) -> None:
    run = await house.begin(MAIL)
    path = f"/v1/runs/{run['id']}"
    assert run["review"]["reasons"] == [
        "Step `m` does something that cannot be undone: it calls `mail`"
    ]
    view = await house.get(path, headers=CHINESE)
    assert view["review"]["reasons"] == ["步骤 `m` 会做一件无法撤销的事：它调用 `mail`"]
    assert view["estimate"]["basis"][-1] == "价格未知"
    items = (await house.get("/v1/inbox", headers=CHINESE))["items"]
    [item] = [each for each in items if each["run"] == run["id"]]
    assert item["review"]["reasons"] == view["review"]["reasons"]
    assert {**view, "review": 0, "estimate": 0} == {
        **await house.get(path),
        "review": 0,
        "estimate": 0,
    }
    run = await house.begin(MAIL)
    await house.post(f"/v1/runs/{run['id']}/decision", {"reject": True})
    run = await house.until(run["id"], "cancelled")
    path = f"/v1/runs/{run['id']}/events"
    reasons = [
        (await house.get(path, headers=headers))["items"][-1]["body"]["reason"]
        for headers in ({}, CHINESE)
    ]
    assert reasons == ["the plan was rejected", "计划被拒绝"]
    stored = (await house.server_state.smith.store.events(run["id"]))[-1].to_json()["body"]
    assert isinstance(stored, dict)
    assert stored["reason"] == {"text": "end.rejected"}
    async for event in house.stream(after=0, lang="zh", run=run["id"]):
        if event["event"] == "run_event" and event["data"]["body"]["type"] == "run_finished":
            assert event["data"]["body"]["reason"] == "计划被拒绝"
            break
    words = '{"text": "end.rejected"}'  # a value is no sentence, whatever it looks like
    run = await house.finish(tool_step("a", inputs={"city": words}))
    view = await house.get(f"/v1/runs/{run['id']}", headers={"Accept-Language": "de, zh-TW;q=0.4"})
    assert view["steps"]["a"]["result"]["city"] == words


async def test_refusals_and_problems_are_told_in_the_language_of_the_reader(house: House) -> None:
    run = (await house.begin(MAIL))["id"]
    await house.post(f"/v1/runs/{run}/decision", {"reject": True})
    asked: list[tuple[str, str, dict[str, Any], str, str]] = [
        ("GET", "/v1/runs/nothing", {}, "there is no run 'nothing'", "没有名为“nothing”的运行"),
        ("POST", f"/v1/runs/{run}/cancel", {}, f"run {run} is over", f"运行 {run} 已经结束"),
        ("PUT", "/v1/runs", {}, "this address has no such method", "此地址不支持该方法"),
    ]
    for method, path, body, english, chinese in asked:
        for headers, wanted in (({}, english), (CHINESE, chinese)):
            answer = await house.client.request(
                method, path, json=None if method == "GET" else body, headers=headers
            )
            problem = answer.json()
            assert problem["detail"] == wanted, problem
            # A program knows it by the code, whatever language it is told in.
            assert problem["code"].isascii()
    body = {"plan": plan(tool_step("a", "weathr"))}
    for headers, wanted, detail in (
        ({}, "there is no tool called 'weathr'", "the plan is not usable: error PS101"),
        (
            CHINESE,
            "没有名为“weathr”的工具",
            "计划不可用：错误 PS101：a.tool：没有名为“weathr”的工具",
        ),
    ):
        answer = await house.client.post("/v1/runs", json=body, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(detail), answer.json()
        assert [each["message"] for each in answer.json()["problems"]] == [wanted]
    bare = {"Authorization": "", **CHINESE}
    answer = await house.client.get("/v1/runs", headers=bare)
    assert answer.status_code == 401
    assert answer.json()["detail"] == "这需要令牌"
