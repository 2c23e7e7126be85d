"""One seeded story: a person, two processes, crashes, an adversarial model; what must hold."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from tests.simulation.checks import (
    Agreed,
    BrokenPromiseError,
    check_effects,
    check_ending,
    check_fires,
    check_guards,
)
from tests.simulation.loop import VirtualLoop
from tests.simulation.plans import effects_of
from tests.simulation.twists import drop_step, shuffle_lists
from tests.simulation.world import Process, World

from plansmith import Plan, Plansmith, Run, RunStatus
from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.timing import Timing

TURNS = 24
ROUNDS = 120
STRANGERS = ("mallory", "eve")
Deed = Callable[[Plansmith], Awaitable[Any]]


@dataclass
class Person:
    """Approves what is hers, refuses what is not, and answers as things really are."""

    world: World
    approved: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    agreed: dict[str, Agreed] = field(default_factory=dict[str, "Agreed"])

    async def act(self, process: Process, run_id: str) -> bool:
        """Decide one thing that waits for her, if anything does."""
        run: Run | None = await process.do(lambda smith: smith.get(run_id))
        if run is None or run.status.over:
            return False
        try:
            if run.questions:
                return await self._answer(process, run)
            if run.status is RunStatus.PAUSED:
                await process.do(lambda smith: smith.resume(run_id))
                return True
            if run.status is RunStatus.REVIEWING and not run.is_approved:
                return await self._decide(process, run)
        except PlansmithError:
            return True  # someone else was quicker: look again
        return False

    async def _decide(self, process: Process, run: Run) -> bool:
        plan = cast("Plan", run.plan)
        if await self.refuses(plan, run):
            await process.do(lambda smith: smith.decide(run.id, reject=True))
            return True
        self.approved |= set(effects_of(plan, run.templates))
        self.agreed[run.id] = Agreed(plan, run.templates)
        await process.do(lambda smith: smith.decide(run.id, approve=plan.hash))
        return True

    async def refuses(self, plan: Plan, run: Run) -> bool:
        """Whether the plan pays a stranger, or, as the review says, would pay what is paid."""
        wanted = effects_of(plan, run.templates)
        if len(set(wanted)) < len(wanted) or any(
            s in name for _, name in wanted for s in STRANGERS
        ):
            return True
        asked = [
            each.body
            for each in await self.world.store.events(run.id)
            if isinstance(each.body, e.ReviewAsked)
        ]
        again = ["would make it again"]
        if self.world.chain(run.id) != run.id:  # who continues wants nothing twice
            again.append("is done again")
        return any(word in reason for reason in asked[-1].reasons for word in again)

    async def _answer(self, process: Process, run: Run) -> bool:
        asked = self.world.rng.choice(
            sorted(run.questions.values(), key=lambda each: each.question)
        )
        answer = await self._word(run, asked)
        await process.do(lambda smith: smith.answer(run.id, asked.question, answer, by="ada"))
        return True

    async def _word(self, run: Run, asked: e.QuestionAsked) -> str:
        match asked.asks:
            case "unknown":
                happened = await self._happened(run.id, cast("str", asked.step))
                return "done" if happened else self.world.rng.choice(["retry", "not_done"])
            case "step":
                return self.world.rng.choice(["yes"] * 9 + ["no"] * (not asked.options))
            case _:
                return self.world.rng.choice(asked.options)

    async def _happened(self, run_id: str, unit: str) -> bool:
        """Whether the call of a unit took effect: she asks the bank."""
        started = [
            each.body
            for each in await self.world.store.events(run_id)
            if isinstance(each.body, e.StepStarted) and each.body.step == unit
        ]
        inputs = cast("dict[str, Any]", await self.world.store.get(started[-1].inputs))
        name, chain = inputs.get("id", inputs.get("task")), self.world.chain(run_id)
        return any((each.id, each.chain) == (name, chain) for each in self.world.made)

    async def edit(self, process: Process, run_id: str) -> None:
        """Change the plan herself: without a step, or with its lists in another order."""
        run: Run | None = await process.do(lambda smith: smith.get(run_id))
        if run is None or run.plan is None:
            return
        value = json.loads(json.dumps(run.plan.to_json()))
        self.world.rng.choice([drop_step, shuffle_lists])(value, self.world.rng)
        await process.do(lambda smith: smith.edit(run_id, Plan.model_validate(value), by="ada"))

    async def skip(self, process: Process, run_id: str) -> None:
        """Leave a step out."""
        run: Run | None = await process.do(lambda smith: smith.get(run_id))
        if run is not None and run.steps:
            name = self.world.rng.choice(sorted(run.steps))
            await process.do(lambda smith: smith.runs.stopping.skip(run_id, name, by="ada"))


def play(seed: int) -> World:
    """Live through the story of a seed; `BrokenPromiseError` says what does not hold."""
    loop = VirtualLoop()
    loop.set_exception_handler(lambda *_: None)
    world = World(seed)
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_story(world))
    finally:
        world.over = True
        while left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
    return world


async def _story(world: World) -> None:
    person = Person(world)
    await world.save_templates()
    try:
        await world.boot().smith.runs.intake.usable(world.plan)
    except PlansmithError:
        return  # nested too deeply
    if world.is_scheduled:
        await _keep_schedule(world, person)
        check_effects(world, person.approved)
        return
    if world.rng.random() < 0.5:
        await world.boot().do(lambda smith: smith.submit(world.plan, by="ada"))
    else:
        mode = world.rng.choice(["", "review"])
        await world.boot().do(lambda smith: smith.plan("pay what is due", mode=mode, by="ada"))
    ids = await world.store.runs()
    if not ids:
        return  # the process died before the run was written down
    await _live(world, person, ids[0], TURNS)
    if world.rng.random() < 0.25:
        again = await _begin_again(world, ids[0])
        if again is not None:
            await _live(world, person, again, TURNS // 2)
    check_effects(world, person.approved)


async def _keep_schedule(world: World, person: Person) -> None:
    """A plan that runs every minute, while processes come and go and templates change."""
    process, first = world.boot(), world.boot()
    world.calm = True
    run: Run = await process.do(lambda smith: smith.submit(world.plan, by="ada"))
    plan = cast("Plan", run.plan)
    if await person.refuses(plan, run):
        return
    try:
        schedule = await process.do(
            lambda smith: smith.schedules.create(
                plan=plan, timing=Timing(every_minutes=1), approve=plan.hash, by="ada"
            )
        )
    except PlansmithError:
        return  # it cannot run while nobody is there
    person.approved |= set(effects_of(plan, run.templates))
    await process.do(lambda smith: smith.cancel(run.id, by="ada"))
    world.calm = False
    busy = [_keeper(first)]
    for _ in range(TURNS // 3):
        match world.rng.choice(["boot", "kill", "template", "wait"]):
            case "boot":
                busy.append(_keeper(world.boot()))
            case "kill":
                world.rng.choice(world.processes).dead.set()
            case "template":
                await world.change_template()
            case _:
                pass
        await asyncio.sleep(world.rng.choice([1, 20, 45]))
    fired = [each for each in await world.store.runs() if each != run.id]
    for each in fired:
        await _come_to_an_end(world, person, each)
        events = await world.store.events(each)
        await check_guards(events, world)
        check_ending(events, world, Agreed(plan, run.templates))
    check_fires(await world.boot().smith.schedules.history(schedule.name), fired)


def _keeper(process: Process) -> asyncio.Task[Any]:
    return asyncio.ensure_future(process.do(lambda smith: smith.schedules.keep()))


async def _begin_again(world: World, run_id: str) -> str | None:
    """Another run of a plan: all of it anew, or what is not done; none where nothing is left."""
    world.calm = False
    verb = world.rng.choice(["rerun", "retry"])
    known = set(await world.store.runs())
    try:
        await world.boot().do(lambda smith: getattr(smith, verb)(run_id, by="ada"))
    except PlansmithError:
        return None
    found = [each for each in await world.store.runs() if each not in known]
    if found and verb == "retry":
        world.chains[found[0]] = world.chain(run_id)
    return found[0] if found else None


async def _live(world: World, person: Person, run_id: str, turns: int) -> None:
    """Live through a run, and look at what it left behind."""
    busy: list[asyncio.Task[Any]] = []
    for _ in range(turns):
        await _turn(world, person, run_id, busy)
        await asyncio.sleep(world.rng.choice([0, 0.05, 0.5, 15]))
    await _come_to_an_end(world, person, run_id)
    for task in busy:
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None and not isinstance(error, PlansmithError):
            raise BrokenPromiseError(f"a process broke: {error!r}") from error
    events = await world.store.events(run_id)
    await check_guards(events, world)
    check_ending(events, world, person.agreed.get(run_id))


async def _turn(world: World, person: Person, run_id: str, busy: list[asyncio.Task[Any]]) -> None:
    living = [each for each in world.processes if not each.dead.is_set()]
    if not living or (len(living) < 2 and world.rng.random() < 0.2):
        living.append(world.boot())
    process = world.rng.choice(living)
    deeds = (
        ["run"] * 8
        + ["person"] * 8
        + ["kill", "edit", "skip", "template", *_VERBS]
        + ["cancel"] * (world.rng.random() < 0.2)
    )
    deed = world.rng.choice(deeds)
    try:
        if deed == "run":
            busy.append(asyncio.ensure_future(process.do(lambda smith: smith.runs.run(run_id))))
        elif deed == "kill":
            process.dead.set()
        elif deed == "template":
            await world.change_template()
        elif deed in _VERBS:
            await process.do(_VERBS[deed](run_id))
        elif deed == "cancel":
            await process.do(lambda smith: smith.cancel(run_id, by="ada"))
        else:
            await getattr(person, "act" if deed == "person" else deed)(process, run_id)
    except PlansmithError:
        return  # refused: that is an answer


def _changes(run_id: str) -> Deed:
    return lambda smith: smith.request_changes(run_id, "other", by="ada")


_VERBS: dict[str, Callable[[str], Deed]] = {
    "pause": lambda run_id: lambda smith: smith.pause(run_id, by="ada"),
    "undo": lambda run_id: lambda smith: smith.runs.editing.undo(run_id, by="ada"),
    "changes": _changes,
}


async def _come_to_an_end(world: World, person: Person, run_id: str) -> None:
    """Nothing goes wrong any more: within some rounds the run is over, or it was stuck."""
    world.calm = True
    for process in world.processes:
        process.dead.set()
    process = world.boot()
    run: Run | None = None
    for _ in range(ROUNDS):
        try:
            run = await process.do(lambda smith: smith.runs.run(run_id))
        except PlansmithError as error:
            raise BrokenPromiseError(f"the run cannot go on: {error}") from error
        if run is not None and run.status.over:
            return
        await person.act(process, run_id)
    raise BrokenPromiseError(f"the run is stuck: {run and run.status}")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        play(int(each))
