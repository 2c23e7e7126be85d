"""Makes one call of a remote agent: sends the task, follows it, and never sends a message twice."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Final, NoReturn

from plansmith.errors import PlansmithError, ToolBusy, ToolFailed, failure_of_call
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json, json_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, Clock
from plansmith_connect.a2a.exchange import Exchange, Gone, survives
from plansmith_connect.a2a.messages import (
    CANNOT,
    ENDED_BADLY,
    LOST,
    SEND,
    SETTLED,
    WAITING,
    Asked,
    Message,
    News,
    Part,
    State,
    StatusNews,
    Task,
    add,
    answer_parts,
    asked_by,
    lost,
    message_result,
    need_of,
    question_of,
    task_result,
)
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.a2a.wire import Cut, NotSent, TooMuch, Untrusted

_FIRST_WAIT: Final = 0.1
# How often a task that still waits after an answer is polled before the person is asked again.
_STALE_LOOKS: Final = 6
_SPACE: Final = uuid.UUID("5b1c62f4-53a5-5b44-9d0f-0a6d2f3b7c11")
_ENDINGS: Final = {
    State.FAILED: "a2a.ended_failed",
    State.REJECTED: "a2a.ended_refused",
    State.CANCELED: "a2a.ended_cancelled",
}


class Rejected(ToolFailed):
    """The agent refused the task: the one end that says that the work was never begun."""


class RemoteTask:
    """One call: starts or continues a task, follows it, and returns how it ended."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        name: str,
        settings: AgentSettings,
        call: Call,
        clock: Clock,
        links: tuple[str, ...] = (),
    ) -> None:
        self._exchange = exchange
        self._name = name
        self._settings = settings
        self._limits = settings.limits
        self._call = call
        self._clock = clock
        self._links = links
        # Made out of the call's key, so that another process finds the same work by it.
        self._context = _id(call.key)
        self._task = Task()
        self._answer: Message | None = None
        self._answered = ""
        self._times = 0
        self._updates = 0
        self._known: set[str] = set()
        self._why = ""
        self._retry_after: float | None = None
        # Whether any message of this work was sent; a question came after one.
        self._sent = call.reply is not None
        self._until = 0.0

    async def run(self, task: str, inputs: Mapping[str, Json]) -> Json:
        """Returns the result or raises what is certain; cancelling the call cancels the task."""
        try:
            if self._call.reply is None:
                attempt = self._call.attempt
                await self._start(task, inputs, mark=str(attempt), is_first=attempt == 1)
            else:
                await self._continue(
                    asked_by(self._call.reply), self._call.reply.answer, task, inputs
                )
            if self._answer is None:
                await self._follow()
            return self._result()
        except asyncio.CancelledError:
            await self._cancel()
            raise
        except Rejected:
            raise
        except ToolFailed as failed:
            if isinstance(failed, TooMuch):
                await self._cancel()
            raise failure_of_call(failed, sent=self._sent) from None

    async def _start(
        self, task: str, inputs: Mapping[str, Json], *, mark: str, is_first: bool
    ) -> None:
        """Sends the task, unless an earlier attempt already sent it."""
        if not is_first and await self._was_sent_before():
            return
        await self._send(self._work_parts(task, inputs), mark=mark)
        if not self._task.id and self._answer is None:
            await self._find_lost_task()

    async def _was_sent_before(self) -> bool:
        """Whether the agent already has this task; it is then continued."""
        found = await self._listed_tasks()
        self._known = {each.id for each in found}
        self._sent = self._sent or bool(found)
        under_way = [each.id for each in found if each.state not in ENDED_BADLY]
        if under_way:
            self._task = await self._exchange.task(under_way[0])
        return bool(under_way)

    async def _send(self, parts: list[Part], *, mark: str) -> None:
        """Sends one message; remembers a lost answer, since the agent may have created the task."""
        message = _id(f"{self._call.key}\n{mark}")
        context, task = self._task.context or self._context, self._task.id
        stream = self._exchange.send(parts, message=message, context=context, task=task)
        before, self._sent = self._sent, True
        try:
            self._why = await self._listen(stream)
        except (NotSent, Untrusted):
            self._sent = before
            raise

    async def _listen(self, stream: AsyncGenerator[News]) -> str:
        """Reads a stream until nothing more is to be waited for, and returns why it ended.

        An error before the first update is the result; after it, the state of the task decides.
        """
        before = self._updates
        try:
            async with aclosing(stream) as updates:
                async for news in updates:
                    self._apply(news)
                    if self._answer is not None or self._is_settled():
                        return ""
        except Cut as cut:
            self._retry_after = cut.retry_after
            return str(cut)
        except TooMuch:
            raise
        except ToolFailed as failed:
            if self._updates == before:
                raise
            return str(failed)
        return Sentence("the agent's stream ended early")

    def _apply(self, news: News) -> None:
        self._updates += 1
        if self._updates > self._limits.updates:
            raise TooMuch(
                Sentence(
                    "{name} sent more than {most} updates",
                    name=self._name,
                    most=self._limits.updates,
                )
            )
        if isinstance(news, Message):
            self._answer = news
            return
        task_id = news.id if isinstance(news, Task) else news.task
        if self._task.id and task_id and task_id != self._task.id:
            raise Cut(Sentence("the agent reported on a task that is not its own"))
        if isinstance(news, Task):
            self._task = news
        else:
            add(self._task, news)
        self._report(news)

    def _report(self, news: News) -> None:
        """Reports progress worth showing while the task runs."""
        if isinstance(news, Message):
            return
        if isinstance(news, (Task, StatusNews)):
            status = news.message.text if news.message else ""
            self._call.progress((status or news.state.value)[:500])
            return
        text = news.artifact.text or news.artifact.name
        if text:
            self._call.progress(text[:500])

    def _is_settled(self) -> bool:
        """Whether the task is over or waits for us; a question just answered does not count."""
        if self._task.state not in SETTLED:
            return False
        return self._task.state not in WAITING or question_of(self._task) != self._answered

    async def _find_lost_task(self) -> None:
        """Looks for the task of a message whose answer was lost; never sends the message again."""
        wait, until = _FIRST_WAIT, self._clock.monotonic() + self._limits.lost_s
        while True:
            with suppress(ToolFailed):
                found = [each for each in await self._listed_tasks() if each.id not in self._known]
                if found:
                    self._task = await self._exchange.task(found[0].id)
                    return
            if self._clock.monotonic() + wait > until:
                break
            await self._clock.sleep(wait)
            wait *= 2
        self._raise_unknown_outcome("")

    async def _listed_tasks(self) -> list[Task]:
        """Returns the tasks of this call that the agent knows; none if it cannot list tasks."""
        try:
            return await self._exchange.tasks(self._context)
        except ToolBusy:
            raise
        except ToolFailed:
            return []

    async def _follow(self) -> None:
        """Follows a task until it is settled, through lost connections and silence."""
        wait, looks, streams = _FIRST_WAIT, 0, self._exchange.streams
        self._until = self._clock.monotonic() + self._limits.lost_s
        while not self._is_settled() and looks < _STALE_LOOKS:
            before, stale = self._updates, self._task.state in WAITING
            if streams and not stale:
                streams = await self._resubscribe()
            if not self._is_settled():
                await self._poll()
                looks += stale
            if not self._is_settled():
                wait = _FIRST_WAIT if self._updates > before else min(wait * 2, self._limits.poll_s)
                await self._clock.sleep(wait)

    async def _resubscribe(self) -> bool:
        """Listens to a running task again; returns whether another attempt makes sense."""
        try:
            self._why = await self._listen(self._exchange.subscribe(self._task.id))
        except TooMuch:
            raise
        except ToolBusy as busy:
            self._why = str(busy)
        except ToolFailed:
            # A task that ended meanwhile has no stream either; polling shows which it is.
            return False
        return True

    async def _poll(self) -> None:
        """Asks for the state of the task; retries for a while if the agent cannot be reached."""
        try:
            found = await self._exchange.task(self._task.id)
        except ToolBusy as error:
            self._why = str(error)
            if self._clock.monotonic() > self._until:
                self._raise_unknown_outcome(self._task.id)
        except (Gone, TooMuch):
            raise
        except ToolFailed as failed:
            self._why = str(failed)
            self._raise_unknown_outcome(self._task.id)
        else:
            self._until = self._clock.monotonic() + self._limits.lost_s
            self._take_state(found)

    def _take_state(self, task: Task) -> None:
        """Takes over the task's current state; fails if the protocol does not define it."""
        if task.state is State.UNKNOWN:
            raise ToolFailed(
                Sentence("{name} reports a task state that A2A does not define", name=self._name)
            )
        moved = (task.state, question_of(task)) != (self._task.state, question_of(self._task))
        if moved:
            self._apply(task)
        else:
            self._task = task

    def _raise_unknown_outcome(self, task: str) -> NoReturn:
        """Handles an unknown outcome: retries a read, otherwise asks the person."""
        if self._settings.effect is Effect.READ:
            raise ToolBusy(f"{self._name}: {self._why}", retry_after=self._retry_after)
        self._check_times()
        asked = Asked(task, self._context, LOST, "", self._times + 1, sorted(self._known))
        raise lost(asked, self._why, who=self._name)

    async def _continue(
        self, asked: Asked, answer: Json, task: str, inputs: Mapping[str, Json]
    ) -> None:
        """Continues what a question was about."""
        self._times = asked.times
        self._context, self._known = asked.context or self._context, set(asked.known)
        if asked.task:
            await self._send_answer(asked, answer)
        elif answer == SEND:
            await self._start(task, inputs, mark=f"again {asked.times}", is_first=False)
        else:
            self._why = Sentence("it still cannot be found")
            await self._find_lost_task()

    async def _send_answer(self, asked: Asked, answer: Json) -> None:
        """Sends an answer to the task that waits for it, unless the task has moved on."""
        try:
            self._task = await self._exchange.task(asked.task)
        except ToolBusy as away:
            self._why = str(away)
            self._raise_unknown_outcome(asked.task)
        waits = self._task.state in WAITING and question_of(self._task) == asked.question
        if asked.why == LOST or not waits:
            return
        if self._task.state is State.AUTH and answer == CANNOT:
            await self._cancel()
            raise ToolFailed(
                Sentence(
                    "{name} wanted a sign-in, and the person could not sign in", name=self._name
                )
            )
        self._answered = asked.question
        as_data = self._exchange.takes_data and survives(answer)
        parts = answer_parts(answer, as_data=as_data)
        await self._send(parts, mark=f"{asked.question} {asked.times}")

    def _work_parts(self, task: str, inputs: Mapping[str, Json]) -> list[Part]:
        """Makes the message of a task: its text, and its inputs in a form the agent accepts."""
        if not inputs:
            return [Part(text=task)]
        given: dict[str, Json] = dict(inputs)
        if self._exchange.takes_data and survives(given):
            return [Part(text=task), Part(data=given)]
        return [Part(text=f"{task}\n\nInputs (JSON):\n{json_text(given)}")]

    def _result(self) -> Json:
        """Returns the result, or raises how the call failed."""
        most = self._limits.binary_bytes
        if self._answer is not None:
            return message_result(self._answer, binary_bytes=most)
        if self._task.state is State.COMPLETED:
            return task_result(self._task, binary_bytes=most)
        if self._task.state in WAITING:
            self._check_times()
            still = question_of(self._task) == self._answered
            note = "(The last answer did not seem to arrive.) " if still else ""
            raise need_of(
                self._task, who=self._name, times=self._times, links=self._links, note=note
            )
        text = self._task.message.text if self._task.message else ""
        why = text[:2000] if text else Sentence("it does not say why")
        message = Sentence(_ENDINGS[self._task.state], name=self._name, why=why)
        raise (Rejected if self._task.state is State.REJECTED else ToolFailed)(message)

    def _check_times(self) -> None:
        if self._times >= self._limits.questions:
            raise ToolFailed(
                Sentence(
                    "{name} asked more than {most} times",
                    name=self._name,
                    most=self._limits.questions,
                ),
                hint=Sentence("raise the agent's limit `questions` to allow more"),
            )

    async def _cancel(self) -> None:
        """Asks the agent to cancel the task; does not wait until it does."""
        with suppress(PlansmithError, TimeoutError):
            async with asyncio.timeout(self._limits.cancel_s):
                if not self._task.id:
                    found = await self._listed_tasks()
                    self._task = next((each for each in found if each.state not in SETTLED), Task())
                if self._task.id and self._task.state not in ENDED_BADLY | {State.COMPLETED}:
                    await self._exchange.cancel(self._task.id)


def _id(text: str) -> str:
    """Makes a UUID from a text; the same text gives the same UUID."""
    return str(uuid.uuid5(_SPACE, text))
