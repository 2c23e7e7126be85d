"""A planning agent of the program's own: asked for a plan, and for each field it pauses for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from plansmith.errors import ModelFailed
from plansmith.formats.dialect import Reading, dialect
from plansmith_compat.calling import awaited
from plansmith_compat.valuecell.models import (
    PlannerInput,
    PlannerResponse,
    UserInput,
    UserInputRequest,
)

Ask = Callable[[UserInputRequest], Awaitable[None]]
UNKNOWN_MODEL = "unknown model/provider"
# A planner that asks more than this will not stop asking.
MOST_QUESTIONS: Final = 12


class PlanningAgent(Protocol):
    """What plans instead of Plansmith's own planner; both methods may be async.

    They return an object with `is_paused`, `tools_requiring_user_input`, `tools` and `content`.
    """

    def run(self, planner_input: PlannerInput, /, *, session_id: str, user_id: str) -> Any:
        """Plans a request, or pauses for fields."""
        ...

    def continue_run(self, *, run_response: Any, updated_tools: Any) -> Any:
        """Goes on with the values of the fields."""
        ...


async def ask_agent(agent: PlanningAgent, user_input: UserInput, ask: Ask) -> object:
    """Returns what the agent has planned; asks the person for each field it pauses for."""
    wanted = PlannerInput(query=user_input.query, target_agent_name=user_input.target_agent_name)
    meta = user_input.meta
    response = await awaited(
        agent.run(wanted, session_id=meta.conversation_id, user_id=meta.user_id)
    )
    for _ in range(MOST_QUESTIONS):
        if not response.is_paused:
            return response.content
        for tool in response.tools_requiring_user_input:
            for field in tool.user_input_schema:
                request = UserInputRequest(field.description)
                await ask(request)
                field.value = await request.wait_for_response()
        going_on = agent.continue_run(run_response=response, updated_tools=response.tools)
        response = await awaited(going_on)
    if response.is_paused:
        raise ModelFailed(f"it paused more than {MOST_QUESTIONS} times")
    return response.content


def read_response(content: object) -> Reading | None:
    """Reads the answer of a planning agent; None if it is none."""
    if not isinstance(content, PlannerResponse):
        return None
    return dialect("valuecell").read(content.model_dump(mode="json"))


def model_name(agent: object) -> str:
    """Returns the name of an agent's model, and of its provider if it has one."""
    model = getattr(agent, "model", None)
    name = getattr(model, "id", None) or getattr(model, "name", None)
    provider = getattr(model, "provider", None)
    return f"{name} (via {provider})" if name and provider else str(name or UNKNOWN_MODEL)
