"""The A2A server with the real SDK client: tasks are runs, questions are asked, nobody approves."""

from __future__ import annotations

import contextlib
from asyncio import all_tasks
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf import json_format  # type: ignore[import-untyped]
from tests.unit.server.house import FLIGHT, House, TripModel, TripTools, plan, serving, tool_step
from tests.waiting import until

from plansmith.plan.events import Actor
from plansmith.testing import ScriptedModel
from plansmith_server.protocols import a2a

DECIDED = {"decision": "plan", "reason": "", "query": "x", "answer": ""}
ASK = {"id": "which", "kind": "ask", "question": "Which city?", "options": ["Oslo", "Rome"]}


@contextlib.asynccontextmanager
async def connected(house: House, name: str = "helper") -> AsyncIterator[tuple[Client, Any]]:
    headers = {"Authorization": f"Bearer {house.new_token(name, 'a2a')}"}
    async with httpx.AsyncClient(verify=False, headers=headers, timeout=120) as web:
        card = await A2ACardResolver(web, house.url).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=web, streaming=True)).create(card), card


def words(text: str = "", *, data: Any = None, **more: Any) -> SendMessageRequest:
    parts = [Part(text=text)] if text else []
    if data is not None:
        part = Part(media_type="application/json")
        json_format.ParseDict(data, part.data)
        parts.append(part)
    message = Message(role=Role.ROLE_USER, message_id=str(uuid4()), parts=parts, **more)
    return SendMessageRequest(message=message)


async def send(client: Client, request: SendMessageRequest) -> list[Any]:
    return [each async for each in client.send_message(request)]


def states(events: list[Any]) -> list[Any]:
    found = []
    for each in events:
        if each.HasField("task"):
            found.append(each.task.status.state)
        elif each.HasField("status_update"):
            found.append(each.status_update.status.state)
    return found


def task_of(events: list[Any]) -> str:
    return str(next(each.task.id for each in events if each.HasField("task")))


def artifacts(events: list[Any]) -> list[str]:
    return [
        each.artifact_update.artifact.parts[0].text
        for each in events
        if each.HasField("artifact_update")
    ]


async def test_a_task_is_a_run_and_its_report_an_artifact(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, plan(tool_step("a"), goal="Weather"))
    async with serving(tmp_path, model=model) as house, connected(house) as (client, card):
        assert card.skills[0].id == "plan"
        events = await send(client, words("the weather in Oslo"))
        assert states(events)[0] == TaskState.TASK_STATE_SUBMITTED
        assert TaskState.TASK_STATE_WORKING in states(events)
        assert states(events)[-1] == TaskState.TASK_STATE_COMPLETED
        run = await house.get(f"/v1/runs/{task_of(events)}")
        assert run["status"] == "done"
        assert artifacts(events) == [run["report"]]


async def test_questions_are_asked_and_answered_and_journaled_as_a_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a, "_RELEASED_S", 0.01)
    model = ScriptedModel(DECIDED, plan(ASK, tool_step("a", inputs={"city": "{{which}}"})))
    async with serving(tmp_path, model=model) as house, connected(house) as (client, _):
        events = await send(client, words("the weather"))
        assert states(events)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        asked = events[-1].status_update.status.message
        assert asked.parts[0].text == "Which city?"
        assert json_format.MessageToDict(asked.parts[1].data)["options"] == ["Oslo", "Rome"]
        where = {"task_id": task_of(events), "context_id": events[-1].status_update.context_id}
        # Nothing is held for a task that waits.
        await until(lambda: not any(task_of(events) in each.get_name() for each in all_tasks()))
        more = await send(client, words("Rome", **where))
        assert states(more)[-1] == TaskState.TASK_STATE_COMPLETED
        assert house.tools.calls == [("weather", {"city": "Rome"})]
        kept = await house.server_state.smith.store.events(task_of(events))
        by = {event.body.type: event.by for event in kept}
        bot = Actor(kind="program", name="A2A client helper")
        assert by["run_created"] == by["question_answered"] == bot
        assert not [event for event in kept if event.by.kind == "person"]


async def test_a_client_sees_and_cancels_its_own_runs_only(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, plan(tool_step("a", "mail")))
    async with serving(tmp_path, model=model) as house, connected(house) as (client, _):
        events = await send(client, words("mail Oslo"))
        mine = await house.begin(tool_step("a", "mail"))
        async with connected(house, "stranger") as (stranger, _):
            for run in (task_of(events), mine["id"]):
                with pytest.raises(A2AError):
                    await stranger.get_task(GetTaskRequest(id=run))
                with pytest.raises(A2AError):
                    await stranger.cancel_task(CancelTaskRequest(id=run))
                assert (await house.get(f"/v1/runs/{run}"))["status"] == "reviewing"
            assert not (await stranger.list_tasks(ListTasksRequest())).tasks
        [task] = (await client.list_tasks(ListTasksRequest())).tasks
        assert task.id == task_of(events)
        task = await client.get_task(GetTaskRequest(id=task_of(events)))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        task = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert task.status.state == TaskState.TASK_STATE_CANCELED
        assert (await house.get(f"/v1/runs/{task.id}"))["status"] == "cancelled"
        kept = await house.server_state.smith.store.events(task.id)
        [by] = [event.by for event in kept if event.body.type == "cancel_asked"]
        assert by == Actor(kind="program", name="A2A client helper")


