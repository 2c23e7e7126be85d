"""Makes one call of a remote agent: sends the task, follows it, and never sends a message twice."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from time import monotonic
from typing import Final, NoReturn

from plansmith.errors import PlansmithError, ToolBusy, ToolFailed, failure_of_call
from plansmith.plan.data import Json, json_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call
from plansmith_connect.a2a import messages as m
from plansmith_connect.a2a.cards import Card, sign_in_links
from plansmith_connect.a2a.exchange import Exchange, Gone, News
from plansmith_connect.a2a.messages import Asked, Body, question_of, state_of
from plansmith_connect.a2a.settings import AgentSettings
from plansmith_connect.a2a.wire import Cut, NotSent, TooMuch, Untrusted

_FIRST_WAIT: Final = 0.1
# How often a task that still waits after an answer is polled before the person is asked again.
_STALE_LOOKS: Final = 6
_SPACE: Final = uuid.UUID("5b1c62f4-53a5-5b44-9d0f-0a6d2f3b7c11")
_ENDINGS: Final = {
    "failed": "a2a.ended_failed",
    m.REJECTED: "a2a.ended_refused",
    "canceled": "a2a.ended_cancelled",
}


class Rejected(ToolFailed):
    """The agent refused the task: the one end that says that the work was never begun."""


class RemoteTask:
    """One call: starts or continues a task, follows it, and returns how it ended."""

    def __init__(self, name: str, card: Card, settings: AgentSettings, call: Call) -> None:
        self._name, self._card, self._settings, self._call = name, card, settings, call
        self._limits = settings.limits
        # Made out of the call's key, so that another process finds the same work by it.
        self._context = _id(call.key)
        # As far as the agent has told us about it; empty before that.
        self._task: Body = {}
        self._answered = ""
        self._times = 0
        self._updates = 0
        self._why = ""
        self._retry_after: float | None = None
        # Whether any message of this work was sent; a question came after one.
        self._sent = call.reply is not None

    async def run(self, task: str, inputs: Mapping[str, Json], headers: Mapping[str, str]) -> Json:
        """Returns the result or raises what is certain; cancelling the call cancels the task."""
        async with Exchange(self._card, self._settings, headers=headers) as self._exchange:
            try:
                if self._call.reply is None:
                    await self._start(task, inputs)
                else:
                    await self._answer(m.asked_by(self._call.reply), self._call.reply.answer)
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

    async def _start(self, task: str, inputs: Mapping[str, Json]) -> None:
        """Sends the task, unless an earlier attempt already sent it: that is then followed."""
        known: set[str] = set()
        if self._call.attempt > 1:
            found = await self._listed_tasks()
            known = {each["id"] for each in found}
            self._sent = self._sent or bool(found)
            under_way = [each["id"] for each in found if state_of(each) not in m.ENDED_BADLY]
            if under_way:
                self._task = await self._exchange.task(under_way[0])
                return
        given: dict[str, Json] = dict(inputs)
        parts = [_text_part(task)]
        if given and self._exchange.takes(given):
            parts.append({"data": given, "mediaType": "application/json"})
        elif given:
            parts = [_text_part(f"{task}\n\nInputs (JSON):\n{json_text(given)}")]
        await self._send(parts, mark=str(self._call.attempt))
        if not self._task.get("id") and not self._is_settled():
            await self._find_lost_task(known)

    async def _send(self, parts: list[Body], *, mark: str) -> None:
        """Sends one message; remembers a lost answer, since the agent may have created the task."""
        stream = self._exchange.send(
            parts,
            messageId=_id(f"{self._call.key}\n{mark}"),
            contextId=self._task.get("contextId") or self._context,
            taskId=self._task.get("id", ""),
        )
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
                async for kind, news in updates:
                    self._apply(kind, news)
                    if self._is_settled():
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

    def _apply(self, kind: str, news: Body) -> None:
        """Applies an update, and reports what is worth showing while the task runs."""
        self._updates += 1
        if self._updates > self._limits.updates:
            most = self._limits.updates
            why = Sentence("{name} sent more than {most} updates", name=self._name, most=most)
            raise TooMuch(why)
        if kind == "message":
            self._task = m.completed(news)
            return
        task = news.get("id" if kind == "task" else "taskId", "")
        if task and task != (self._task.get("id") or task):
            raise Cut(Sentence("the agent reported on a task that is not its own"))
        if kind == "task":
            self._task = news
        else:
            m.add(self._task, news)
        made = news.get("artifact")
        if made is None:
            self._call.progress((m.text_of(m.message_of(news)) or state_of(news))[:500])
        elif text := m.text_of(made, "") or str(made.get("name", "")):
            self._call.progress(text[:500])

    def _is_settled(self) -> bool:
        """Whether the task is over or waits for us; a question just answered does not count."""
        state = state_of(self._task)
        return state in m.SETTLED and (
            state not in m.WAITING or question_of(self._task) != self._answered
        )

    async def _find_lost_task(self, known: set[str]) -> None:
        """Looks for the task of a message whose answer was lost; never sends the message again."""
        wait, until = _FIRST_WAIT, monotonic() + self._limits.lost_s
        while True:
            with suppress(ToolFailed):
                found = [each["id"] for each in await self._listed_tasks()]
                new = [each for each in found if each not in known]
                if new:
                    self._task = await self._exchange.task(new[0])
                    return
            if monotonic() + wait > until:
                self._raise_lost()
            await asyncio.sleep(wait)
            wait *= 2

    async def _listed_tasks(self) -> list[Body]:
        """Returns the tasks of this call that the agent knows; none if it cannot list tasks."""
        try:
            return await self._exchange.tasks(self._context)
        except ToolBusy:
            raise
        except ToolFailed:
            return []

    async def _follow(self) -> None:
        wait, looks, streams = _FIRST_WAIT, 0, self._exchange.streams
        self._until = monotonic() + self._limits.lost_s
        while not self._is_settled() and looks < _STALE_LOOKS:
            before, is_stale = self._updates, state_of(self._task) in m.WAITING
            if streams and not is_stale:
                streams = await self._resubscribe()
            if not self._is_settled():
                await self._poll()
                looks += is_stale
            if not self._is_settled():
                wait = _FIRST_WAIT if self._updates > before else min(wait * 2, self._limits.poll_s)
                await asyncio.sleep(wait)

    async def _resubscribe(self) -> bool:
        """Listens to a running task again; returns whether another attempt makes sense."""
        try:
            self._why = await self._listen(self._exchange.subscribe(self._task["id"]))
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
            found = await self._exchange.task(self._task["id"])
        except ToolBusy as error:
            self._why = str(error)
            if monotonic() > self._until:
                self._raise_lost()
            return
        except (Gone, TooMuch):
            raise
        except ToolFailed as failed:
            self._why = str(failed)
            self._raise_lost()
        self._until = monotonic() + self._limits.lost_s
        if state_of(found) == m.UNKNOWN:
            why = Sentence("{name} reports a task state that A2A does not define", name=self._name)
            raise ToolFailed(why)
        if (state_of(found), question_of(found)) == (state_of(self._task), question_of(self._task)):
            self._task = found
        else:
            self._apply("task", found)

    def _raise_lost(self) -> NoReturn:
        """Says that nobody knows how the work ended; the engine tries again or asks the person."""
        why = Sentence("the answer of {name} was lost: {why}", name=self._name, why=self._why)
        if task := self._task.get("id"):
            why = Sentence(
                "it is unknown how the task {task} of {name} ended: {why}",
                task=task,
                name=self._name,
                why=self._why,
            )
        raise ToolBusy(why, retry_after=self._retry_after)

    async def _answer(self, asked: Asked, answer: Json) -> None:
        """Sends an answer to the task that waits for it, unless the task has moved on."""
        self._times, self._context = asked.times, asked.context or self._context
        self._task = await self._exchange.task(asked.task)
        if state_of(self._task) not in m.WAITING or question_of(self._task) != asked.question:
            return
        if state_of(self._task) == m.AUTH and answer == m.CANNOT:
            await self._cancel()
            why = Sentence(
                "{name} wanted a sign-in, and the person could not sign in", name=self._name
            )
            raise ToolFailed(why)
        self._answered = asked.question
        part: Body = {"mediaType": "application/json"}
        if isinstance(answer, str):
            part = _text_part(answer)
        elif self._exchange.takes(answer):
            part["data"] = answer
        else:
            part["text"] = json.dumps(answer, ensure_ascii=False)
        await self._send([part], mark=f"{asked.question} {asked.times}")

    def _result(self) -> Json:
        state = state_of(self._task)
        if state == m.COMPLETED:
            return m.result_of(self._task, binary_bytes=self._limits.binary_bytes)
        if state in m.WAITING:
            self._check_times()
            is_unchanged = question_of(self._task) == self._answered
            note = "(The last answer did not seem to arrive.) " if is_unchanged else ""
            links = sign_in_links(self._card)
            raise m.need_of(self._task, who=self._name, times=self._times, links=links, note=note)
        why = m.text_of(m.message_of(self._task))[:2000] or Sentence("it does not say why")
        message = Sentence(_ENDINGS[state], name=self._name, why=why)
        raise (Rejected if state == m.REJECTED else ToolFailed)(message)

    def _check_times(self) -> None:
        most = self._limits.questions
        if self._times >= most:
            why = Sentence("{name} asked more than {most} times", name=self._name, most=most)
            hint = Sentence("raise the agent's limit `questions` to allow more")
            raise ToolFailed(why, hint=hint)

    async def _cancel(self) -> None:
        with suppress(PlansmithError, TimeoutError):
            async with asyncio.timeout(self._limits.cancel_s):
                if not self._task.get("id"):
                    found = await self._listed_tasks()
                    running = (each for each in found if state_of(each) not in m.SETTLED)
                    self._task = next(running, Body())
                is_over = state_of(self._task) in m.ENDED_BADLY | {m.COMPLETED}
                if self._task.get("id") and not is_over:
                    await self._exchange.cancel(self._task["id"])


def _text_part(text: str) -> Body:
    return {"text": text, "mediaType": "text/plain"}


def _id(text: str) -> str:
    return str(uuid.uuid5(_SPACE, text))
