"""DeerFlow's whole workflow in one call, with the arguments that its programs give."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast

from plansmith.ports import Agent, ChatModel, JournalStore, Message, ToolSource
from plansmith_compat.deerflow.configuration import Configuration
from plansmith_compat.deerflow.flow import DeerFlow, ResearchState, research_team
from plansmith_compat.deerflow.llms import AIMessage, GraphMessage, HumanMessage, prompt_messages
from plansmith_compat.deerflow.models import Goto
from plansmith_compat.deerflow.nodes import ROUNDS

_log: Final = logging.getLogger("plansmith")
_REVIEW: Final = "[ACCEPTED], or [EDIT_PLAN] and what to change: "
Ask = Callable[[str], str]


class WorkflowOptions(TypedDict, total=False):
    """What DeerFlow takes from its files, and Plansmith as arguments.

    `ask`, such as `input`, puts what waits to a person; `show` receives each message. `thread_id`
    names a conversation in the `store`, so that several researches know of each other.
    """

    model: ChatModel | str | None
    tools: Sequence[ToolSource]
    agents: Sequence[Agent]
    store: str | JournalStore
    ask: Ask
    show: Callable[[str], None]
    thread_id: str


async def run_agent_workflow_async(  # noqa: PLR0913, PLR0917 - the arguments of DeerFlow
    user_input: str,
    debug: bool = False,  # noqa: FBT001, FBT002 - the order of DeerFlow's arguments
    max_plan_iterations: int = 1,
    max_step_num: int = 3,
    enable_background_investigation: bool = True,  # noqa: FBT001, FBT002 - as above
    enable_clarification: bool | None = None,  # noqa: FBT001 - as above
    max_clarification_rounds: int | None = None,
    initial_state: Mapping[str, Any] | None = None,
    locale: str | None = None,
    **options: Unpack[WorkflowOptions],
) -> dict[str, Any]:
    """Plans, runs and reports; shows each message, prints it by default; returns the last state.

    A plan that only reads runs at once. Any other plan, and a question, waits for a person: with
    `ask` it is put to them, else the state that waits is returned. `DeerFlow.feedback` and
    `DeerFlow.answer` go on from it if there is a `store`.
    """
    if not user_input:
        raise ValueError("Input could not be empty")
    if debug:
        _log.setLevel(logging.DEBUG)
    before = initial_state or {}
    configuration = Configuration(
        max_plan_iterations=max_plan_iterations,
        max_step_num=max_step_num,
        auto_accepted_plan=bool(before.get("auto_accepted_plan", True)),
        enable_background_investigation=enable_background_investigation,
    )
    messages = prompt_messages(before.get("messages") or ())
    if messages and messages[-1]["content"] == user_input:
        messages.pop()  # what was said before the request itself
    history = [Message(cast("Any", each["role"]), each["content"]) for each in messages]
    language = locale or str(before.get("locale") or "")
    rounds = 0 if enable_clarification is False else max_clarification_rounds or ROUNDS
    model, tools = options.get("model"), options.get("tools", ())
    flow = DeerFlow(
        model=model,
        agents=options.get("agents") or research_team(model=model, sources=tools, folder=Path()),
        tools=tools,
        store=options.get("store", "memory"),
        configuration=configuration,
    )
    try:
        thread = options.get("thread_id", "")
        state = await flow.start(user_input, locale=language, history=history, thread_id=thread)
        state = await _until_decided(flow, state, options.get("ask"), rounds)
    finally:
        await flow.close()
    return _last_state(user_input, state, options.get("show", print))


async def _until_decided(
    flow: DeerFlow, state: ResearchState, ask: Ask | None, rounds: int
) -> ResearchState:
    """Puts questions and plans to the person until nothing waits, or nobody answers."""
    while ask is not None and state.goto is Goto.HUMAN_FEEDBACK:
        questions = (await flow.smith.get(state.run_id)).questions
        if questions and state.plan is None and not rounds:
            break
        rounds -= bool(questions and state.plan is None)
        try:
            if questions:
                name, question = next(iter(questions.items()))
                words = await asyncio.to_thread(ask, f"{question.text} ")
                state = await flow.answer(state.run_id, name, words)
            else:
                steps = state.plan.steps if state.plan else ()
                lines = [f"- {step.title}: {step.description}" for step in steps]
                words = await asyncio.to_thread(ask, "\n".join([*lines, _REVIEW]))
                state = await flow.feedback(state.run_id, words)
        except EOFError:  # there is no person at the terminal
            break
    return state


def _last_state(
    user_input: str, state: ResearchState, show: Callable[[str], None]
) -> dict[str, Any]:
    messages: list[GraphMessage] = [HumanMessage(content=user_input)]
    if state.plan is not None:
        messages.append(AIMessage(content=state.plan.model_dump_json(), name="planner"))
    last = state.final_report or state.question or "\n".join(state.errors)
    speaker = "reporter" if state.plan is not None else "coordinator"
    if last:
        messages.append(AIMessage(content=last, name=speaker))
    for message in messages:
        show(f"{message.name or 'user'}: {message.content}")
    if state.goto is Goto.HUMAN_FEEDBACK:
        show(f"Run {state.run_id} waits for a person.")
    # With the names and types of DeerFlow's own state.
    return asdict(state) | {
        "messages": messages,
        "research_topic": user_input,
        "current_plan": state.plan,
        "observations": list(state.observations),
        "goto": str(state.goto),
        "errors": list(state.errors),
    }