async def test_no_message_approves_a_plan(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, plan(tool_step("a", "mail")))
    async with serving(tmp_path, model=model) as house, connected(house) as (client, _):
        events = await send(client, words("mail Oslo"))
        assert states(events)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        assert "person" in events[-1].status_update.status.message.parts[0].text
        run = await house.get(f"/v1/runs/{task_of(events)}")
        where = {"task_id": run["id"], "context_id": events[-1].status_update.context_id}
        for text in ("approve", "yes", run["hash"]):
            more = await send(client, words(text, **where))
            assert states(more)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        approval = {"approve": run["hash"], "answer": "allow", "question": "approve"}
        await send(client, words(data=approval, **where))
        assert (await house.get(f"/v1/runs/{run['id']}"))["approved"] == ""
        assert house.tools.calls == []
        # Once a person has approved it, the task ends as the run does.
        await house.approve(run)
        await house.until(run["id"], "done")
        task = await client.get_task(GetTaskRequest(id=run["id"]))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert task.artifacts[0].name == "report"


async def test_every_template_is_a_skill(house: House) -> None:
    body = {
        "name": "weather",
        "plan": plan(tool_step("a")),
        "parameters": {"city": ["a.inputs.city"]},
    }
    await house.post("/v1/templates", body, 201)
    async with connected(house) as (client, card):
        assert [each.id for each in card.skills] == ["plan", "template:weather"]
        wanted = {"template": "weather", "parameters": {"city": "Rome"}}
        events = await send(client, words(data=wanted))
        assert states(events)[-1] == TaskState.TASK_STATE_COMPLETED
        assert house.tools.calls == [("weather", {"city": "Rome"})]
        wrong = await send(client, words(data={"template": "nothing"}))
        assert states(wrong)[-1] == TaskState.TASK_STATE_FAILED


async def test_tasks_of_an_earlier_server_are_found_by_their_runs(tmp_path: Path) -> None:
    steps = [plan(tool_step("a")), plan(tool_step("a", "mail"))]
    model = ScriptedModel(DECIDED, steps[0], DECIDED, steps[1])
    first = serving(tmp_path, store="sqlite", model=model)
    async with first as house, connected(house) as (client, _):
        done = task_of(await send(client, words("the weather")))
        waits = task_of(await send(client, words("mail the weather")))
    async with serving(tmp_path, store="sqlite") as house, connected(house) as (client, _):
        task = await client.get_task(GetTaskRequest(id=done))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert task.artifacts[0].parts[0].text
        task = await client.cancel_task(CancelTaskRequest(id=waits))
        assert task.status.state == TaskState.TASK_STATE_CANCELED
        assert (await house.get(f"/v1/runs/{waits}"))["status"] == "cancelled"


def replies(events: list[Any]) -> list[str]:
    return [each.message.parts[0].text for each in events if each.HasField("message")]


async def test_a_context_is_a_conversation_that_knows_what_came_before(tmp_path: Path) -> None:
    model, tools = TripModel(), TripTools()
    async with serving(tmp_path, model=model, tools=tools) as house, connected(house) as (one, _):
        events = await send(one, words("Plan a trip", context_id="c1"))
        assert states(events)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        task = task_of(events)
        async with connected(house, "other") as (two, _):
            with pytest.raises(A2AError, match="somebody else"):
                await send(two, words("Rome", context_id="c1"))
        events = await send(one, words("Rome", context_id="c1"))  # no task is named
        assert states(events)[-1] == TaskState.TASK_STATE_COMPLETED
        assert FLIGHT in artifacts(events)[-1]
        run = await house.get(f"/v1/runs/{task}")
        assert (run["status"], run["conversation"]) == ("done", "a2a:c1")
        assert run["origin"] == {"kind": "a2a", "id": "c1"}

        events = await send(one, words("Now book it", context_id="c1"))
        booking = task_of(events)
        assert booking != task
        assert states(events)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        events = await send(one, words("yes, go ahead", context_id="c1"))
        assert "approves nothing" in replies(events)[0]
        events = await send(one, words(f"why {FLIGHT}?", context_id="c1"))
        assert FLIGHT in replies(events)[0]
        assert list(events[-1].message.reference_task_ids) == [task]
        assert (await house.get(f"/v1/runs/{booking}"))["approved"] == ""
        assert [name for name, _ in tools.calls] == ["flights"]
        conversation = await house.get("/v1/conversations/a2a:c1")
        assert conversation["owner"] == "program A2A client helper"
        kinds = ["request", "answer", "request", "review", "why"]
        assert [each["kind"] for each in conversation["messages"]] == kinds
