"""A world in which everything goes wrong by a seed: processes die, tools lie, the model attacks."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

from tests.simulation.loop import LoopClock
from tests.simulation.plans import WRITES, Drafter, found_items
from tests.simulation.twists import TWISTS, again, no_question, other_payee, unguarded

from plansmith import Effect, Plan, Plansmith
from plansmith.adapters.stores.memory import MemoryStore
from plansmith.config import Settings
from plansmith.engine.budget import BudgetLimits
from plansmith.engine.claim_store import Claim
from plansmith.errors import PlanInvalid, RunBusy, ToolBusy, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith.templates.book import TemplateBook

NO_TRIAGE = Settings.model_validate({"planner": {"triage": False}})
_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
_PARAMETERS = {"type": "object", "properties": {"tag": {"type": "string"}}}
_PAID = {"type": "object", "properties": {"paid": {"type": "string"}}, "required": ["paid"]}


@dataclass(frozen=True)
class Made:
    """An effect that took place."""

    tool: str
    id: str
    key: str
    chain: str


class World:
    """What outlives every process: the store, the bank that is paid, and the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.store = MemoryStore()
        self.made: list[Made] = []
        self.is_scheduled = self.rng.random() < 0.1
        self.drafter = Drafter(random.Random(seed + 1), asks=not self.is_scheduled)
        self.plan = self.drafter.plan()
        self.data: Literal["show", "ask"] = self.rng.choice(["show", "ask"])
        self.calm = False
        self.over = False
        self.processes: list[Process] = []
        self.owners: dict[str, Process] = {}
        self.budget = BudgetLimits(steps=self.rng.choice([None, None, 9]))
        self.is_stored = self.rng.random() < 0.5  # whether templates are in the store, or given
        self.chains: dict[str, str] = {}
        self.never: list[asyncio.Future[None]] = []
        self._turns: Counter[str] = Counter()

    @property
    def templates(self) -> dict[str, Plan]:
        return self.drafter.templates

    def next_id(self) -> str:
        """Ids that are the same each time the seed is played."""
        self._turns["id"] += 1
        return f"run-{self._turns['id']}"

    def boot(self) -> Process:
        """One more process on the store."""
        process = Process(self)
        self.processes.append(process)
        return process

    def chance(self, about: str, probability: float) -> bool:
        """Whether something goes wrong, decided by the seed and by what it is about alone."""
        self._turns[about] += 1
        dice = random.Random(f"{self.seed}/{about}/{self._turns[about]}")
        return not self.calm and dice.random() < probability

    def act(self, tool: str, name: str, key: str) -> None:
        """An effect; a keyed service does the same thing only once."""
        if tool == "post" and any(each.key == key for each in self.made):
            return
        self.made.append(Made(tool, name, key, self.chain(key.split("/", maxsplit=1)[0])))

    def chain(self, run: str) -> str:
        """The first of the runs that continue each other."""
        return self.chains.get(run, run)

    async def save_templates(self) -> None:
        """Keep the templates in the store, one for all processes, or hand them to the next one."""
        if self.is_stored:
            book = TemplateBook(self.boot().smith)
            for name, plan in sorted(self.templates.items(), reverse=True):
                known = {"name": name, "parameters": _PARAMETERS, "plan": plan.to_json()}
                with suppress(PlanInvalid):  # templates in maps in templates go only so deep
                    await book.take_in(json.dumps(known))

    async def change_template(self) -> None:
        """Somebody saves a template anew: from now on it does something else."""
        name = self.rng.choice(sorted(self.templates))
        value = json.loads(json.dumps(self.templates[name].to_json()))
        self.rng.choice([other_payee, no_question, unguarded, again])(value, self.rng)
        self.templates[name] = Plan.model_validate(value)
        await self.save_templates()


