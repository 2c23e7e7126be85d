"""Simulated processes: servers and commands, each with an event loop and a Plansmith of its own."""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lab.simulation.bank import SECRET
from lab.simulation.store import Connection
from lab.simulation.timeline import TimelineClock
from lab.simulation.twists import TWISTS
from plansmith import CallPreview, Effect, Plansmith
from plansmith.errors import PlansmithError, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.ports import Call, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith.secrets import SecretBox
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import ServerWiring
from plansmith_cli.team_smiths import TeamSmiths
from plansmith_planner.settings import PlannerSettings
from plansmith_server.background import BackgroundRuns
from plansmith_server.news import ConversationNews, Drafts, EventReader
from plansmith_server.ops.logs import Log
from plansmith_server.ops.metrics import Metrics
from plansmith_server.state import OpenRuns, ServerState
from plansmith_server.team.notices import Notices
from plansmith_server.upkeep import upkeep

if TYPE_CHECKING:
    from lab.simulation.world import World

SETTINGS = PlannerSettings(triage=False)
_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "token": {"type": "string"}},
    "required": ["id"],
}
_PAID = {"type": "object", "properties": {"paid": {"type": "string"}}, "required": ["paid"]}
_WRITE = {"input_schema": _SCHEMA, "output_schema": _PAID, "effect": Effect.WRITE}
_TOOLS = (
    ToolSpec(name="look", input_schema={"type": "object"}, effect=Effect.READ),
    ToolSpec.model_validate({"name": "pay"} | _WRITE),
    ToolSpec.model_validate({"name": "refund"} | _WRITE),
    ToolSpec.model_validate({"name": "post", "idempotent": True} | _WRITE),
)
_SECRETS = {"bank": {"env": "BANK", "tools": ("pay", "post")}}
_PATIENCE_S = 20.0
Deed = Callable[[Plansmith], Awaitable[Any]]


class Broke(Exception):
    """A process failed with an error that is not one of ours."""


class Process:
    """One process on the shared store, until it ends, is killed, or its world is over."""

    def __init__(self, world: World, *, number: int, machine: str, is_server: bool) -> None:
        self.world = world
        self.machine = machine
        self.name = f"{machine} - - {number} 0"
        self.is_alive = True
        self.is_server = is_server
        self.loop = world.timeline.new_loop(f"{machine}/{number}")
        self.loop.set_exception_handler(self._broke)
        self.connection = Connection(world.store, self.name)
        self.connection.heard = lambda events, began: world.heard(self, events, began)
        self.clock = TimelineClock(world.timeline)
        # The runs that it is taking from others by force.
        self.forcing: set[str] = set()
        # When it asked and when it learned that the intent of a call is stored.
        self.heard: dict[tuple[str, int], tuple[float, float]] = {}
        # What its tools said last that a call would do, and when.
        self.shown: dict[tuple[str, str], str] = {}
        self.looked: dict[tuple[str, str], float] = {}
        self._waiting: list[asyncio.Future[Any]] = []
        self.state: ServerState | None = None
        self.smith = self._smith()
        self.tasks: list[asyncio.Task[Any]] = []

    def _smith(self) -> Plansmith:
        world = self.world
        return Plansmith(
            model=Adversary(self),
            tools=[Tools(self)],
            agents=[Clerk(self)],
            store=cast("Any", self.connection),
            clock=self.clock,
            templates={} if world.is_stored else dict(world.templates),
            budget=world.budget,
            settings=SETTINGS,
            ids=world.next_id,
            machine=self,
            secrets=SecretBox(_SECRETS, environment={"BANK": SECRET}),
            shared_store=True,
            limits=Limits(
                first_wait_s=0.1,
                grace_s=0.5,
                lease_s=world.lease_s,
                width=world.width,
                data=world.data,
            ),
        )

    def this_process(self) -> str:
        """Returns the name of this process, as other processes know it."""
        return self.name

    def is_elsewhere(self, owner: str) -> bool:
        """Tells whether an owner is a process of another machine."""
        return bool(owner) and owner.split(" ", 1)[0] != self.machine

    def lives_here(self, owner: str) -> bool:
        """Tells whether an owner is a process of this machine that exists, be it stopped."""
        found = self.world.by_name.get(owner)
        return found is not None and found.machine == self.machine and found.is_alive

    def close(self) -> None:
        """A process that closes lives on, with what it still owns."""

    def serve(self) -> None:
        """Does what a server does unasked, from now on."""
        drafts = Drafts(self.clock, lambda _: None)
        settings = Settings(planner=SETTINGS)
        teams = TeamSmiths(self.smith, settings)
        log = ServerLog(self)
        self.state = ServerState(
            smith=self.smith,
            wiring=ServerWiring(settings),
            drafts=drafts,
            background=BackgroundRuns(self.smith, teams=teams, drafts=drafts, log=log),
            log=log,
            metrics=Metrics(),
            open_runs=OpenRuns(self.smith),
            events=EventReader(self.smith.store),
            conversations=ConversationNews(self.smith),
            by="ada",
            teams=teams,
            notices=Notices({}, secrets=SecretBox({}), clock=self.clock, log=log),
        )
        self.tasks = [self.loop.create_task(each) for each in upkeep(self.state)]

    async def do(self, deed: Deed, *, patience_s: float = _PATIENCE_S) -> Any:
        """Does something in this process; None if it dies meanwhile or takes too long."""
        if not self.is_alive:
            return None
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        task = self.loop.create_task(_done(deed, self.smith))
        task.add_done_callback(lambda task: _tell(told, task))
        timer = asyncio.get_running_loop().call_later(patience_s, _tell, told, None)
        ended = await told
        timer.cancel()
        self._waiting.remove(told)
        if ended is None or ended.cancelled():
            return None
        error = ended.exception()
        if error is not None and not isinstance(error, PlansmithError):
            raise Broke(repr(error)) from error
        return ended.result()

    def kill(self) -> None:
        """Ends it at once: its tasks vanish, nothing is flushed."""
        if self.is_alive:
            self.world.note("killed", self.loop.name)
            self._end()

    def _end(self) -> None:
        self.is_alive = False
        self.world.timeline.remove(self.loop)
        self.connection.end()
        for told in self._waiting:
            _tell(told, None)

    async def exit(self) -> None:
        """Ends it as a program ends; a server stops its tasks first."""
        await self.do(self._close)
        if self.is_alive:
            self.world.note("ended", self.loop.name)
            self._end()

    async def _close(self, smith: Plansmith) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.state is not None:
            await self.state.background.close()
        await smith.close()

    def stop(self) -> None:
        """Stops it as SIGSTOP does."""
        if self.is_alive and not self.loop.is_stopped:
            self.world.note("stopped", self.loop.name)
            self.loop.is_stopped = True

    def wake(self) -> None:
        """Lets it go on as SIGCONT does."""
        if self.is_alive and self.loop.is_stopped:
            self.world.note("woken", self.loop.name)
            self.world.timeline.wake(self.loop)

    def _broke(self, _: Any, context: dict[str, Any]) -> None:
        if "handle" in context:
            self.world.fail(f"{self.loop.name} broke: {context.get('exception')!r}")


