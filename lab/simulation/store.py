"""The store that simulated processes share: it can be slow, full, cut off and restarted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.simulation.timeline import Timeline
from plansmith.errors import StoreAway
from plansmith.ports import Claim, Heartbeat
from plansmith.schedules.schedule import Fire, Schedule
from plansmith.store.memory import MemoryStore

if TYPE_CHECKING:
    from plansmith.plan.events import Event

NOBODY = Claim("", 0)
WRITES = frozenset(
    {
        *("append", "put", "claim", "release", "renew_lease", "set_aside", "delete_run"),
        *("put_documents", "remove_documents", "keep_summaries"),
    }
)


class StoreServer(MemoryStore):
    """The database itself, which outlives all processes; claims and leases as in SQL."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._processes: dict[str, tuple[Heartbeat, float]] = {}
        self.listeners: list[Callable[[str], None]] = []
        self.before_delete: Callable[[str], object] = lambda _: None

    async def append(
        self, events: Sequence[Event], values: Sequence[Any] = (), **told: Any
    ) -> None:
        """Stores events as every store does, and tells whoever listens."""
        await super().append(events, values, **told)
        if events:
            for tell in [*self.listeners]:
                tell(events[0].run)

    async def delete_run(self, run: str, **told: Any) -> bool:
        """Deletes a run as every store does; whoever watches sees it for the last time."""
        self.before_delete(run)
        return await super().delete_run(run, **told)

    async def claim(
        self, run: str, owner: str, *, instead_of: int = 0, renewals: int = -1
    ) -> Claim:
        """Claims a run; with `renewals` only if the owner has not renewed its lease since then."""
        found = self._claims.get(run)
        if found is not None and found.owner and found.term == instead_of and renewals >= 0:
            known = self._processes.get(found.owner)
            if (known[0].renewals if known else 0) != renewals:
                instead_of = -1
        return await super().claim(run, owner, instead_of=instead_of)

    async def renew_lease(self, heartbeat: Heartbeat) -> None:
        """Renews the lease of a process, and counts that."""
        known = self._processes.get(heartbeat.process)
        about = known[0].about if known and heartbeat.about.kind == "program" else heartbeat.about
        count = known[0].renewals + 1 if known else 1
        self._processes[heartbeat.process] = (
            heartbeat._replace(about=about, renewals=count),
            self._now(),
        )

    async def processes(self) -> Sequence[Heartbeat]:
        """Returns all processes, with the time since their last renewal."""
        now = self._now()
        found = sorted(self._processes.items())
        return [heartbeat._replace(silent_s=now - seen) for _, (heartbeat, seen) in found]

    @property
    def journals(self) -> Mapping[str, Sequence[Event]]:
        """All journals."""
        return self._events

    @property
    def stones(self) -> Sequence[Any]:
        """The tombstones of deleted runs."""
        return self._tombstones

    @property
    def texts(self) -> Mapping[str, bytes]:
        """All values, by their hashes."""
        return self._values

    def all_fires(self, schedule: str) -> list[Fire]:
        """Returns the fires of a schedule."""
        found = [each for each in self._documents.values() if each.kind == "fire"]
        return [Fire.model_validate_json(each.body) for each in found if each.label == schedule]

    def all_schedules(self) -> list[Schedule]:
        """Returns all schedules."""
        found = [each for each in self._documents.values() if each.kind == "schedule"]
        return [Schedule.model_validate_json(each.body) for each in found]

    def claim_now(self, run: str) -> Claim:
        """Returns the claim of a run; without an owner if there is none."""
        return self._claims.get(run, NOBODY)

    def has_lease(self, process: str) -> bool:
        """Whether the lease of a process is not over; one that closes ends it itself."""
        known = self._processes.get(process)
        return known is not None and 0 < known[0].lease_s >= self._now() - known[1]

    async def position(self) -> int:
        """Returns the position of the newest event."""
        return self._newest()

    async def length(self, run: str) -> int:
        """Returns the number of a run's last event."""
        return len(self._events.get(run, ()))


class Weather(NamedTuple):
    """What is wrong with the store now."""

    is_slow: bool = False
    is_full: bool = False
    is_away: bool = False
    cut_off: frozenset[str] = frozenset()
    loses_answers: float = 0.0


class SharedStore:
    """The server and everything on its way to it."""

    does_fence = True

    def __init__(self, timeline: Timeline, rng: random.Random) -> None:
        self.server = StoreServer(lambda: timeline.now)
        self.timeline = timeline
        self.rng = rng
        self.weather = Weather()
        self.open: dict[Request, None] = {}
        self.connections: list[Connection] = []
        self.watch: Callable[[Request], None] = lambda _: None

    def restart(self) -> None:
        """Every connection is lost: what was asked for is done or not, and no answer comes."""
        for request in [*self.open]:
            if not request.is_done and self.rng.random() < 0.5:
                request.execute()
            request.lose()
        for connection in self.connections:
            connection.lose_listeners()

    def change_weather(self, weather: Weather) -> None:
        """Begins or ends trouble; who is cut off loses what is on its way."""
        before, self.weather = self.weather, weather
        gone = weather.cut_off - before.cut_off
        if weather.is_away and not before.is_away:
            self.restart()
        elif gone:
            for request in [each for each in self.open if each.process in gone]:
                request.lose()
            for connection in self.connections:
                if connection.process in gone:
                    connection.lose_listeners()

    def can_reach(self, process: str) -> bool:
        """Tells whether a process gets through to the server."""
        return not self.weather.is_away and process not in self.weather.cut_off

    def delay(self) -> float:
        """Returns how long a message takes: mostly no time."""
        slow = self.weather.is_slow
        if self.rng.random() < (0.2 if slow else 0.8):
            return 0.0
        return self.rng.random() * (8.0 if slow else 0.2)


