"""Routes of decisions: approve, reject, ask for changes, answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

from plansmith.errors import Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.plan.schedules import failures_in_a_row
from plansmith.schedules.approval import keeps_schedules
from plansmith.server.errors import not_found
from plansmith.server.openapi import Answer, Ask, Nothing
from plansmith.server.routes.tools import waiting_tools
from plansmith.server.schemas import requests as b
from plansmith.server.serialize import awaits_review, moment, question_view, run_view
from plansmith.server.state import ServerState

LEFT_TO_YOU: Final = {
    "en": "You decide, and write down what you decided among the assumptions.",
    "zh": "由你决定，并把你的决定写进假设。",
}


async def decide(ask: Ask, given: b.Decision) -> Answer:
    """A person's word on exactly the plan of a hash; an approved plan starts."""
    server_state, smith = ask.server_state, ask.server_state.smith
    run = await server_state.run(ask.run)
    if given.changes is not None:
        deed = smith.request_changes(ask.run, given.changes, by=ask.by)
        await server_state.background.until_journaled(ask.run, deed)
    elif given.reject:
        await server_state.smith.runs.ask_for_review(ask.run, "a person decides")
        await smith.decide(ask.run, reject=True, by=ask.by)
    else:
        if run.plan is None or given.approve != run.plan.hash:
            now = run.plan.hash if run.plan else "none"
            hint = f"the plan now has the hash {now}: look at it again"
            raise StaleDecision("this is not the hash of the current plan", hint=hint)
        await server_state.smith.runs.ask_for_review(ask.run, "a person decides")
        await smith.decide(ask.run, approve=given.approve, by=ask.by)
        server_state.background.go_on(ask.run)
    return await run_view(smith, ask.run)


async def answer(ask: Ask, given: b.AnswerBody) -> Answer:
    """A person's answer to a question; of two, one wins."""
    server_state = ask.server_state
    run = await server_state.run(ask.run)
    asked = run.questions.get(given.question)
    if asked is None:
        raise StaleDecision(f"run {ask.run} has no open question {given.question!r}")
    value = _left_to_you(run, asked) if given.you_decide else given.answer
    # Not `smith.answer`: that would make the plan before it returns.
    await server_state.smith.runs.answer(ask.run, given.question, value, by=ask.by)
    server_state.background.go_on(ask.run)
    return await run_view(server_state.smith, ask.run)


async def question(ask: Ask, _: Nothing) -> Answer:
    """A question; one that asks for consent has the values of the call, never cut."""
    run, name = await ask.server_state.run(ask.run), ask.path("question")
    asked = run.questions.get(name)
    if asked is None:
        raise not_found("question", name)
    is_consent = asked.asks == "consent" and bool(asked.state)
    values = await ask.server_state.smith.store.get(asked.state) if is_consent else None
    return {**question_view(asked), "values": values}


def _left_to_you(run: Run, asked: e.QuestionAsked) -> Json:
    """Words that leave a choice to whoever asked; what only a person can say is not left."""
    if asked.options or asked.answer_schema is not None or asked.state:
        hint = "choose one of its options, or answer it"
        raise Refused("this question needs a word of your own", hint=hint)
    return LEFT_TO_YOU["zh" if run.locale.startswith("zh") else "en"]


async def inbox(ask: Ask, _: Nothing) -> Answer:
    """Everything that waits for a person: plans, questions, tools, and schedules that gave up."""
    server_state, items = ask.server_state, list[Json]()
    for listed in await server_state.rows.open():
        if listed.run is not None:
            items += _waiting(listed.run, listed.row["goal"])
    now = moment(server_state.smith.runs.journals.clock.now())
    for each in await waiting_tools(server_state):
        items.append({"kind": "tool", "run": None, "server": each["name"], "since": now})
    return {"items": [*items, *[each async for each in _given_up(server_state)]]}


def _waiting(run: Run, goal: Json) -> Iterator[Json]:
    head: dict[str, Json] = {"run": run.id, "request": run.request, "goal": goal}
    head["since"] = moment(run.updated_at)
    if awaits_review(run) and run.plan is not None and run.last is not None:
        asked = run.last.body
        reasons: list[Json] = [*asked.reasons] if isinstance(asked, e.ReviewAsked) else []
        yield {**head, "kind": "review", "review": {"hash": run.plan.hash, "reasons": reasons}}
    for each in run.questions.values():
        yield {**head, "kind": "question", "question": question_view(each)}


async def _given_up(server_state: ServerState) -> AsyncIterator[Json]:
    """Schedules that paused themselves after failures, not those a person paused."""
    smith = server_state.smith
    for each in await smith.schedules.all() if keeps_schedules(smith.store) else ():
        if not each.paused:
            continue
        fires = await smith.schedules.shelf.fires(each.id, limit=each.max_failures)
        if failures_in_a_row(each, fires) >= each.max_failures:
            since = moment(fires[0].ended)
            told: dict[str, Json] = {"kind": "schedule", "run": None, "schedule": each.id}
            yield {**told, "goal": each.name, "reason": each.reason, "since": since}