class Process:
    """One Plansmith on the world's store, until it dies: then it does nothing more, for ever."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dead = asyncio.Event()
        self.smith = Plansmith(
            model=Adversary(world),
            tools=[Tools(self)],
            store=cast("Any", Handle(self)),
            clock=LoopClock(),
            agents=[Clerk(self)],
            templates={} if world.is_stored else dict(world.templates),
            budget=world.budget,
            settings=NO_TRIAGE,
            ids=world.next_id,
            limits=Limits(
                first_wait_s=0.1,
                grace_s=0.5,
                width=world.rng.choice([1, 2, 8]),
                data=world.data,
            ),
        )

    async def do(self, deed: Callable[[Plansmith], Awaitable[Any]]) -> Any:
        """Do something in this process; nothing comes back when it dies meanwhile."""
        work = asyncio.ensure_future(deed(self.smith))
        death = asyncio.ensure_future(self.dead.wait())
        await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        return work.result() if work.done() else None

    async def begin_call(self, callee: str, call: Call) -> None:
        """A call takes a moment, in which its process may die; then it may fail for certain."""
        world, about = self.world, f"{callee}/{call.key}"
        await asyncio.sleep(world.rng.choice([0, 0.01, 0.3]))
        if world.chance(f"{about}/before", 0.04):
            self.dead.set()
        if self.dead.is_set():
            await self.vanish()
        if world.chance(f"{about}/fails", 0.12):
            raise ToolFailed("nothing was done")
        if world.chance(f"{about}/busy", 0.05):
            raise ToolBusy("later")

    async def have_effect(self, callee: str, name: str, call: Call) -> Json:
        """The effect takes place; what is told about it is another matter."""
        world, about = self.world, f"{callee}/{call.key}"
        world.act(callee, name, call.key)
        if world.chance(f"{about}/after", 0.04):
            self.dead.set()
            await self.vanish()
        if world.chance(f"{about}/lies", 0.05):
            raise RuntimeError("the connection was reset")
        if world.chance(f"{about}/advises", 0.02):
            call.advise(world.rng.choice(["replan", "finish"]), "enough of this")
        await asyncio.sleep(0)
        if self.dead.is_set():
            await self.vanish()
        return {"odd": True} if world.chance(f"{about}/odd", 0.03) else {"paid": name}

    async def vanish(self) -> None:
        """A dead process goes no further; when the world ends, its tasks are let go."""
        if self.world.over:
            raise asyncio.CancelledError
        never = asyncio.get_running_loop().create_future()
        self.world.never.append(never)  # else what waits for it would be collected, half-way
        await never


class Handle:
    """The store as one process holds it: an append may be the last thing the process does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Any] = (), **told: Any
    ) -> None:
        if not events:
            return
        world, last = self._process.world, events[-1]
        dies = world.chance(f"append/{last.run}/{last.number}", 0.06)
        written = world.chance(f"written/{last.run}/{last.number}", 0.5)
        await self._alive()
        if not dies or written:
            await world.store.append(events, values, **told)
        if dies:
            self._process.dead.set()
        await self._alive()

    async def claim(self, run: str, owner: str, *, instead_of: int = 0, beats: int = -1) -> Claim:
        """Only what a dead process owned, or none, is had: all processes here have one number."""
        del instead_of, beats
        await self._alive()
        world = self._process.world
        found = world.owners.setdefault(run, self._process)
        if found is not self._process and not found.dead.is_set():
            raise RunBusy(f"run {run} is being run by another process")
        before = await world.store.claim_of(run)
        if before is not None and before.owner and found is self._process:
            return before
        world.owners[run] = self._process
        return await world.store.claim(run, owner, instead_of=before.term if before else 0)

    async def release(self, run: str, term: int, *, unfinished: bool = False) -> None:
        """Let go of what is owned."""
        await self._alive()
        if self._process.world.owners.get(run) is self._process:
            del self._process.world.owners[run]
        await self._process.world.store.release(run, term, unfinished=unfinished)

    async def _alive(self) -> None:
        if self._process.dead.is_set() or self._process.world.over:
            await self._process.vanish()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._process.world.store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._alive()
            result = await method(*args, **kwargs)
            await self._alive()
            return result

        return call if asyncio.iscoroutinefunction(method) else method


class Tools:
    """`look` reads, `pay` acts once a call, `post` acts once a key; all of them may fail."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def tools(self) -> Sequence[ToolSpec]:
        """The three tools."""
        write = {"input_schema": _SCHEMA, "output_schema": _PAID, "effect": Effect.WRITE}
        return [
            ToolSpec(name="look", input_schema={"type": "object"}, effect=Effect.READ),
            ToolSpec.model_validate({"name": "pay"} | write),
            ToolSpec.model_validate({"name": "post", "idempotent": True} | write),
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """A call: it takes a moment, in which its process may die, before or after the effect."""
        await self._process.begin_call(tool, call)
        if tool not in WRITES:
            return {"items": [*found_items(arguments.get("n"))]}
        return await self._process.have_effect(tool, str(arguments["id"]), call)


class Clerk:
    """An agent that pays in its own way, and fails like a tool."""

    spec = AgentSpec(name="clerk", effect=Effect.FINAL)

    def __init__(self, process: Process) -> None:
        self._process = process

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Pay what the task says."""
        del inputs
        await self._process.begin_call("clerk", call)
        return await self._process.have_effect("clerk", task, call)


@dataclass
class Adversary:
    """A planner that wants money to go elsewhere, twice, or unasked."""

    world: World
    name: str = "adversary"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """What was asked for at first; then the plan that stands, twisted."""
        del prompt
        await asyncio.sleep(0.1)
        events = [each for run in await self.world.store.runs() for each in await self._of(run)]
        plans = [each.body.plan for each in events if isinstance(each.body, e.PlanProposed)]
        last = plans[-1] if plans else self.world.plan
        value: dict[str, Any] = json.loads(json.dumps(last.to_json()))
        dice = random.Random(f"{self.world.seed}/model/{len(plans)}")
        for _ in range(dice.randint(0, 3) if plans else 0):
            twist = dice.choice(TWISTS)
            twist(value, dice)
        yield TextDelta(json.dumps(value))
        yield ModelDone(Usage(), self.name)

    async def _of(self, run: str) -> Sequence[e.Event]:
        return await self.world.store.events(run)
