"""ValueCell's conversations: which run belongs to which, and what its plans must keep to."""

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
    """Whether a person's words confirm something; a denial anywhere in them means they do not."""
    return bool(_CONFIRMED.search(text)) and not _DENIED.search(text)


def asked_in(plan: Plan) -> str:
    """What the planning model wants to know first, or nothing."""
    asked = [step for step in plan.steps if isinstance(step, AskStep) and step.id == GUIDANCE]
    return "".join(map(str, pieces(asked[0].question))) if asked else ""


def guidance_in(plan: Plan, said: str) -> str:
    """What a plan has to ask the person before any of it runs, or nothing."""
    asked = asked_in(plan)
    return asked or (schedule_guidance(plan, plan.schedule, said) if plan.schedule else "")


def schedule_guidance(plan: Plan, timing: Timing, said: str) -> str:
    """What the person has to confirm before a plan runs again and again, or nothing."""
    if is_confirmed(said):
        return ""
    if plan.locale.startswith("zh"):
        return f"请确认该定时任务：{timing}。回复“确认”后才会创建。"
    return f"Please confirm the schedule: {timing}. It is set up when you say so."


def short_title(title: str) -> str:
    """A title of at most ten words, or twenty characters where it is Chinese."""
    if HAN.search(title):
        plain = title.strip()
        return plain if len(plain) <= MOST_CHARACTERS else f"{plain[: MOST_CHARACTERS - 1]}…"
    words = title.split()
    return title.strip() if len(words) <= MOST_WORDS else " ".join(words[:MOST_WORDS]) + "…"


def place_of(run: Run) -> Origin | None:
    """The conversation of a run that was begun here."""
    return run.origin if run.origin.kind == "conversation" else None


def is_asked(run: Run) -> bool:
    """Whether a run waits for a word on the request itself."""
    return isinstance(next_move(run), AwaitAnswer) and run.plan is None


class Conversations:
    """Begins runs that know their conversation."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._runs: dict[str, list[str]] | None = None

    async def plan(self, user_input: UserInput, thread_id: str) -> Run:
        """A run with a plan for a request, made by the model."""
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
        """A run of a plan for the agent that the request names; no model is needed for it."""
        place = _place(user_input, thread_id)
        # Not checked as a planner's choice: who is named may also be an agent that planners skip.
        journal = await self._smith.runs.create(
            user_input.query, plan=plan, checked=False, origin=place, by=place.user
        )
        await self._remember(place.id, journal.id)
        return await self._smith.runs.journals.whole(journal)

    async def open_runs(self) -> list[Run]:
        """The runs of conversations that wait for a word on the request itself."""
        return [run for run in await self._smith.runs() if is_asked(run) and place_of(run)]

    async def history(self, conversation_id: str) -> tuple[Message, ...]:
        """What was asked and answered before in a conversation."""
        said: list[Message] = []
        for run_id in (await self._known()).get(conversation_id, [])[-_MOST:]:
            run = await self._smith.get(run_id)
            said.append(Message("user", run.request))
            guidance = guidance_in(run.plan, run.request) if run.plan else ""
            answer = guidance or run.report or (run.plan.thought if run.plan else "") or run.reason
            if answer:
                said.append(Message("assistant", answer))
        return tuple(said)

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
