"""ValueCell's conversations as threads, and what must be confirmed in them first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from plansmith.app import Plansmith
from plansmith.plan import events as e
from plansmith.plan.next_move import AwaitAnswer, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.steps import AskStep
from plansmith.ports import Message
from plansmith.runs.intake import NewRun
from plansmith_compat import turns
from plansmith_compat.valuecell.dialect import GUIDANCE
from plansmith_compat.valuecell.models import UserInput
from plansmith_planner.dialect import plain_text
from plansmith_planner.language.recurrence import recurrence
from plansmith_planner.threads.entries import MessageRead

if TYPE_CHECKING:
    from plansmith_planner.threads.thread import Thread

# ValueCell's own rule: words of confirmation, English or Chinese, count inline. They only stop
# the question when a task runs; a schedule is set up by approving the hash of its plan.
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
ASK_FOR_TIME: Final = {
    True: "请说明该任务何时运行，例如“每天 09:30”或“每 60 分钟”",
    False: "When should it run, such as daily at 09:30, or every 60 minutes?",
}


def is_confirmed(text: str) -> bool:
    """Whether a person's words confirm when a task runs; any denial in them means no."""
    return bool(_CONFIRMED.search(text)) and not _DENIED.search(text)


def handed_over(enriched: str, own_words: str) -> str:
    """Returns the request that the planner gets; only the person's own words confirm anything."""
    if not enriched or (is_confirmed(enriched) and not is_confirmed(own_words)):
        return own_words
    if is_confirmed(own_words) and not is_confirmed(enriched):
        return f"{enriched}\n\n{own_words}"
    return enriched


def guidance_in(plan: Plan) -> str:
    """Returns what the planning model wants to know first; empty if nothing."""
    asked = [step for step in plan.steps if isinstance(step, AskStep) and step.id == GUIDANCE]
    return plain_text(asked[0].question) if asked else ""


def schedule_guidance(plan: Plan, text: str) -> str:
    """Returns what the person must say or confirm about when it is repeated; empty if nothing."""
    chinese, times = plan.locale.startswith("zh"), times_of(plan)
    if times and is_confirmed(text):
        return ""
    if times and chinese:
        return f"请确认该定时任务：{times}。回复“确认”后才会创建。"
    if times:
        return f"Please confirm the schedule: {times}. It is created after you confirm it."
    # A time that the person named and nobody can read is asked for: such a task never runs once.
    found = recurrence(text)
    if found is None or not found.flaw:
        return ""
    if chinese:
        return f"{ASK_FOR_TIME[True]}：{found.words}（{found.flaw}）。"
    return f"{ASK_FOR_TIME[False]} “{found.words}” cannot be read: {found.flaw}."


def times_of(plan: Plan) -> str:
    """Returns when the tasks of a plan are repeated, each by its title if they differ."""
    if plan.schedule is not None and not plan.schedules:
        return str(plan.schedule)
    titles = {step.id: step.title or step.id for step in plan.steps}
    return "; ".join(f"{titles.get(name, name)} {each}" for name, each in plan.schedules.items())


def place_of(run: Run) -> Origin | None:
    """Returns the conversation of a run; None for other runs."""
    return run.origin if run.origin.kind == "conversation" else None


def is_asked(run: Run) -> bool:
    """Whether a run waits for an answer about the request itself."""
    return isinstance(next_move(run), AwaitAnswer) and run.plan is None


class Conversations:
    """Keeps ValueCell's conversations as threads under their ids."""

    def __init__(self, smith: Plansmith) -> None:
        self.smith = smith

    async def begin(self, user_input: UserInput, thread_id: str, plan: Plan | None = None) -> Run:
        """Creates the run of a request, which the model plans unless there is a plan already."""
        meta = user_input.meta
        place = Origin(
            kind="conversation",
            id=meta.conversation_id,
            thread=thread_id,
            user=meta.user_id,
            handed_over=not user_input.target_agent_name,
        )
        # A plan that is there was checked against the cards, which Plansmith need not know, or
        # names an agent that planners must not choose.
        new = NewRun(user_input.query, plan, by=meta.user_id, origin=place, needs_check=False)
        return await turns.begin(
            self.smith,
            meta.conversation_id,
            user_input.own_words or user_input.query,
            new,
            dialect="" if plan is not None else "valuecell",
            triaged=user_input.triaged,
        )

    async def keep_reply(self, user_input: UserInput, text: str) -> None:
        """Keeps a message that was answered at once, without a run."""
        thread: Thread = await self.smith.thread(user_input.meta.conversation_id)
        message = user_input.own_words or user_input.query
        if message.strip() and text:
            await thread.record(
                message, MessageRead("request"), by=user_input.meta.user_id, reply=text
            )

    async def keep_guidance(self, run: Run, guidance: str) -> None:
        """Keeps what was said to the person instead of running a plan."""
        if run.options.thread and run.options.message and run.status is not RunStatus.ANSWERED:
            await (await self.smith.thread(run.options.thread)).reply(run.options.message, guidance)

    async def is_answered(self, run_id: str) -> bool:
        """Whether triage has answered a request, or refused it, in place of a plan."""
        events = await self.smith.store.events(run_id)
        decisions = [each.body.decision for each in events if isinstance(each.body, e.Triaged)]
        return decisions[-1:] in (["answer"], ["refuse"])

    async def asking_runs(self) -> list[Run]:
        """Returns the runs of all conversations that wait for an answer about the request."""
        names, journals = await self.smith.store.open_runs(), self.smith.runs.journals
        runs = [(await journals.listed(name))[0] for name in names]
        return [run for run in runs if place_of(run) and is_asked(run)]

    async def history(self, conversation_id: str) -> Sequence[Message]:
        thread: Thread = await self.smith.thread(conversation_id)
        return await thread.said()
