"""ValueCell's conversations: which run belongs to which, and what must be confirmed first."""

from __future__ import annotations

import re
from typing import Final

from plansmith.app import Plansmith
from plansmith.compat.valuecell.models import UserInput
from plansmith.dialects.valuecell import GUIDANCE
from plansmith.plan import events as e
from plansmith.plan.next_move import AwaitAnswer, next_move
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.refs import pieces
from plansmith.plan.run import Run
from plansmith.plan.steps import AskStep
from plansmith.planner.context.locales import locale_of
from plansmith.planner.recurrence import recurrence
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
    r"\b(?:not|cannot|no|never|dont|\w+n['’]t)\b"
    r"|不要|不用|不是的|不好的|别|取消|[不未没](?:有|能|经|想|会|可以)?(?:确认|同意)",
    re.IGNORECASE,
)
_DIALECT: Final = "valuecell"
_MOST: Final = 10


def is_confirmed(text: str) -> bool:
    """Whether a person's words confirm something; any denial in them means no."""
    return bool(_CONFIRMED.search(text)) and not _DENIED.search(text)


def handed_over(enriched: str, said: str) -> str:
    """Returns the request that the planner gets; only the person's own words confirm anything."""
    if not enriched or (is_confirmed(enriched) and not is_confirmed(said)):
        return said
    if is_confirmed(said) and not is_confirmed(enriched):
        return f"{enriched}\n\n{said}"
    return enriched


def asked_in(plan: Plan) -> str:
    """Returns what the planning model wants to know first; empty if nothing."""
    asked = [step for step in plan.steps if isinstance(step, AskStep) and step.id == GUIDANCE]
    return "".join(map(str, pieces(asked[0].question))) if asked else ""


def guidance_in(plan: Plan, text: str) -> str:
    """Returns what the person must answer before the plan runs; empty if nothing."""
    return asked_in(plan) or schedule_guidance(plan, text)


def schedule_guidance(plan: Plan, text: str) -> str:
    """Returns what the person must say or confirm about when it is repeated; empty if nothing."""
    chinese, times = plan.locale.startswith("zh"), times_of(plan)
    if not times:
        return _unclear_time(text, chinese=chinese)
    if is_confirmed(text):
        return ""
    if chinese:
        return f"请确认该定时任务：{times}。回复“确认”后才会创建。"
    return f"Please confirm the schedule: {times}. It is created after you confirm it."


def times_of(plan: Plan) -> str:
    """Returns when the tasks of a plan are repeated, each by its title if they differ."""
    if plan.schedule is not None and not plan.schedules:
        return str(plan.schedule)
    titles = {step.id: step.title or step.id for step in plan.steps}
    return "; ".join(f"{titles.get(name, name)} {each}" for name, each in plan.schedules.items())


def _unclear_time(text: str, *, chinese: bool) -> str:
    """Asks for a time that the person named and nobody can read; such a task never runs once."""
    found = recurrence(text)
    if found is None or not found.flaw:
        return ""
    if chinese:
        return (
            f"请说明该任务何时运行，例如“每天 09:30”或“每 60 分钟”：{found.words}（{found.flaw}）。"
        )
    how = "such as daily at 09:30, or every 60 minutes"
    return f"When should it run, {how}? “{found.words}” cannot be read: {found.flaw}."


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
    """Creates and finds the runs that belong to a conversation, also those of other processes."""

    def __init__(self, smith: Plansmith) -> None:
        self.smith = smith
        self._runs: dict[str, list[str]] = {}
        self._seen: set[str] = set()

    async def plan(self, user_input: UserInput, thread_id: str) -> Run:
        """Creates a run and lets the model plan the request."""
        place = _place(user_input, thread_id)
        wanted = PlanRequest(
            user_input.query,
            history=await self.history(place.id),
            dialect=_DIALECT,
            triaged=user_input.triaged,
        )
        journal = await self.smith.runs.create(
            wanted.text, options=wanted.options(), origin=place, by=place.user
        )
        await self.smith.runs.planner.plan(journal, wanted)
        return await self.smith.runs.journals.whole(journal)

    async def keep(
        self, plan: Plan, user_input: UserInput, thread_id: str, *, checked: bool = True
    ) -> Run:
        """Creates a run for a plan that is there already, such as one for a named agent."""
        place = _place(user_input, thread_id)
        journal = await self.smith.runs.create(
            user_input.query, plan=plan, checked=checked, origin=place, by=place.user
        )
        return await self.smith.runs.journals.whole(journal)

    async def answered(self, user_input: UserInput, answer: str, reason: str) -> None:
        """Keeps what the super agent has answered, as a run that needed no plan."""
        place, query = _place(user_input, ""), user_input.query
        journal = await self.smith.runs.create(
            query, locale=locale_of(query), origin=place, by=place.user
        )
        triaged = e.Triaged(decision="answer", reason=reason)
        await self.smith.runs.planner.keep_answer(journal, answer, triaged)

    async def is_answered(self, run_id: str) -> bool:
        """Whether triage has answered a request, or refused it, in place of a plan."""
        events = await self.smith.store.events(run_id)
        decisions = [each.body.decision for each in events if isinstance(each.body, e.Triaged)]
        return decisions[-1:] in (["answer"], ["refuse"])

    async def open_runs(self) -> list[Run]:
        """Returns the runs that wait for an answer about the request itself."""
        return [run for run in await self.smith.runs() if is_asked(run) and place_of(run)]

    async def waiting(self, conversation_id: str) -> Run | None:
        """Returns the run of a conversation whose question the next message answers, if any."""
        here = set(await self._of(conversation_id))
        for run_id in reversed(await self.smith.store.open_runs()):
            run = await self.smith.get(run_id) if run_id in here else None
            if run is not None and run.questions and isinstance(next_move(run), AwaitAnswer):
                return run
        return None

    async def history(self, conversation_id: str) -> tuple[Message, ...]:
        """Returns the earlier requests and answers of a conversation."""
        messages: list[Message] = []
        for run_id in (await self._of(conversation_id))[-_MOST:]:
            run = await self.smith.get(run_id)
            messages.append(Message("user", run.request))
            guidance = guidance_in(run.plan, run.request) if run.plan else ""
            answer = guidance or run.report or (run.plan.thought if run.plan else "") or run.reason
            if answer:
                messages.append(Message("assistant", answer))
        return tuple(messages)

    async def _of(self, conversation_id: str) -> list[str]:
        """Returns the runs of a conversation, oldest first; reads only those that are new."""
        for run_id in await self.smith.store.runs():
            if run_id in self._seen:
                continue
            events = await self.smith.store.events(run_id)
            created = events[0].body if events else None
            if isinstance(created, e.RunCreated):
                self._seen.add(run_id)
                if created.origin.kind == "conversation":
                    self._runs.setdefault(created.origin.id, []).append(run_id)
        return self._runs.get(conversation_id, [])


def _place(user_input: UserInput, thread_id: str) -> Origin:
    return Origin(
        kind="conversation",
        id=user_input.meta.conversation_id,
        thread=thread_id,
        user=user_input.meta.user_id,
        handed_over=not user_input.target_agent_name,
    )
