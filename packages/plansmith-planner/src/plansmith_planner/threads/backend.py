"""What all threads share: store, memory, one message at a time, the rule of owners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from plansmith.engine.progress import spending
from plansmith.errors import Refused
from plansmith.plan import thread as t
from plansmith.plan.sentence import Sentence
from plansmith_planner.context.history import Summariser, summarise
from plansmith_planner.context.token_budget import rough_count
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.threads.memory import ThreadMemory

if TYPE_CHECKING:
    from plansmith.plan import events as e
    from plansmith.runs.service import RunService

_KEPT_WHOLE: Final = 6  # messages; older ones are summarised when there is no room for them


class ThreadBackend:
    """What all threads of a Plansmith share."""

    def __init__(self, *, runs: RunService) -> None:
        self.runs = runs
        self.memory = ThreadMemory(runs.journals)
        self.store = self.memory.store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def planner(self) -> ModelPlanner | None:
        """The planner, if it has models that can read messages."""
        planner = self.runs.planning.planner
        return planner if isinstance(planner, ModelPlanner) else None

    def lock(self, thread: str) -> asyncio.Lock:
        """Returns what lets one message of a thread be read at a time in this process."""
        lock = self._locks.get(thread)
        if lock is None:
            lock = self._locks[thread] = asyncio.Lock()
        return lock

    def require_owner(self, state: t.ThreadState, who: e.Actor) -> None:
        """Refuses a program that did not open the thread; persons share theirs."""
        begun = state.last or state.runs
        if begun and who.kind != "person" and state.owner != who.label:
            hint = Sentence("begin a conversation of your own")
            message = Sentence("the thread {thread} belongs to somebody else", thread=state.id)
            raise Refused(message, hint=hint)

    async def present(self, state: t.ThreadState) -> t.ThreadState:
        """Returns a thread as it is now; one of which nothing is stored yet, as it was."""
        found = await self.store.read(state.id)
        return found if found.last or state.last else state

    async def add_message(
        self,
        state: t.ThreadState,
        said: t.MessageAdded,
        who: e.Actor,
        more: Callable[[int], Sequence[t.AnyThreadBody]] = lambda _: (),
    ) -> tuple[t.ThreadState, int]:
        """Stores a message, and `more` given its number; one whose key is known stays as it is."""
        while True:  # nothing is stored after a state that is not the last
            self.require_owner(state, who)
            known = [each for each in state.messages if said.key and each.key == said.key]
            if known and known[0].text != said.text:
                hint = Sentence("use a key of its own for every message")
                raise Refused(Sentence("another message of this thread has this key"), hint=hint)
            if known:
                return state, known[0].number
            # A thread of one run is stored with its first message.
            adopts = state.runs[0] if state.runs else ""
            opened = t.ThreadOpened(
                owner=state.owner or who.label,
                title=t.short_title(state.title) if adopts else "",
                folder=self.runs.journals.recorded_folder,
                adopts=adopts,
            )
            opening = [] if state.last else [opened]
            number = state.last + len(opening) + 1
            after = await self.store.append(state, *opening, said, *more(number), by=who)
            if after is not None:
                return after, number
            state = await self.present(state)

    async def summarised(self, state: t.ThreadState, *, upto: int) -> t.ThreadState:
        """Has a model shorten what no longer fits, once; returns the thread with the summary."""
        before, planner = state.before(upto), self.planner
        done = before.summary.upto if before.summary else 0
        older = [each.number for each in before.messages if each.number > done][:-_KEPT_WHOLE]
        model = planner.judging_model if planner else None
        if planner is None or model is None or not older or (done and len(older) < _KEPT_WHOLE):
            return state
        whole = "\n".join(each.text for each in await self.memory.said(before))
        if rough_count(whole) <= planner.settings.context_tokens // 3:
            return state
        made = await summarise(
            await self.memory.said(before.before(older[-1] + 1)),
            words=planner.settings.context_tokens // 12,
            summariser=Summariser(model, self.runs.clock, prompts=planner.settings.prompts),
        )
        if made is None:
            return state
        text, spent = made.text.strip(), spending(made.usage)
        body = t.ThreadSummarised(upto=older[-1], text=text, model=model.name, **spent)
        return await self.store.add(state.id, body)
