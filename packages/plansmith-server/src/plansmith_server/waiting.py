"""Watches for what begins to wait for a person, and has that told in notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import clip, safe
from plansmith_server.ops.tasks import beside, in_role
from plansmith_server.settings import NoticeSettings
from plansmith_server.state import ServerState
from plansmith_server.team.notices import Notice
from plansmith_server.views import awaits_review

_BATCH: Final = 500
_AGAIN_S: Final = 1.0
_MOST_KNOWN: Final = 10_000
_LISTED: Final = 10
_LONG: Final = 300


class Waiting(NamedTuple):
    """One thing that waits for a person."""

    kind: Literal["review", "question"]
    run: str
    name: str
    goal: str
    text: str
    since: datetime | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.run, self.name

    @property
    def sentence(self) -> Sentence:
        """What has to be done."""
        goal = clip(safe(self.goal), 120)
        if self.kind == "review":
            return Sentence("A plan waits for your approval: {goal}", goal=goal)
        return Sentence("A question about “{goal}”: {text}", goal=goal, text=self.text)

    def to_json(self, page: str) -> dict[str, Json]:
        """Returns it as data, for programs, with where it can be decided."""
        return {
            "kind": self.kind,
            "run": self.run,
            "goal": self.goal,
            "text": self.text,
            "since": self.since.isoformat() if self.since else None,
            "link": f"{page.rstrip('/')}/#/runs/{self.run}",
        }


@asynccontextmanager
async def telling(state: ServerState, base: str) -> AsyncGenerator[None]:
    """Tells people what waits for them while the server serves; nothing without settings."""
    if not state.notices.channels:
        yield
        return

    async def tell() -> None:
        # One server of a folder does so: nobody is told twice.
        journals = state.smith.runs.journals
        while True:
            try:
                role = f"notices {journals.folder}"
                await in_role(journals.owners, role, lambda: _Follower(state, base).follow())
            except PlansmithError as error:
                state.log.warning("notices_stopped", error=str(error))
                await state.clock.sleep(_AGAIN_S)

    async with state.notices.sending(), beside(tell()):
        yield


class _Follower:
    """Keeps what waits, and when each channel is to be told of it."""

    def __init__(self, state: ServerState, base: str) -> None:
        self._state, self._base = state, base
        # The oldest first, which are forgotten when there are too many.
        self._known: dict[tuple[str, str, str], None] = {}
        # By the channel and the key of what waits.
        self._due: dict[tuple[str, tuple[str, str, str]], datetime] = {}

    async def follow(self) -> None:
        store = self._state.smith.store
        after = await store.wait_news(-1)
        for listed in await self._state.open_runs.all():
            self._note(listed.run, begun_before=True)
        while True:
            news = await store.news(after, limit=_BATCH)
            asked = {
                each.run
                for each, event in (await self._state.events.read(news)).items()
                if isinstance(event.body, e.ReviewAsked | e.QuestionAsked)
            }
            for name in sorted(asked):
                for run in await self._run(name):
                    self._note(run)
            after = news[-1].position if news else after
            await self._tell()
            if news:
                continue
            left = None
            if self._due:
                due = min(self._due.values()) - self._state.clock.now()
                left = max(0.0, due.total_seconds())
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await store.wait_news(after)

    async def _run(self, run_id: str) -> list[Run]:
        try:
            return [(await self._state.smith.runs.journals.load(run_id)).run]
        except PlansmithError:
            return []  # it was removed meanwhile, or is damaged: the page shows it

    def _note(self, run: Run, *, begun_before: bool = False) -> None:
        """Notes what waits; what was due before this server began was told by another one."""
        if not self._state.smith.runs.journals.is_here(run.folder):
            return
        now = self._state.clock.now()
        for one in waiting_items(run):
            if one.key in self._known:
                continue
            self._known[one.key] = None
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            for channel in self._state.notices.channels.values():
                start = (one.since or now) if begun_before else now
                due = start + timedelta(seconds=channel.settings.after_s)
                if one.kind in channel.settings.about and (due > now or not begun_before):
                    self._due[channel.name, one.key] = due

    async def _tell(self) -> None:
        """Tells each channel once of all that is due and still waits."""
        now, notices = self._state.clock.now(), self._state.notices
        ready = [each for each, due in self._due.items() if due <= now]
        runs = [run for name in {key[1] for _, key in ready} for run in await self._run(name)]
        waits = {one.key: one for run in runs for one in waiting_items(run)}
        for each in ready:
            del self._due[each]
        for channel in notices.channels.values():
            mine = [waits[key] for name, key in ready if name == channel.name and key in waits]
            if mine:
                notices.tell(channel, notice_of(channel.settings, mine, self._base))


def notice_of(settings: NoticeSettings, items: Sequence[Waiting], base: str) -> Notice:
    """Makes one notice about everything that is due."""
    page, language = settings.page or base, settings.language
    listed, more = [one.to_json(page) for one in items[:_LISTED]], len(items) - _LISTED
    lines = [
        f"{in_language(one.sentence, language)}\n{told['link']}"
        for one, told in zip(items, listed, strict=False)
    ]
    if more > 0:
        rest = Sentence("{count} more; the inbox has them all", count=more)
        lines.append(in_language(rest, language))
    title = Sentence("{count} things wait for you in Plansmith", count=len(items))
    if len(items) == 1:
        title = Sentence("Plansmith waits for you: {goal}", goal=clip(safe(items[0].goal), 80))
    data: dict[str, Json] = {"event": "waiting", "items": [*listed]}
    return Notice(in_language(title, language), "\n\n".join(lines), data)


def waiting_items(run: Run) -> Iterator[Waiting]:
    """Yields what a run waits for: the review of its plan, and answers to its questions."""
    goal, since = (run.plan.goal if run.plan else "") or run.request, run.updated_at
    if awaits_review(run) and run.plan is not None:
        yield Waiting("review", run.id, run.plan.hash, goal, "", since)
    for asked in run.questions.values():
        text = clip(safe(asked.text), _LONG)
        if asked.kind == "consent":  # its values are not told
            text = Sentence(
                "Plansmith asks whether {callee} may be called; the page shows with which values",
                callee=asked.callee,
            )
        yield Waiting("question", run.id, asked.question, goal, text, since)
