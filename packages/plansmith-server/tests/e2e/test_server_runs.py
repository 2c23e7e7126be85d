"""The HTTP API over real sockets: a request becomes a plan, a run and a report."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from urllib.parse import quote

import httpx
from tests.unit.server.house import House, Silent, plan, serving, tool_step

from plansmith import Plan
from plansmith.testing import Answer, ScriptedModel

BAD_BODIES = [
    (b"{", 400, "unreadable_json"),
    (b'{"request": NaN}', 400, "unreadable_json"),
    (b'{"request": "\\ud800"}', 422, "invalid_input"),
    (b"{}", 422, "invalid_input"),
    (b'{"request": "x", "locale": "klingon"}', 422, "invalid_input"),
    (b'{"plan": {"steps": [{}]}}', 422, "invalid_plan"),
    (b"[" * 5000, 400, "unreadable_json"),
    (b'{"request": 1' + b"0" * 5000 + b"}", 400, "unreadable_json"),
]

PLAN = plan(tool_step("oslo"), goal="Weather in Oslo")
DECIDED = {"decision": "plan", "reason": "", "query": "the weather in Oslo", "answer": ""}


async def test_a_request_is_planned_seen_first_changed_in_words_and_run(tmp_path: Path) -> None:
    other = plan(tool_step("oslo"), tool_step("rome", inputs={"city": "Rome"}))
    model = ScriptedModel(DECIDED, PLAN, Answer(other, expects="also Rome"))
    async with serving(tmp_path, model=model) as house:
        run = await house.post("/v1/runs", {"request": "the weather in Oslo"}, 202)
        assert (run["status"], run["interrupted"]) == ("triaging", False)
        run = await house.until(run["id"], "reviewing")
        assert run["review"] == {
            "asked": True,
            "hash": run["hash"],
            "reasons": ["You wanted to see the plan first"],
        }
        assert run["effects"]["read"] == 1
        assert run["origins"] == {"oslo": {"inputs.city": "request"}}
        assert house.tools.calls == []  # nothing runs before the plan was seen
        view = await house.post(f"/v1/runs/{run['id']}/decision", {"changes": "also Rome"})
        assert view["rejections"] == 1
        run = await house.until(run["id"], "reviewing")
        assert [step["id"] for step in run["plan"]["steps"]] == ["oslo", "rome"]
        assert run["origins"]["rome"]["inputs.city"] == "request"  # it is in what was asked
        await house.approve(run)
        run = await house.until(run["id"], "done")
        assert run["steps"]["oslo"]["result"] == {"tool": "weather", "city": "Oslo"}
        step = await house.get(f"/v1/runs/{run['id']}/steps/oslo")
        assert step["resolved_inputs"] == run["steps"]["oslo"]["inputs"] == {"city": "Oslo"}
        assert step["exchanges"][-1]["model"] == "scripted"
        assert run["report"]


async def test_nothing_acts_before_the_approval_of_exactly_this_plan(house: House) -> None:
    run = await house.begin(tool_step("a", "mail"))
    old = run["hash"]
    changed = plan(tool_step("a", "mail", inputs={"city": "Rome"}))
    path = f"/v1/runs/{run['id']}"
    edited = await house.client.put(
        f"{path}/plan", json={"plan": changed}, headers={"If-Match": f'"{old}"'}
    )
    assert edited.status_code == 200
    new = edited.json()["hash"]
    assert edited.json()["origins"]["a"]["inputs.city"] == "person"
    refused = await house.post(f"{path}/decision", {"approve": old}, 409)
    assert refused["code"] == "stale_decision"
    assert new in refused["hint"]
    assert house.tools.calls == []
    await house.post(f"{path}/decision", {"approve": new})
    await house.until(run["id"], "done")
    assert house.tools.calls == [("mail", {"city": "Rome"})]
    assert (await house.post(f"{path}/decision", {"approve": new}, 409))["code"] == "stale_decision"
    house.tools.calls.clear()
    run = await house.begin(tool_step("a"), mode="read_only")
    assert (await house.until(run["id"], "done"))["approved"] == ""
    run = await house.begin(tool_step("a", "mail"), mode="read_only")
    assert (await house.get(f"/v1/runs/{run['id']}"))["status"] == "reviewing"
    assert [name for name, _ in house.tools.calls] == ["weather"]
    made = await house.server_state.smith.submit(Plan.model_validate(plan(tool_step("a"))))
    run = await house.get(f"/v1/runs/{made.id}")
    assert (run["status"], run["review"]["asked"]) == ("planning", True)
    await house.approve(run)
    await house.until(made.id, "done")


async def test_of_two_clients_that_decide_at_once_one_wins(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        for _ in range(5):
            run = await house.begin(tool_step("a", "mail"))
            path = f"/v1/runs/{run['id']}/decision"
            answers = await asyncio.gather(
                house.client.post(path, json={"approve": run["hash"]}),
                house.client.post(path, json={"reject": True}),
                house.client.post(path, json={"approve": run["hash"]}),
            )
            assert sorted(each.status_code for each in answers) == [200, 409, 409]
            await house.until(run["id"], "done", "cancelled")


async def test_an_edit_of_a_plan_that_changed_meanwhile_is_refused(house: House) -> None:
    run = await house.begin(tool_step("a", "mail"))
    path = f"/v1/runs/{run['id']}/plan"
    current = await house.client.get(path)
    assert current.headers["etag"] == f'"{run["hash"]}"'
    body = {"plan": plan(tool_step("a", "mail", inputs={"city": "Rome"}))}
    assert (await house.client.put(path, json=body)).status_code == 428
    match = {"If-Match": current.headers["etag"]}
    assert (await house.client.put(path, json=body, headers=match)).status_code == 200
    assert (await house.client.put(path, json=body, headers=match)).status_code == 412
    broken = {"plan": plan(tool_step("a", "no_such_tool"))}
    now = {"If-Match": (await house.client.get(path)).headers["etag"]}
    refused = await house.client.put(path, json=broken, headers=now)
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["code"] == "PS101"
    assert (await house.post(f"{path}/check", broken))["problems"][0]["name"] == "unknown-tool"
    assert (await house.post(f"/v1/runs/{run['id']}/undo"))["hash"] == run["hash"]
    plans = await house.get(f"/v1/runs/{run['id']}/plans")
    assert [each["origin"] for each in plans] == ["submitted", "person", "person"]
    diff = await house.get(f"/v1/runs/{run['id']}/diff", params={"from": 1, "to": 2})
    [change] = [each for each in diff["changes"] if each["kind"] == "changed"]
    assert change["step"] == "a"
    assert change["fields"][0]["after"] == "Rome"


async def test_a_question_about_the_request_is_answered_and_then_planned(tmp_path: Path) -> None:
    asks = {"decision": "ask", "reason": "", "query": "", "answer": "Which city?"}
    model = ScriptedModel(asks, Answer(DECIDED, expects="You decide"), PLAN)
    async with serving(tmp_path, model=model) as house:
        run = await house.post("/v1/runs", {"request": "the weather"}, 202)
        run = await house.until(run["id"], "asking")
        [question] = run["questions"]
        assert question["text"] == "Which city?"
        inbox = await house.get("/v1/inbox")
        assert [each["kind"] for each in inbox["items"]] == ["question"]
        path = f"/v1/runs/{run['id']}/answers"
        await house.post(path, {"question": question["question"], "you_decide": True})
        await house.until(run["id"], "reviewing")
        again = await house.post(path, {"question": question["question"], "answer": "x"}, 409)
        assert again["code"] == "stale_decision"
        ask = {"id": "which", "kind": "ask", "question": "Which?", "options": ["Oslo", "Rome"]}
        run = await house.begin(ask, tool_step("a", inputs={"city": "{{which}}"}))
        await house.approve(run)
        run = await house.until(run["id"], "asking")
        path = f"/v1/runs/{run['id']}/answers"
        name = run["questions"][0]["question"]
        left = await house.post(path, {"question": name, "you_decide": True}, 409)
        assert "only you" in left["detail"]
        await house.post(path, {"question": name, "answer": "Paris"}, 409)
        await house.post(path, {"question": name, "answer": "Rome"})
        run = await house.until(run["id"], "done")
        assert run["steps"]["a"]["inputs"] == {"city": "Rome"}


async def test_a_run_is_paused_resumed_and_cancelled(house: House) -> None:
    run = await house.begin(tool_step("a", "slow"), tool_step("b", after=["a"]))
    path = f"/v1/runs/{run['id']}"
    await house.approve(run)
    await house.tools.began["slow"].wait()
    run = await house.post(f"{path}/pause", {"reason": "lunch"})
    assert (run["status"], run["steps"]["a"]["status"]) == ("paused", "running")
    house.tools.gate.set()
    while run["steps"]["a"]["status"] == "running":
        await house.server_state.smith.store.wait(run["id"], after=run["last"])
        run = await house.get(path)
    assert run["steps"]["b"]["status"] in ("ready", "waiting")
    await house.post(f"{path}/pause", status=409)
    await house.post(f"{path}/resume")
    await house.until(run["id"], "done")
    run = await house.begin(tool_step("c", "mail"))
    await house.post(f"/v1/runs/{run['id']}/cancel")
    assert (await house.get(f"/v1/runs/{run['id']}"))["status"] == "cancelled"
    await house.post(f"/v1/runs/{run['id']}/cancel", status=409)


async def test_planning_nobody_wants_any_more_is_stopped(tmp_path: Path) -> None:
    model = Silent()
    async with serving(tmp_path, model=model) as house:
        run = await house.post("/v1/runs", {"request": "anything"}, 202)
        await model.began.wait()
        await house.post(f"/v1/runs/{run['id']}/cancel")
        assert (await house.get(f"/v1/runs/{run['id']}"))["status"] == "cancelled"
        assert house.server_state.background.busy == 0


async def test_a_failed_run_is_repeated_from_where_it_broke(house: House) -> None:
    run = await house.begin(tool_step("a"), tool_step("b", "fail", after=["a"]))
    await house.approve(run)
    run = await house.until(run["id"], "partly_done")
    assert run["continues"] == {"done": 1, "total": 2}
    step = await house.get(f"/v1/runs/{run['id']}/steps/b")
    assert [each["error"] for each in step["attempts"]] == ["it rains"]
    assert (await house.client.get(f"/v1/runs/{run['id']}/steps/zz")).status_code == 404
    again = await house.post(f"/v1/runs/{run['id']}/retry", status=202)
    assert again["id"] != run["id"]
    assert again["steps"]["a"]["status"] == "done"
    assert again["steps"]["a"]["reused_from"] == run["id"]
    assert again["steps"]["a"]["finished_at"] == run["steps"]["a"]["finished_at"]
    changed = plan(tool_step("a"), tool_step("b", after=["a"]))
    mended = await house.post(f"/v1/runs/{run['id']}/retry", {"plan": changed}, 202)
    await house.approve(mended)
    await house.until(mended["id"], "done")
    assert [name for name, _ in house.tools.calls].count("fail") == 1
    house.tools.calls.clear()
    run = await house.finish(tool_step("a"), tool_step("m", "mail", after=["a"]))
    assert run["continues"] is None
    refused = await house.client.post(f"/v1/runs/{run['id']}/retry", json={})
    assert refused.status_code == 409
    assert "every step is done" in refused.text


async def test_a_run_is_reported_in_three_forms_and_kept_as_a_template(house: House) -> None:
    run = await house.begin(tool_step("a", inputs={"city": "Oslo", "unit": "celsius"}))
    path = f"/v1/runs/{run['id']}/report"
    assert (await house.client.get(path)).status_code == 409
    await house.approve(run)
    await house.until(run["id"], "done")
    assert (await house.client.get(path)).headers["content-type"].startswith("text/markdown")
    html = await house.client.get(path, headers={"Accept": "text/html"})
    assert "default-src 'self'" in html.headers["content-security-policy"]
    assert "'unsafe" not in html.headers["content-security-policy"]
    report = await house.get(path, params={"format": "json"})
    assert (report["run"], report["head"]) == (run["id"], ["Everything was done."])
    # The page asks in the reader's language, whatever that of the run was.
    chinese = {"Accept-Language": "zh-CN", "Accept": "application/json"}
    assert (await house.client.get(path, headers=chinese)).json()["head"] == ["全部完成。"]
    kept = await house.client.get(path, headers={"Accept-Language": "zh"})
    assert "Everything was done." in kept.text
    body = {"name": "weather", "parameters": {"city": ["a.inputs.city"]}}
    assert (await house.post(f"/v1/runs/{run['id']}/template", body, 201))["version"] == 1
    [row] = (await house.get("/v1/templates"))["items"]
    assert row["name"] == "weather"
    use = {"parameters": {"city": "Rome"}}
    run = await house.post("/v1/templates/weather/runs", use, 202)
    assert run["plan"]["steps"][0]["inputs"] == {"city": "Rome", "unit": "celsius"}
    origins = {"a": {"inputs.city": "parameter", "inputs.unit": "template"}}
    assert run["origins"] == origins
    assert run["status"] == "reviewing"
    await house.approve(run)
    await house.until(run["id"], "done")
    assert (await house.post(f"/v1/runs/{run['id']}/rerun", status=202))["origins"] == origins
    bad = await house.post("/v1/templates/weather/runs", {"parameters": {"x": 1}}, 422)
    assert bad["problems"]
    assert (await house.client.delete("/v1/templates/weather")).status_code == 204
    assert (await house.client.get("/v1/templates/weather")).status_code == 404
    new = {"name": "other", "plan": plan(tool_step("a"))}
    assert (await house.post("/v1/templates", new, 201))["goal"] == "a goal"


async def test_runs_are_listed_page_by_page_and_found_by_words_and_status(house: House) -> None:
    made = [
        (await house.begin(tool_step("a", "mail"), request=f"request {number}"))["id"]
        for number in range(5)
    ]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await house.get("/v1/runs", params={"limit": 2, "cursor": cursor})
        seen += [each["id"] for each in page["items"]]
        cursor = page["next"]
    assert seen == made[::-1]
    await house.post(f"/v1/runs/{made[0]}/cancel")
    found = await house.get("/v1/runs", params={"status": "open"})
    assert len(found["items"]) == 4
    found = await house.get("/v1/runs", params={"q": "REQUEST 3"})
    assert [each["id"] for each in found["items"]] == [made[3]]
    for where in ("runs", "conversations"):
        assert (await house.client.get(f"/v1/{where}?cursor=zzz")).status_code == 404
    refused = await house.client.get("/v1/runs?status=zz")
    assert (refused.status_code, "use open, " in refused.json()["hint"]) == (422, True)
    assert (await house.client.delete(f"/v1/runs/{made[3]}")).status_code == 204
    assert (await house.client.get(f"/v1/runs/{made[3]}")).status_code == 404
    assert len((await house.get("/v1/runs"))["items"]) == 4


async def test_the_same_key_is_done_once_and_another_body_is_refused(house: House) -> None:
    body = {"plan": plan(tool_step("a", "mail"))}
    key = {"Idempotency-Key": "k1"}
    both = await asyncio.gather(
        *(house.client.post("/v1/runs", json=body, headers=key) for _ in range(3))
    )
    assert {each.status_code for each in both} == {202}
    assert len({each.json()["id"] for each in both}) == 1
    assert len((await house.get("/v1/runs"))["items"]) == 1
    other = {"plan": plan(tool_step("b", "mail"))}
    refused = await house.client.post("/v1/runs", json=other, headers=key)
    assert refused.status_code == 422
    assert refused.json()["code"] == "key_reused"
    # What failed may be tried again.
    failing = {"Idempotency-Key": "k2"}
    bad = await house.client.post("/v1/runs", json={"plan": plan()}, headers=failing)
    assert bad.status_code == 422
    assert (await house.client.post("/v1/runs", json=body, headers=failing)).status_code == 202


async def test_what_runs_take_and_what_is_set_is_told_without_secrets(tmp_path: Path) -> None:
    settings = {"models": {"plan": {"model": "rules", "api_key_env": "MY_KEY"}}}
    async with serving(tmp_path, settings=settings) as house:
        await house.finish(tool_step("a"))
        [row] = (await house.get("/v1/runs"))["items"]
        assert row["waiting_seconds"] > 0
        usage = await house.get("/v1/metrics")
        assert usage["runs"] == {"done": 1}
        assert usage["by_day"][0]["runs"] == 1
        rows = {each["name"]: each for each in (await house.get("/v1/settings"))["items"]}
        assert rows["run.width"]["source"] == "default"
        assert rows["models.plan.model"] == {
            "name": "models.plan.model",
            "value": "rules",
            "source": "flag",
        }
        assert rows["models.plan.api_key_env"]["value"] == "[hidden]"
        assert (await house.get("/v1/model"))["chosen"] == "search"
        tools = await house.get("/v1/tools")
        assert {each["name"] for each in tools["items"]} == {"weather", "slow", "fail", "mail"}
        found = await house.get("/v1/tools", params={"q": "weather of a city"})
        assert found["items"][0]["name"] == "weather"
        assert (await house.get("/v1/agents"))["items"] == []
        text = (await house.client.get("/metrics")).text
        count = 'plansmith_http_requests_total{method="GET",route="/v1/metrics",status="200"} 1'
        assert count in text
        assert (await house.get("/healthz"))["status"] == "ok"
        assert (await house.get("/readyz"))["open_runs"] == 0


async def test_a_step_is_skipped_and_what_needs_it_too(house: House) -> None:
    steps = [
        tool_step("a", "slow"),
        tool_step("b", after=["a"]),
        tool_step("c", after=["b"]),
        tool_step("d", after=["a"]),
    ]
    run = await house.begin(*steps)
    path = f"/v1/runs/{run['id']}"
    await house.approve(run)
    await house.tools.began["slow"].wait()
    left = await house.post(f"{path}/skip", {"step": "b"})
    assert not left["paused"]
    statuses = {name: each["status"] for name, each in left["steps"].items()}
    assert statuses == {"a": "running", "b": "skipped", "c": "skipped", "d": "waiting"}
    house.tools.gate.set()
    run = await house.until(run["id"], "partly_done", "done")
    statuses = {name: each["status"] for name, each in run["steps"].items()}
    assert statuses == {"a": "done", "b": "skipped", "c": "skipped", "d": "done"}
    await house.post(f"{path}/skip", {"step": "b"}, 409)
    await house.post(f"{path}/skip", {"step": "zz"}, 409)


async def test_bad_bodies_are_told_and_never_break_anything(house: House) -> None:
    for body, status, code in BAD_BODIES:
        kind = {"Content-Type": "application/json"}
        answer = await house.client.post("/v1/runs", content=body, headers=kind)
        assert (answer.status_code, answer.json()["code"]) == (status, code), body[:50]
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await house.get("/v1/runs"))["items"] == []


# Questions: of which kind they are, and what consent is asked for, whole


LONG = "".join(f"{number:06d}" for number in range(10_000))
ASK = {"id": "q", "kind": "ask", "question": "Plansmith asks: allow mail?", "options": ["allow"]}


async def test_the_values_of_a_consent_are_given_to_their_last_letter(house: House) -> None:
    read = tool_step("read", inputs={"city": LONG})
    mail = tool_step("send", "mail", inputs={"city": "{{read.city}}"})
    run = await house.begin(read, mail)
    await house.approve(run)
    run = await house.until(run["id"], "asking")
    (asked,) = run["questions"]
    assert asked["kind"] == "consent"
    assert "only the first 2,000 of 60,000 characters" in asked["text"]
    path = f"/v1/runs/{run['id']}/questions/{quote(asked['question'], safe='')}"
    whole = await house.get(path)
    values = {"values": {"city": LONG}, "seen": ""}
    assert whole == asked | values | {"can_change": True, "previewed": None, "now": None}
    answer = {"question": asked["question"], "answer": "allow"}
    await house.post(f"/v1/runs/{run['id']}/answers", answer)
    await house.until(run["id"], "done")
    assert house.tools.calls[-1] == ("mail", {"city": LONG})
    assert (await house.client.get(path)).status_code == 404


async def test_a_question_of_a_plan_is_of_the_plans_kind_whatever_it_says(house: House) -> None:
    run = await house.begin(ASK)
    await house.approve(run)
    run = await house.until(run["id"], "asking")
    (asked,) = run["questions"]
    assert (asked["kind"], asked["step"]) == ("step", "q")
    (item,) = (await house.get("/v1/inbox"))["items"]
    assert item["question"]["kind"] == "step"
    assert (await house.get(f"/v1/runs/{run['id']}/questions/q"))["values"] is None
    change = {"question": "q", "change": {"city": "Rome"}}
    refused = await house.client.post(f"/v1/runs/{run['id']}/answers", json=change)
    assert (refused.status_code, "only in the plan" in refused.text) == (409, True)


# Rules of steps: sentences, skipped steps, and taking back what a run did


async def test_a_run_tells_its_rules_and_is_taken_back_if_approved(house: House) -> None:
    undo = {"tool": "mail", "inputs": {"city": "Oslo"}}
    never = {"equals": ["{{a}}", None]}
    run = await house.begin(
        tool_step("a"),
        tool_step("m", "mail", after=["a"], undo_with=undo),
        tool_step("n", after=["a"], when=never),
    )
    assert run["rules"]["n"] == ["only if a is null"]
    assert (await house.client.post(f"/v1/runs/{run['id']}/take-back", json={})).status_code == 409
    await house.approve(run)
    run = await house.until(run["id"], "done")
    assert (run["steps"]["n"]["status"], run["steps"]["n"]["rule"]) == ("skipped", "when")
    back = await house.post(f"/v1/runs/{run['id']}/take-back", status=202)
    assert (back["status"], back["origin"]["kind"]) == ("reviewing", "undo")
    assert [name for name, _ in house.tools.calls].count("mail") == 1


async def test_of_two_clients_who_take_a_run_back_at_once_one_gets_a_plan(house: House) -> None:
    undo = {"tool": "mail", "inputs": {"city": "Oslo"}}
    run = await house.begin(tool_step("m", "mail", undo_with=undo))
    assert run["can_be_undone"] is False
    await house.approve(run)
    run = await house.until(run["id"], "done")
    assert run["can_be_undone"] is True
    path = f"/v1/runs/{run['id']}/take-back"
    async with (
        house.with_token("first", "propose") as first,
        house.with_token("second", "propose") as second,
    ):
        answers = await asyncio.gather(*(each.post(path, json={}) for each in (first, second)))
        assert sorted(each.status_code for each in answers) == [202, 409]
        [made] = [each.json() for each in answers if each.status_code == 202]
    await house.approve(made)
    await house.until(made["id"], "done")
    assert [name for name, _ in house.tools.calls].count("mail") == 2
    assert (await house.client.post(path, json={})).status_code == 409


# What keeps large runs cheap: compressed responses, counts, and only what changed


PACKED = {"Accept-Encoding": "gzip"}


async def raw(house: House, path: str, headers: dict[str, str]) -> tuple[httpx.Response, bytes]:
    """A response, and its body as it came over the wire."""
    async with house.client.stream("GET", path, headers=headers) as response:
        return response, b"".join([part async for part in response.aiter_raw()])


async def test_large_responses_are_compressed_and_streams_are_not(house: House) -> None:
    run = await house.begin(*[tool_step(f"s{number}") for number in range(60)])
    path = f"/v1/runs/{run['id']}"
    packed, body = await raw(house, path, PACKED)
    plain, whole = await raw(house, path, {"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in packed.headers["vary"].lower()
    assert "content-encoding" not in plain.headers
    assert json.loads(gzip.decompress(body)) == json.loads(whole)
    assert len(body) * 5 < len(whole)
    small, counted = await raw(house, "/v1/inbox?count=true", PACKED)
    assert "content-encoding" not in small.headers
    assert json.loads(counted) == {"count": 1}
    # Whoever has no token gets nothing that could be compared.
    async with httpx.AsyncClient(base_url=house.url) as stranger:
        refused = await stranger.get(path, headers=PACKED)
    assert refused.status_code == 401
    assert "content-encoding" not in refused.headers
    for brief in (False, True):
        path = f"/v1/events?brief={str(brief).lower()}"
        async with asyncio.timeout(60), house.client.stream("GET", path, headers=PACKED) as got:
            assert "content-encoding" not in got.headers
            lines = got.aiter_lines()
            data = [await anext(lines) for _ in range(5)][-1]
        snapshot = json.loads(data.removeprefix("data: "))
        assert ("runs" in snapshot) is not brief
        assert snapshot["position"] >= 0


async def test_values_after_an_event_are_those_that_the_whole_run_shows(house: House) -> None:
    run = await house.begin(
        tool_step("a"),
        tool_step("b", after=["a"]),
        tool_step("late", "slow", inputs={"city": "Rome"}, after=["b"]),
    )
    await house.approve(run)
    await house.tools.began["slow"].wait()
    path = f"/v1/runs/{run['id']}"
    before = await house.get(f"{path}/values")
    house.tools.gate.set()
    whole = await house.until(run["id"], "done")
    after = await house.get(f"{path}/values?after={before['last']}")
    assert set(after["steps"]) <= {"late", "b"}
    assert after["steps"]["late"]["result"] == whole["steps"]["late"]["result"]
    assert after["last"] == whole["last"]
    every = await house.get(f"{path}/values")
    for name, values in every["steps"].items():
        state = whole["steps"][name]
        assert values == {field: state[field] for field in values}, name
        assert {"inputs", "result", "result_hash", "result_size", "clipped"} == set(values)
    assert await house.get(f"{path}/values?after=9999") == {"last": 9999, "steps": {}}
    assert (await house.client.get("/v1/runs/none/values")).status_code == 404


# Schedules


DAILY = {"daily_at": "07:15", "timezone": "Europe/Oslo"}


async def test_a_schedule_is_made_only_with_the_hash_of_its_plan(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        body = {"timing": DAILY, "plan": plan(tool_step("a")), "name": "weather"}
        refused = await house.post("/v1/schedules", body, 409)
        digest = refused["hash"]
        assert digest in refused["hint"]
        made = await house.post("/v1/schedules", {**body, "approve": digest}, 201)
        assert made["approved_by"] == "ann"
        assert len(made["fires"]) == 5
        assert made["fires"][0].endswith("Z")
        path = f"/v1/schedules/{made['id']}"
        [listed] = (await house.get("/v1/schedules"))["items"]
        assert listed["words"] == "daily at 07:15 Europe/Oslo"
        paused = await house.post(f"{path}/pause", {"reason": "holidays"})
        assert (paused["state"], paused["reason"], paused["fires"]) == ("paused", "holidays", [])
        assert (await house.post(f"{path}/resume"))["state"] == "active"
        await house.post(f"{path}/resume", status=409)
        assert (await house.post(f"{path}/pause"))["reason"] == "paused by ann"
        await house.post(f"{path}/resume")
        changed = await house.client.patch(path, json={"overlap": "queue"})
        assert changed.json()["overlap"] == "queue"
        fire = await house.post(f"{path}/run-now", status=202)
        assert (await house.until(fire["run"], "done"))["origin"]["kind"] == "schedule"
        assert house.tools.calls == [("weather", {"city": "Oslo"})]
        assert [each["run"] for each in (await house.get(f"{path}/history"))["items"]] == [
            fire["run"]
        ]
        assert (await house.client.delete(path)).status_code == 204
        assert (await house.client.get(path)).status_code == 404


async def test_a_schedule_that_gave_up_waits_in_the_inbox(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        body = {"timing": DAILY, "plan": plan(tool_step("a", "fail")), "max_failures": 1}
        digest = (await house.post("/v1/schedules", body, 409))["hash"]
        made = await house.post("/v1/schedules", {**body, "approve": digest}, 201)
        fire = await house.post(f"/v1/schedules/{made['id']}/run-now", status=202)
        await house.until(fire["run"], "failed")
        await house.server_state.smith.schedules.carried()
        [item] = (await house.get("/v1/inbox"))["items"]
        assert (item["kind"], item["schedule"]) == ("schedule", made["id"])
        assert item["reason"]
