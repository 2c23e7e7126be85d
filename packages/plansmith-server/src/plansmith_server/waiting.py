"""Follows the runs for what begins to wait for a person, and has that told in notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import News
from plansmith.text import clip, safe
from plansmith_server.serialize import awaits_review
from plansmith_server.state import ServerState
from plansmith_server.team.notice_settings import NoticeSettings
from plansmith_server.team.notices import Channel, Notice
from plansmith_server.upkeep import in_role

_BATCH: Final = 500
_AGAIN_S: Final = 1.0
_MOST: Final = 10_000
_LISTED: Final = 10
_LONG: Final = 300
Key = tuple[str, str, str]


class Waiting(NamedTuple):
    """One thing that waits for a person."""

    kind: Literal["review", "question"]
    run: str
    name: str
    goal: str
    text: str
    since: datetime | None

    @property
    def sentence(self) -> Sentence:
        """What has to be done, as a sentence."""
        goal = clip(safe(self.goal), 120)
        if self.kind == "review":
            return Sentence("A plan waits for your approval: {goal}", goal=goal)
        return Sentence("A question about “{goal}”: {text}", goal=goal, text=self.text)

    def link(self, page: str) -> str:
        """Returns where it can be decided."""
        return f"{page.rstrip('/')}/#/runs/{self.run}"

    def to_json(self, page: str) -> dict[str, Json]:
        """Returns it as data, for programs."""
        return {
            "kind": self.kind,
            "run": self.run,
            "goal": self.goal,
            "text": self.text,
            "since": self.since.isoformat() if self.since else None,
            "link": self.link(page),
        }


@asynccontextmanager
async def telling(server_state: ServerState, base: str) -> AsyncGenerator[None]:
    """Tells people what waits for them while the server serves; nothing without settings."""
    if not server_state.notices.channels:
        yield
        return
    async with server_state.notices.sending():
        task = asyncio.create_task(_tell_alone(server_state, base))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _tell_alone(server_state: ServerState, base: str) -> None:
    """Tells as long as no other server of this folder does so: nobody is told twice."""
    journals = server_state.smith.runs.journals
    while True:
        try:
            role = f"notices {journals.folder}"
            await in_role(server_state, role, lambda: _Follower(server_state, base).follow())
        except PlansmithError as error:
            server_state.log.warning("notices_stopped", error=str(error))
            await journals.clock.sleep(_AGAIN_S)


class _Follower:
    """Keeps what waits, and when each channel is to be told of it."""

    def __init__(self, server_state: ServerState, base: str) -> None:
        self._state, self._base = server_state, base
        self._clock = server_state.smith.runs.journals.clock
        # The oldest first, which are forgotten when there are too many.
        self._known: dict[Key, None] = {}
        self._due: dict[tuple[str, Key], datetime] = {}

    async def follow(self) -> None:
        store = self._state.smith.store
        after = await store.wait_news(-1)
        for listed in await self._state.open_runs.all():
            self._note(listed.run, begun_before=True)
        while True:
            news = await store.news(after, limit=_BATCH)
            for run in await self._asking(news):
                self._note(run)
            after = news[-1].position if news else after
            await self._tell()
            if not news:
                await self._wait(after)

    async def _asking(self, news: Sequence[News]) -> list[Run]:
        """Returns the runs that have just asked a person for something."""
        found = await self._state.events.read(news)
        asked = {
            each.run
            for each, event in found.items()
            if isinstance(event.body, (e.ReviewAsked, e.QuestionAsked))
        }
        return [run for name in sorted(asked) for run in await self._run(name)]

    async def _run(self, run_id: str) -> list[Run]:
        try:
            return [(await self._state.smith.runs.journals.load(run_id)).run]
        except PlansmithError:
            return []  # it was removed meanwhile, or is damaged: the page shows it

    def _note(self, run: Run, *, begun_before: bool = False) -> None:
        """Notes what waits; what was due before this server began was told by another one."""
        if not self._state.smith.runs.journals.is_here(run.folder):
            return
        now = self._clock.now()
        for one in waiting_items(run):
            key = _key(one)
            if key in self._known:
                continue
            self._known[key] = None
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
            for channel in self._state.notices.channels.values():
                start = (one.since or now) if begun_before else now
                due = start + timedelta(seconds=channel.settings.after_s)
                if one.kind in channel.settings.about and (due > now or not begun_before):
                    self._due[channel.name, key] = due

    async def _tell(self) -> None:
        """Tells each channel once of all that is due and still waits."""
        now = self._clock.now()
        ready = [each for each, due in self._due.items() if due <= now]
        runs = {run.id: run for _, (_, name, _) in ready for run in await self._run(name)}
        found: dict[str, list[Waiting]] = {}
        for channel, key in ready:
            del self._due[channel, key]
            run = runs.get(key[1])
            items = {_key(one): one for one in waiting_items(run)} if run else {}
            if key in items:
                found.setdefault(channel, []).append(items[key])
        for channel, items_due in found.items():
            told = self._channel(channel)
            self._state.notices.tell(told, notice_of(told.settings, items_due, self._base))

    def _channel(self, name: str) -> Channel:
        return self._state.notices.channels[name]

    async def _wait(self, after: int) -> None:
        """Waits for more news, or until something is due."""
        tasks = [asyncio.ensure_future(self._state.smith.store.wait_news(after))]
        if self._due:
            left = (min(self._due.values()) - self._clock.now()).total_seconds()
            tasks.append(asyncio.ensure_future(self._until_due(left)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_due(self, seconds: float) -> int:
        await self._clock.sleep(max(0.0, seconds))
        return 0


def notice_of(settings: NoticeSettings, items: Sequence[Waiting], base: str) -> Notice:
    """Makes one notice about everything that is due."""
    page, language = settings.page or base, settings.language
    listed = items[:_LISTED]
    lines = [f"{in_language(one.sentence, language)}\n{one.link(page)}" for one in listed]
    if len(items) > _LISTED:
        lines.append(
            in_language(
                Sentence("{count} more; the inbox has them all", count=len(items) - _LISTED),
                language,
            )
        )
    title = Sentence("{count} things wait for you in Plansmith", count=len(items))
    if len(items) == 1:
        title = Sentence("Plansmith waits for you: {goal}", goal=clip(safe(items[0].goal), 80))
    data: dict[str, Json] = {"event": "waiting", "items": [one.to_json(page) for one in listed]}
    return Notice(in_language(title, language), "\n\n".join(lines), data)


def _question_text(asked: e.QuestionAsked) -> str:
    """Returns what a question asks; of a consent only the call, since its values are not told."""
    if asked.kind == "consent":
        return Sentence(
            "Plansmith asks whether {callee} may be called; the page shows with which values",
            callee=asked.callee,
        )
    return clip(safe(asked.text), _LONG)


def _key(one: Waiting) -> Key:
    return one.kind, one.run, one.name


def waiting_items(run: Run) -> Iterator[Waiting]:
    """Yields what a run waits for: the review of its plan, and answers to its questions."""
    goal, since = (run.plan.goal if run.plan else "") or run.request, run.updated_at
    if awaits_review(run) and run.plan is not None:
        yield Waiting("review", run.id, run.plan.hash, goal, "", since)
    for asked in run.questions.values():
        text = _question_text(asked)
        yield Waiting("question", run.id, asked.question, goal, text, since)
