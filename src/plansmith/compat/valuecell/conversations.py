"""ValueCell's conversations: which run belongs to which, and what must be confirmed first."""

from __future__ import annotations

import re
from typing import Final

from plansmith.app import Plansmith
from plansmith.compat.valuecell.models import UserInput
from plansmith.dialects.valuecell import GUIDANCE
from plansmith.plan.next_move import AwaitAnswer, next_move
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.refs import pieces
from plansmith.plan.run import Run
from plansmith.plan.steps import AskStep
from plansmith.plan.timing import Timing
from plansmith.planner.request import PlanRequest
from plansmith.ports import Message
from plansmith.text import HAN

MOST_WORDS: Final = 10
MOST_CHARACTERS: Final = 20
_CONFIRMED: Final = re.compile(
    r"\b(?:yes|confirm(?:ed)?|i agree|go ahead|please proceed|set it up)\b"
    r"|确认|同意|是的|好的|没问题",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\b(?:not|no|never|don'?t)\b|不要|不用|别|取消|不确认|不同意", re.IGNORECASE
)
_DIALECT: Final = "valuecell"
_MOST: Final = 10


def is_confirmed(text: str) -> bool:
    """Whether a person's words confirm something; any denial in them means no."""
    return bool(_CONFIRMED.search(text)) and not _DENIED.search(text)


def asked_in(plan: Plan) -> str:
    """Returns what the planning model wants to know first; empty if nothing."""
    asked = [step for step in plan.steps if isinstance(step, AskStep) and step.id == GUIDANCE]
    return "".join(map(str, pieces(asked[0].question))) if asked else ""


def guidance_in(plan: Plan, text: str) -> str:
    """Returns what the person must answer before the plan runs; empty if nothing."""
    asked = asked_in(plan)
    return asked or (schedule_guidance(plan, plan.schedule, text) if plan.schedule else "")


def schedule_guidance(plan: Plan, timing: Timing, text: str) -> str:
    """Returns what the person must confirm before a plan is repeated; empty if nothing."""
    if is_confirmed(text):
        return ""
    if plan.locale.startswith("zh"):
        return f"请确认该定时任务：{timing}。回复“确认”后才会创建。"
    return f"Please confirm the schedule: {timing}. It is created after you confirm it."


def short_title(title: str) -> str:
    """Returns a title of at most ten words, or twenty characters in Chinese."""
    if HAN.search(title):
        plain = title.strip()
        return plain if len(plain) <= MOST_CHARACTERS else f"{plain[: MOST_CHARACTERS - 1]}…"
    words = title.split()
    return title.strip() if len(words) <= MOST_WORDS else " ".join(words[:MOST_WORDS]) + "…"


def place_of(run: Run) -> Origin | None:
    """Returns the conversation of a run; None for other runs."""
    return run.origin if run.origin.kind == "conversation" else None


def is_asked(run: Run) -> bool:
    """Whether a run waits for an answer about the request itself."""
    return isinstance(next_move(run), AwaitAnswer) and run.plan is None


class Conversations:
    """Creates runs that belong to a conversation."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._runs: dict[str, list[str]] | None = None

    async def plan(self, user_input: UserInput, thread_id: str) -> Run:
        """Creates a run and lets the model plan the request."""
        place = _place(user_input, thread_id)
        wanted = PlanRequest(
            user_input.query,
            history=await self.history(place.id),
            dialect=_DIALECT,
        )
        journal = await self._smith.runs.create(
            wanted.text, options=wanted.options(), origin=place, by=place.user
        )
        await self._remember(place.id, journal.id)
        await self._smith.runs.planner.plan(journal, wanted)
        return await self._smith.runs.journals.whole(journal)

    async def hand_over(self, plan: Plan, user_input: UserInput, thread_id: str) -> Run:
        """Creates a run for the agent that the request names, without a model."""
        place = _place(user_input, thread_id)
        # Not checked: the named agent may be one that planners must not choose.
        journal = await self._smith.runs.create(
            user_input.query, plan=plan, checked=False, origin=place, by=place.user
        )
        await self._remember(place.id, journal.id)
        return await self._smith.runs.journals.whole(journal)

    async def open_runs(self) -> list[Run]:
        """Returns the runs that wait for an answer about the request itself."""
        return [run for run in await self._smith.runs() if is_asked(run) and place_of(run)]

    async def history(self, conversation_id: str) -> tuple[Message, ...]:
        """Returns the earlier requests and answers of a conversation."""
        messages: list[Message] = []
        for run_id in (await self._known()).get(conversation_id, [])[-_MOST:]:
            run = await self._smith.get(run_id)
            messages.append(Message("user", run.request))
            guidance = guidance_in(run.plan, run.request) if run.plan else ""
            answer = guidance or run.report or (run.plan.thought if run.plan else "") or run.reason
            if answer:
                messages.append(Message("assistant", answer))
        return tuple(messages)

    async def _known(self) -> dict[str, list[str]]:
        if self._runs is None:
            self._runs = {}
            for run in await self._smith.runs():
                place = place_of(run)
                if place is not None:
                    self._runs.setdefault(place.id, []).append(run.id)
        return self._runs

    async def _remember(self, conversation_id: str, run_id: str) -> None:
        runs = (await self._known()).setdefault(conversation_id, [])
        if run_id not in runs:
            runs.append(run_id)


def _place(user_input: UserInput, thread_id: str) -> Origin:
    return Origin(
        kind="conversation",
        id=user_input.meta.conversation_id,
        thread=thread_id,
        user=user_input.meta.user_id,
        handed_over=not user_input.target_agent_name,
    )
