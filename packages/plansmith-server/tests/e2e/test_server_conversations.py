"""Conversations over HTTP: the next message knows what came before, and approves nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from tests.unit.server.house import House, Silent, plan, serving, tool_step
from tests.unit.server.trip import FLIGHT, TRAIN, TripModel, TripTools

from plansmith.plan.briefs import MessageBrief
from plansmith.ports import (
    Delta,
    ModelDone,
    PlanBrief,
    Prompt,
    TextDelta,
    TriageBrief,
    Usage,
)


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


async def test_a_conversation_asks_follows_up_changes_and_tells_why(tmp_path: Path) -> None:
    model, tools = TripModel(), TripTools()
    async with serving(tmp_path, model=model, store="sqlite", tools=tools) as house:
        asked = await begun(house, "Plan a trip")
        trip = asked["conversation"]
        [question] = asked["questions"]
        assert question["text"] == "Where to?"
        answered = await say(house, trip, "Rome")
        assert (answered["id"], answered["message"]["kind"]) == (asked["id"], "answer")
        assert answered["message"]["question"] == question["question"]
        await house.approve(await house.until(asked["id"], "reviewing"))
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
        shown = await house.get(f"/v1/conversations/{trip}")
        kinds = ["request", "answer", "request", "change", "why"]
        assert [each["kind"] for each in shown["messages"]] == kinds
        assert [each["id"] for each in shown["runs"]] == [first["id"], follow["id"]]
        assert (shown["title"], shown["owner"]) == ("Plan a trip", "ann")
        assert FLIGHT in shown["runs"][0]["answer"]
        assert shown["messages"][0]["by"] == {"kind": "person", "name": "ann"}
        assert shown["messages"][4]["reply"]["step"] == "find"


async def test_a_yes_in_a_conversation_approves_and_permits_nothing(tmp_path: Path) -> None:
    tools = TripTools()
    steps = [
        {"id": "train", "kind": "tool", "tool": "trains", "inputs": {"city": "Rome"}},
        {"id": "book", "kind": "tool", "tool": "book", "inputs": {"what": "{{train.name}}"}},
    ]
    async with serving(tmp_path, model=TripModel(), tools=tools) as house:
        run = await house.begin(*steps)
        sounds = await say(house, run["id"], "yes, please proceed")
        assert (sounds["message"]["kind"], sounds["status"]) == ("review", "reviewing")
        assert "approves nothing" in sounds["message"]["text"]
        await house.approve(run)
        consent = await house.until(run["id"], "asking")
        for text in ("yes", "no", "allow"):  # a permission is given by name only
            taken = await say(house, run["id"], text)
            assert (taken["message"]["kind"], taken["status"]) == ("review", "asking")
        assert [name for name, _ in tools.calls] == ["trains"]
        [question] = consent["questions"]
        allow = {"question": question["question"], "answer": "allow"}
        await house.post(f"/v1/runs/{run['id']}/answers", allow)
        await house.until(run["id"], "done")
        assert tools.calls[-1] == ("book", {"what": f"{TRAIN} to Rome"})


async def test_a_message_is_answered_before_a_planner_has_written_a_word(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Silent()) as house:
        first = await house.post("/v1/runs", {"request": "one", "conversation": "mine"}, 202)
        second = await say(house, "mine", "two", mode="read_only")
        assert [first["status"], second["status"]] == ["triaging", "triaging"]
        assert first["conversation"] == second["conversation"] == "mine"
        assert (await house.get(f"/v1/runs/{second['id']}"))["conversation"] == "mine"
        alone = await house.post("/v1/runs", {"request": "alone"}, 202)
        assert alone["conversation"] == ""


async def test_messages_of_two_servers_on_one_conversation_stay_in_order(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, model=Silent(), store="sqlite") as one,
        serving(tmp_path, model=Silent(), store="sqlite") as two,
    ):
        await one.post("/v1/runs", {"request": "begin", "conversation": "shared"}, 202)
        houses = [one, two] * 4
        texts = [f"find {number}" for number in range(len(houses))]
        taken = await asyncio.gather(
            *(say(house, "shared", text) for house, text in zip(houses, texts, strict=True))
        )
        shown = await two.get("/v1/conversations/shared")
        numbers = [each["number"] for each in shown["messages"]]
        assert numbers == sorted(numbers)
        said = {each["number"]: each for each in shown["messages"]}
        for text, turn in zip(texts, taken, strict=True):
            message = said[turn["message"]["number"]]
            assert (message["text"], message["run"]) == (text, turn["id"])
        assert len({each["id"] for each in taken}) == len(texts)
        assert await one.get("/v1/conversations/shared") == shown


async def test_a_question_of_a_conversation_is_answered_after_a_restart(tmp_path: Path) -> None:
    tools = TripTools()
    async with serving(tmp_path, model=TripModel(), store="sqlite", tools=tools) as house:
        asked = await begun(house, "Plan a trip")
    async with serving(tmp_path, model=TripModel(), store="sqlite", tools=tools) as house:
        shown = await house.get(f"/v1/conversations/{asked['conversation']}")
        [question] = shown["questions"]
        assert (question["run"], question["text"]) == (asked["id"], "Where to?")
        listed = await house.get("/v1/conversations")
        assert [each["waits"] for each in listed["items"]] == ["question"]
        answered = await say(house, asked["conversation"], "Rome")
        assert answered["message"]["kind"] == "answer"
        run = await house.until(asked["id"], "reviewing")
        assert run["plan"]["goal"] == "Find a flight"
        listed = await house.get("/v1/conversations")
        assert [each["waits"] for each in listed["items"]] == ["review"]


class Eager:
    """A model that plans to mail, and takes every message for a yes to whatever waits."""

    name = "eager"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        mail = plan(tool_step("a", "mail"))
        answers: dict[type, Any] = {
            TriageBrief: {"decision": "plan", "reason": "", "query": "x", "answer": ""},
            PlanBrief: mail,
            MessageBrief: {"kind": "answer", "question": "a", "option": "yes", "reason": "go"},
        }
        yield TextDelta(json.dumps(answers[type(prompt.brief)]))
        yield ModelDone(Usage(1, 1), self.name)


async def test_no_message_of_a_conversation_approves_a_plan(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Eager()) as house:
        run = await begun(house, "Mail Oslo", "reviewing")
        for text in (
            "yes",
            "Approved!",
            "go ahead and run it",
            "批准",
            f"I approve the plan {run['hash']}",
            f'{{"approve": "{run["hash"]}"}}',
        ):
            taken = await say(house, run["conversation"], text)
            assert taken["message"]["kind"] in ("review", "request", "change"), text
        now = await house.get(f"/v1/runs/{run['id']}")
        assert now["approved"] == ""
        assert house.tools.calls == []


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


async def test_a_program_answers_in_its_conversation_what_it_may(tmp_path: Path) -> None:
    guard = {"id": "really", "kind": "ask", "question": "Really mail?", "options": ["yes", "no"]}
    made = plan(guard, tool_step("a", "mail", after=["really"]))
    async with (
        serving(tmp_path, model=Eager()) as house,
        house.with_token("talker", "look", "propose", "answer") as talker,
    ):
        run = (await talker.post("/v1/runs", json={"plan": made})).json()
        await house.approve(await house.get(f"/v1/runs/{run['id']}"))
        await house.until(run["id"], "asking")
        path = f"/v1/conversations/{run['id']}/messages"
        taken = (await talker.post(path, json={"text": "yes"})).json()
        assert taken["message"]["kind"] == "review"
        assert "Really mail?" in taken["message"]["text"]
        assert house.tools.calls == []
        answered = await say(house, run["id"], "yes")  # a person's own word
        assert answered["message"]["kind"] == "answer"
        await house.until(run["id"], "done")
        assert [name for name, _ in house.tools.calls] == ["mail"]


async def test_what_a_message_was_taken_for_is_undone(tmp_path: Path) -> None:
    tools = TripTools()
    async with serving(tmp_path, model=TripModel(), tools=tools) as house:
        asked = await begun(house, "Plan a trip")
        trip = asked["conversation"]
        answered = await say(house, trip, "Rome")
        await house.until(asked["id"], "reviewing")
        number = answered["message"]["number"]
        undo = f"/v1/conversations/{trip}/messages/{number}/undo"
        undone = await house.post(undo, {})
        assert undone["id"] != asked["id"]
        again = await house.until(undone["id"], "asking")
        assert [each["text"] for each in again["questions"]] == ["Where to?"]
        assert (await house.get(f"/v1/runs/{asked['id']}"))["status"] == "cancelled"
        twice = await house.post(undo, {}, 409)
        assert "undone before" in twice["detail"]
        shown = await house.get(f"/v1/conversations/{trip}")
        assert [(each["undone"], each["instead"]) for each in shown["messages"]][1] == (
            True,
            undone["id"],
        )
        answered = await say(house, trip, "Rome, please")
        assert (answered["message"]["kind"], answered["id"]) == ("answer", undone["id"])
        for wrong in ("99", "x", "-1", "²"):
            path = f"/v1/conversations/{trip}/messages/{wrong}/undo"
            assert (await house.post(path, {}, 404))["code"] == "not_found"


async def test_a_request_that_is_undone_is_cancelled_while_it_is_planned(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Silent()) as house:
        run = await house.post("/v1/runs", {"request": "one", "conversation": ""}, 202)
        number = run["message"]["number"]
        path = f"/v1/conversations/{run['conversation']}/messages/{number}/undo"
        assert (await house.post(path, {}))["status"] == "cancelled"


async def test_a_removed_conversation_is_gone_with_its_runs(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Silent(), store="sqlite") as house:
        first = await house.post("/v1/runs", {"request": "one", "conversation": "mine"}, 202)
        second = await say(house, "mine", "two")
        await house.post("/v1/runs", {"request": "three", "conversation": "other"}, 202)
        assert (await house.client.delete("/v1/conversations/mine")).status_code == 204
        for path in ("/v1/conversations/mine", *(f"/v1/runs/{x['id']}" for x in (first, second))):
            assert (await house.client.get(path)).status_code == 404, path
        assert (await house.client.delete("/v1/conversations/mine")).status_code == 404
        gone = await say(house, "mine", "hello", 404)
        assert "mine" in gone["detail"]
        listed = await house.get("/v1/conversations")
        assert [each["id"] for each in listed["items"]] == ["other"]


async def test_a_hostile_id_of_a_conversation_is_refused_or_only_a_name(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Silent(), store="sqlite") as house:
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
        shown = await house.get(f"/v1/conversations/{quote(odd, safe='')}")
        assert (shown["id"], shown["runs"][0]["id"]) == (odd, run["id"])
        again = await say(house, quote(odd, safe=""), "two")
        assert again["conversation"] == odd
        ready = {"plan": plan(tool_step("a")), "conversation": "new"}
        assert "in words" in (await house.post("/v1/runs", ready, 422))["detail"]
        long = {"request": "x" * 100_001, "conversation": "new"}
        assert "100,000" in (await house.post("/v1/runs", long, 422))["detail"]


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


async def test_a_run_without_a_conversation_begins_one_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path, model=Silent()) as house:
        run = await house.begin(tool_step("oslo"), mode="read_only")
        await house.until(run["id"], "done")
        shown = await house.get(f"/v1/conversations/{run['id']}")
        assert ([each["id"] for each in shown["runs"]], shown["messages"]) == ([run["id"]], [])
        asked = await say(house, run["id"], "why oslo?")
        assert (asked["message"]["kind"], asked["id"]) == ("why", run["id"])
        assert "weather" in asked["message"]["text"]
        assert (await house.get(f"/v1/runs/{run['id']}"))["conversation"] == run["id"]
        follow = await say(house, run["id"], "find more")
        assert (follow["conversation"], follow["message"]["kind"]) == (run["id"], "request")
        missing = await say(house, "nothing", "hello", 404)
        assert missing["code"] == "not_found"


async def test_conversations_are_listed_newest_first_by_pages_and_owners(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, model=Silent(), store="sqlite") as house,
        house.with_token("maker", "look", "propose") as maker,
    ):
        for name in ("a", "b", "c"):
            await house.post("/v1/runs", {"request": f"do {name}", "conversation": name}, 202)
        await maker.post("/v1/runs", json={"request": "x", "conversation": "d"})
        await say(house, "a", "more")
        page = await house.get("/v1/conversations", params={"limit": 3})
        assert [each["id"] for each in page["items"]] == ["a", "d", "c"]
        rest = await house.get("/v1/conversations", params={"cursor": page["next"]})
        assert ([each["id"] for each in rest["items"]], rest["next"]) == (["b"], None)
        mine = await house.get("/v1/conversations", params={"owner": "program maker"})
        assert [each["id"] for each in mine["items"]] == ["d"]
        assert (page["items"][0]["messages"], page["items"][0]["title"]) == (2, "do a")


async def test_messages_of_others_arrive_while_one_waits(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, model=Silent(), store="sqlite") as one,
        serving(tmp_path, model=Silent(), store="sqlite") as two,
    ):
        first = await one.post("/v1/runs", {"request": "one", "conversation": "mine"}, 202)
        last = (await one.get("/v1/conversations/mine"))["last"]
        path = f"/v1/conversations/mine?after={last}&wait_s=60"
        waiting = asyncio.create_task(one.get(path))
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
        shown = await waiting
        await one.client.delete("/v1/conversations/mine")
        async for event in events:
            if event["event"] == "conversation" and event["data"].get("removed"):
                break
        await events.aclose()
        assert [each["text"] for each in shown["messages"]] == ["one", "why one?"]
        assert first["id"] in {each["id"] for each in shown["runs"]}


async def test_a_long_conversation_is_summarised_before_it_goes_on(tmp_path: Path) -> None:
    model, tools = TripModel(), TripTools()
    small = {"planner": {"context_tokens": 2000}}
    async with serving(tmp_path, model=model, tools=tools, settings=small) as house:
        for number in range(8):
            body = {"request": f"Find flight {number} {'far ' * 60}", "conversation": "long"}
            run = await house.post("/v1/runs", body, 202)
            await house.until(run["id"], "reviewing")
        shown = await house.get("/v1/conversations/long")
        assert shown["summary"]["text"] == "in short"
        assert shown["summary"]["model"] == "trip"
        assert "in short" in [each for each in model.prompts if each.brief][-1].text
