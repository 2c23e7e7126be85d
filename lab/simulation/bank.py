"""What exists outside of all processes: the services that tools call, and what really happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.simulation.plans import WRITES, found_items
from plansmith.errors import InputNeeded, OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.ports import Call

if TYPE_CHECKING:
    from lab.simulation.process import Process
    from lab.simulation.world import World

SECRET = "canary-7f3a"
What = tuple[str, str, str]


@dataclass(frozen=True)
class Made:
    """An effect that took place; `chain` is the first of the runs that continue each other."""

    tool: str
    id: str
    key: str
    chain: str
    at: float

    @property
    def what(self) -> What:
        """What is never to happen twice unasked."""
        return self.tool, self.id, self.chain


class Bank:
    """Pays, posts and reads; it is asked over a network that is slow and loses answers."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self._rng = rng
        self.made: list[Made] = []
        # Calls on their way, and calls that ended on their way although a person counted on that.
        self.on_the_way: Counter[What] = Counter()
        self.replies: dict[str, list[Any]] = {}
        self._by_key: dict[str, Made] = {}

    async def ask(self, process: Process, tool: str, name: str, call: Call) -> Any:
        """Sends a request from a process; what comes of it does not depend on that process."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        run = call.key.split("/", maxsplit=1)[0]
        what = tool, name, self.world.chain(run)
        if tool in WRITES:
            self.world.sent(process, tool, name, call)
            self.on_the_way[what] += 1
        arrival = _Arrival(self, process, tool, what, call, reply)
        self.after_a_while(arrival.happen)
        return await reply

    def after_a_while(self, act: Callable[[], None]) -> None:
        """Lets a message arrive: mostly at once."""
        if self._rng.random() < 0.6:
            act()
            return
        waits = (0.01, 0.1, 0.4, 3.0) if self.world.calm else (0.01, 0.4, 3.0, 9.0)
        self.world.timeline.call_later(self._rng.choice(waits), act)

    def trouble(self, probability: float) -> bool:
        """Tells whether something goes wrong now."""
        return not self.world.calm and self._rng.random() < probability

    def act(self, tool: str, name: str, key: str, chain: str) -> None:
        """An effect takes place; a service with keys does the same thing only once."""
        if tool == "post" and key in self._by_key:
            return
        made = Made(tool, name, key, chain, self.world.timeline.now)
        self._by_key[key] = made
        self.made.append(made)
        self.world.happened(made)


def _after_acting(number: int) -> Exception:
    """Returns one of the ways in which a service that has acted answers with an error."""
    ways = (
        RuntimeError(f"the connection was reset ({SECRET})"),
        OutcomeUnknown(f"HTTP 503 ({SECRET})", retry_after=30.0),
        InputNeeded("Which account?", schema={"type": "no such type"}),
    )
    return ways[number % len(ways)]


class _Arrival:
    """A request that reaches the bank, and the answer that goes back."""

    def __init__(
        self,
        bank: Bank,
        process: Process,
        tool: str,
        what: What,
        call: Call,
        reply: asyncio.Future[Any],
    ) -> None:
        self._bank, self._process = bank, process
        self._tool, self._what, self._call = tool, what, call
        self._reply = reply

    def happen(self) -> None:
        """Does what was asked for, or not, and sends the answer."""
        bank, tool = self._bank, self._tool
        bank.on_the_way[self._what] -= tool in WRITES
        answer: Any
        if bank.trouble(0.08):
            answer = ToolFailed(f"nothing was done with {SECRET}")
        elif bank.trouble(0.05):
            answer = ToolBusy("later")
        elif tool not in WRITES:
            answer = {"items": found_items(self._what[1], self._epoch)}
        else:
            answer = self._effect()
        bank.after_a_while(lambda: self._answer(answer))

    @property
    def _epoch(self) -> int:
        """Only what looks of the plan itself find changes, and its rounds."""
        run, root, *_ = self._call.key.split("/")
        seen = self._bank.world.view(run)
        plan = seen.plan if seen is not None else None
        is_own = plan is not None and root in plan.by_id and plan.by_id[root].kind == "tool"
        return self._bank.world.epoch if is_own else 0

    def _effect(self) -> Any:
        """The effect takes place; what is told about it is another matter."""
        bank, (_, name, chain) = self._bank, self._what
        bank.act(self._tool, name, self._call.key, chain)
        if bank.trouble(0.06):
            return _after_acting(len(bank.made))
        told: dict[str, Any] = {"paid": name}
        if bank.trouble(0.02):
            told = {"odd": True}
            if self._tool != "clerk":  # the others have promised another shape
                return told
        bank.replies.setdefault(self._call.key, []).append(told)
        return told

    def _answer(self, answer: Any) -> None:
        if self._reply.done() or not self._process.is_alive:
            return
        if isinstance(answer, Exception):
            self._reply.set_exception(answer)
        else:
            self._reply.set_result(answer)