async def _done(deed: Deed, smith: Plansmith) -> Any:
    return await deed(smith)


def _tell(told: asyncio.Future[Any], value: Any) -> None:
    if not told.done():
        told.set_result(value)


class ServerLog(Log):
    """The log of a server: a run that broke is a failure of the seed."""

    def __init__(self, process: Process) -> None:
        super().__init__(io.StringIO(), now=process.clock.now)
        self._process = process

    def _write(self, level: str, event: str, fields: dict[str, Json]) -> None:
        world = self._process.world
        world.note("log", self._process.loop.name, event, str(fields.get("error", "")))
        if level == "error":
            world.fail(f"{self._process.loop.name} logs {event}: {fields}")


class Tools:
    """`look` reads, `pay` acts once a call, `post` acts once a key, `refund` takes back."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools."""
        return _TOOLS

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Asks the bank."""
        world = self._process.world
        if arguments.get("token", SECRET) != SECRET:
            world.fail(f"{tool} was given {arguments} instead of the secret")
        name = str(arguments.get("id", arguments.get("n")))
        if not world.calm and world.rng.random() < 0.02:
            call.advise(world.rng.choice(["replan", "finish"]), f"enough of this {SECRET}")
        return cast("Json", await world.bank.ask(self._process, tool, name, call))

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        """Says what a call would do; sometimes after a while, or not at all."""
        world, name = self._process.world, str(inputs.get("id"))
        if not world.has_previews or tool == "look":
            return None
        if inputs.get("token") == SECRET:
            world.fail(f"a preview of {tool} was given the secret")
        await asyncio.sleep(world.previewer.choice((0, 0, 0.05, 2)))
        if not world.calm and world.previewer.random() < 0.03:
            world.move()
            self._process.shown[tool, name] = ""  # the same may have been shown
            raise ToolFailed(f"nobody knows, not even {SECRET}")
        touches = ("till",) if tool == "pay" and len(name) % 2 else ()
        shown = CallPreview(text=f"{tool} {name} in {world.epoch}", touches=touches)
        self._process.shown[tool, name] = shown.hash
        self._process.looked[tool, name] = world.timeline.now
        return shown


class Clerk:
    """An agent that pays in its own way, and fails like a tool."""

    spec = AgentSpec(name="clerk", effect=Effect.FINAL)

    def __init__(self, process: Process) -> None:
        self._process = process

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Pays what the task says."""
        del inputs
        return cast("Json", await self._process.world.bank.ask(self._process, "clerk", task, call))


@dataclass
class Adversary:
    """A planner that wants money to go elsewhere, twice, or unasked."""

    process: Process
    name: str = "adversary"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Drafts what was asked for at first; then the plan that stands, twisted."""
        del prompt
        world = self.process.world
        await asyncio.sleep(world.rng.choice((0.0, 0.1, 4.0)))
        events = [each for run in world.journals().values() for each in run]
        plans = [each.body.plan for each in events if isinstance(each.body, e.PlanProposed)]
        value: dict[str, Any] = json.loads(
            json.dumps((plans[-1] if plans else world.plan).to_json())
        )
        dice = random.Random(world.rng.random())
        for _ in range(dice.randint(0, 3) if plans else 0):
            if value["steps"]:  # an earlier twist may have left none
                dice.choice(TWISTS)(value, dice)
        yield TextDelta(json.dumps(value))
        yield ModelDone(Usage(), self.name)