class Request:
    """One operation on its way to the server and back."""

    def __init__(
        self, connection: Connection, name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self.store = connection.store
        self.process, self.name = connection.process, name
        self.args, self.options = args, options
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.is_done = False
        self.result: Any = None
        self.error: Exception | None = None

    def send(self) -> None:
        """Begins its way."""
        store = self.store
        store.open[self] = None
        delay = store.delay()
        if delay:
            store.timeline.call_later(delay, self._arrive)
        else:
            self._arrive()

    def _arrive(self) -> None:
        store = self.store
        if self not in store.open:
            return  # lost on its way
        if not store.can_reach(self.process):
            store.timeline.call_later(store.rng.choice((0.0, 0.1, 2.0)), self.lose)
        elif store.weather.is_full and self.name in WRITES:
            self.error = StoreAway("the disk of the store is full")
            self._answer()
        else:
            self.execute()
            if store.weather.loses_answers and store.rng.random() < store.weather.loses_answers:
                self.lose()
            elif delay := store.delay():
                store.timeline.call_later(delay, self._answer)
            else:
                self._answer()

    def execute(self) -> None:
        """Does it, in one step that nothing can get into."""
        self.is_done = True
        options = self.options
        if not self.store.does_fence and "term" in options:
            options = {name: value for name, value in options.items() if name != "term"}
        work = getattr(self.store.server, self.name)(*self.args, **options)
        try:
            work.send(None)
        except StopIteration as end:
            self.result = end.value
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self.error = error
        else:
            raise AssertionError(f"{self.name} waits inside the server")
        self.store.watch(self)

    def lose(self) -> None:
        """No answer comes, whether or not it was done."""
        if self in self.store.open:
            self.error = StoreAway("the connection to the store was lost")
            self._answer()

    def _answer(self) -> None:
        if self not in self.store.open:
            return
        del self.store.open[self]
        if self.reply.done():
            return  # whoever asked was cancelled meanwhile
        if self.error is not None:
            self.reply.set_exception(self.error)
        else:
            self.reply.set_result(self.result)


class Connection:
    """The store as one process holds it."""

    def __init__(self, store: SharedStore, process: str) -> None:
        self.store = store
        self.process = process
        self.is_over = False
        self.heard: Callable[[Sequence[Event], float], None] = lambda *_: None
        self._listening: dict[asyncio.Future[None], str] = {}
        store.connections.append(self)
        store.server.listeners.append(self._tell)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(StoreServer, name):
            raise AttributeError(name)

        async def ask(*args: Any, **options: Any) -> Any:
            return await self._ask(name, args, options)

        self.__dict__[name] = ask
        return ask

    async def _ask(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self.is_over:
            raise asyncio.CancelledError
        began = self.store.timeline.now
        request = Request(self, name, args, options)
        request.send()
        result = await request.reply
        if name in ("append", "events"):
            self.heard(args[0] if name == "append" else result, began)
        return result

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Returns when the run has an event after the number, whoever wrote it."""
        while True:
            news = self._listen(run)
            if await self._ask("length", (run,), {}) > after:
                self._listening.pop(news, None)
                return
            await news

    async def wait_news(self, after: int) -> int:
        """Returns the newest position once it is after the given one."""
        while True:
            news = self._listen("")
            position: int = await self._ask("position", (), {})
            if position > after:
                self._listening.pop(news, None)
                return position
            await news

    async def close(self) -> None:
        """Does nothing: the server lives on."""

    def _listen(self, run: str) -> asyncio.Future[None]:
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listening[news] = run
        return news

    def _tell(self, run: str) -> None:
        """Brings the news of an append to whoever waits for it."""
        if not self._listening or self.is_over:
            return
        for news, wanted in [*self._listening.items()]:
            if wanted in ("", run):
                del self._listening[news]
                delay = self.store.delay()
                if delay:
                    self.store.timeline.call_later(delay, partial(_set, news))
                else:
                    _set(news)

    def lose_listeners(self) -> None:
        """Whoever waits for news is told that the connection is gone."""
        listening, self._listening = self._listening, {}
        for news in listening:
            if not news.done():
                news.set_exception(StoreAway("the connection to the store was lost"))

    def end(self) -> None:
        """The process is dead: nothing reaches it any more."""
        self.is_over = True
        self.store.connections.remove(self)
        self.store.server.listeners.remove(self._tell)


def _set(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)
