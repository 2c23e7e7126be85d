"""Conversations over HTTP: the next message knows what came before, and approves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from tests.unit.server.house import FLIGHT, House, Silent, TripModel, TripTools, serving, tool_step

from plansmith.testing import MemoryStore
from plansmith_planner.threads.entries import MessageAdded, ThreadOpened
from plansmith_planner.threads.store import ThreadStore


async def begun(house: House, request: str, status: str = "asking", **more: Any) -> Any:
    """A conversation that begins with a request, once its run has the status."""
    run = await house.post("/v1/runs", {"request": request, "conversation": "new", **more}, 202)
    assert run["message"]["kind"] == "request"
    return await house.until(run["id"], status)


async def say(house: House, conversation: str, text: str, status: int = 202, **more: Any) -> Any:
    body = {"text": text, **more}
    return await house.post(f"/v1/conversations/{conversation}/messages", body, status)


async def replanned(house: House, run_id: str) -> Any:
    """A run that has got a second plan."""
    while (run := await house.get(f"/v1/runs/{run_id}"))["revisions"] < 2:
        await house.server_state.smith.store.wait(run_id, after=run["last"])
    return run


async def test_a_conversation_asks_follows_up_changes_and_approves_nothing(tmp_path: Path) -> None:
    model, tools = TripModel(), TripTools()
    async with serving(tmp_path, model=model, store="sqlite", tools=tools) as house:
        asked = await begun(house, "Plan a trip")
        trip = asked["conversation"]
        [question] = asked["questions"]
        assert question["text"] == "Where to?"
        [found] = (await house.get(f"/v1/conversations/{trip}"))["questions"]
        assert (found["run"], found["text"]) == (asked["id"], "Where to?")
        assert (await house.get("/v1/conversations"))["items"][0]["waits"] == "question"
        answered = await say(house, trip, "Rome")
        assert (answered["id"], answered["message"]["kind"]) == (asked["id"], "answer")
        assert answered["message"]["question"] == question["question"]
        waiting = await house.until(asked["id"], "reviewing")
        assert (await house.get("/v1/conversations"))["items"][0]["waits"] == "review"
        sounds = await say(house, trip, "yes, please proceed")
        assert (sounds["message"]["kind"], sounds["status"]) == ("review", "reviewing")
        assert "approves nothing" in sounds["message"]["text"]
        await house.approve(waiting)
        first = await house.until(asked["id"], "done")

        follow = await say(house, trip, "Now book it")
        assert (follow["message"]["kind"], follow["conversation"]) == ("request", trip)
        follow = await house.until(follow["id"], "reviewing")
        [book] = follow["plan"]["steps"]
        assert book["inputs"]["what"]["$from"] == f"run:{first['id']}/find"

        changed = await say(house, trip, "cheaper, please")
        assert (changed["message"]["kind"], changed["id"]) == ("change", follow["id"])
        changed = await replanned(house, follow["id"])
        assert [step["id"] for step in changed["plan"]["steps"]] == ["train", "book"]
        assert [name for name, _ in tools.calls] == ["flights"]  # nobody approved the booking

        why = await say(house, trip, f"why {FLIGHT}?")
        assert (why["message"]["kind"], why["message"]["step"]) == ("why", "find")
        assert (why["id"], FLIGHT in why["message"]["text"]) == (first["id"], True)
        found = await house.get(f"/v1/conversations/{trip}")
        kinds = ["request", "answer", "review", "request", "change", "why"]
        assert [each["kind"] for each in found["messages"]] == kinds
        assert [each["id"] for each in found["runs"]] == [first["id"], follow["id"]]
        assert (found["title"], found["owner"]) == ("Plan a trip", "ann")
        assert FLIGHT in found["runs"][0]["answer"]
        assert found["messages"][0]["by"] == {"kind": "person", "name": "ann"}
        assert found["messages"][5]["reply"]["step"] == "find"


async def test_a_token_does_in_conversations_what_its_scopes_allow(tmp_path: Path) -> None:
    guard = {"id": "really", "kind": "ask", "question": "Really mail?", "options": ["yes", "no"]}
    async with (
        serving(tmp_path, model=Silent()) as house,
        house.with_token("viewer", "look") as viewer,
        house.with_token("maker", "look", "propose") as maker,
        house.with_token("talker", "look", "propose", "answer") as talker,
    ):
        mine = await house.post("/v1/runs", {"request": "one", "conversation": "mine"}, 202)
        there = "/v1/conversations/mine"
        assert (await viewer.get(there)).status_code == 200
        assert (await viewer.post(f"{there}/messages", json={"text": "x"})).status_code == 403
        assert (await maker.delete(there)).status_code == 403
        begins = await maker.post("/v1/runs", json={"request": "x", "conversation": "made"})
        assert begins.status_code == 202
        more = await maker.post("/v1/conversations/made/messages", json={"text": "y"})
        assert (more.status_code, "answer" in more.json()["detail"]) == (403, True)

        for path in (f"{there}/messages", "/v1/conversations/made/messages"):
            refused = await talker.post(path, json={"text": "find more"})
            assert refused.status_code == 409
            assert "somebody else" in refused.json()["detail"]
            assert refused.json()["hint"]
        number = mine["message"]["number"]
        refused = await talker.post(f"{there}/messages/{number}/undo", json={})
        assert refused.status_code == 409
        assert len((await house.get(there))["messages"]) == 1

        acting = await house.begin(guard, tool_step("a", "mail", after=["really"]))
        await house.approve(acting)
        await house.until(acting["id"], "asking")
        path = f"/v1/conversations/{acting['id']}/messages"
        assert (await talker.post(path, json={"text": "yes"})).status_code == 409
        assert house.tools.calls == []


async def test_a_removed_conversation_is_gone_with_its_runs(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Silent(), store="sqlite") as house:
        first = await house.post("/v1/runs", {"request": "one", "conversation": "mine"}, 202)
        second = await say(house, "mine", "two")
        await house.post("/v1/runs", {"request": "three", "conversation": "other"}, 202)
        assert (await house.client.delete("/v1/conversations/mine")).status_code == 204
        for path in ("/v1/conversations/mine", *(f"/v1/runs/{x['id']}" for x in (first, second))):
            assert (await house.client.get(path)).status_code == 404, path
        assert (await house.client.delete("/v1/conversations/mine")).status_code == 404
        assert "mine" in (await say(house, "mine", "hello", 404))["detail"]
        listed = await house.get("/v1/conversations")
        assert [each["id"] for each in listed["items"]] == ["other"]
        for bad in ("x" * 201, "a\nb", "\u0000", "  ", "..", "\u202e", 7, ["a"]):
            body = {"request": "one", "conversation": bad}
            assert (await house.post("/v1/runs", body, 422))["code"] == "invalid_input", bad
        for path in ("%00", "x" * 300, "%0a", "..%2f..%2fetc", "%ff", "a%2fmessages%2f1%2fundo"):
            assert (await house.client.get(f"/v1/conversations/{path}")).status_code == 404, path
            answer = await house.client.post(
                f"/v1/conversations/{path}/messages", json={"text": "x"}
            )
            assert answer.status_code == 404, path
        odd = "'; DROP TABLE runs; -- /messages/1/undo <b>%"
        run = await house.post("/v1/runs", {"request": "one", "conversation": odd}, 202)
        found = await house.get(f"/v1/conversations/{quote(odd, safe='')}")
        assert (found["id"], found["runs"][0]["id"]) == (odd, run["id"])
        assert (await say(house, quote(odd, safe=""), "two"))["conversation"] == odd


async def test_the_list_goes_on_after_a_damaged_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        store = cast("MemoryStore", house.server_state.smith.store)
        for name in ("rome", "oslo"):
            await ThreadStore(store).add(name, ThreadOpened(title=name), MessageAdded(text="Hi"))
        await store.remove_documents("thread_entry", ["oslo 1"])
        assert (await house.get("/v1/conversations?limit=1"))["next"] == "oslo"
        [rome] = (await house.get("/v1/conversations?limit=1&cursor=oslo"))["items"]
        assert rome["id"] == "rome"


async def test_a_message_with_a_key_is_said_once_also_after_a_restart(tmp_path: Path) -> None:
    headers = {"Idempotency-Key": "k1"}
    body = {"request": "one", "conversation": "mine"}
    fresh, new = {"Idempotency-Key": "k2"}, {"request": "one", "conversation": "new"}
    async with serving(tmp_path, model=Silent(), store="sqlite") as house:
        first = await house.post("/v1/runs", body, 202, headers=headers)
        begun = await house.post("/v1/runs", new, 202, headers=fresh)
    async with serving(tmp_path, model=Silent(), store="sqlite") as house:
        known = await house.post("/v1/runs", new, 202, headers=fresh)
        assert (known["id"], known["conversation"]) == (begun["id"], begun["conversation"])
        assert len((await house.get("/v1/conversations"))["items"]) == 2
        again = await house.post("/v1/runs", body, 202, headers=headers)
        assert again["id"] == first["id"]
        assert again["message"]["number"] == first["message"]["number"]
    async with serving(tmp_path, model=Silent(), store="sqlite") as house:
        other = {**body, "request": "two"}
        refused = await house.post("/v1/runs", other, 409, headers=headers)
        assert "key of its own" in refused["hint"]
        assert len((await house.get("/v1/conversations/mine"))["messages"]) == 1


async def test_messages_of_others_arrive_while_one_waits(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, model=Silent(), store="sqlite") as one,
        serving(tmp_path, model=Silent(), store="sqlite") as two,
    ):
        first = await one.post("/v1/runs", {"request": "one", "conversation": "mine"}, 202)
        last = (await one.get("/v1/conversations/mine"))["last"]
        waiting = asyncio.create_task(one.get(f"/v1/conversations/mine?after={last}&wait_s=60"))
        events = cast("AsyncGenerator[dict[str, Any]]", one.stream())
        async for event in events:
            if event["event"] == "conversation":
                assert (event["data"]["id"], event["data"]["last"]) == ("mine", last)
                break
        await say(two, "mine", "why one?")  # of another process: no event of a run tells of it
        async for event in events:
            if event["event"] == "conversation":
                assert event["data"]["last"] > last
                break
        found = await waiting
        await one.client.delete("/v1/conversations/mine")
        async for event in events:
            if event["event"] == "conversation" and event["data"].get("removed"):
                break
        await events.aclose()
        assert [each["text"] for each in found["messages"]] == ["one", "why one?"]
        assert first["id"] in {each["id"] for each in found["runs"]}
