"""The story of a seed: people and troubles, then calm, in which every run has to end."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import cast

from lab.simulation.checks import check_fires, check_run, check_said, check_secrets, check_told
from lab.simulation.person import Person
from lab.simulation.plans import effects_of, writes_of
from lab.simulation.process import Process
from lab.simulation.store import Weather
from lab.simulation.world import BrokenPromiseError, World
from plansmith import Plan, Plansmith, Run
from plansmith.errors import PlansmithError
from plansmith.plan.timing import Timing
from plansmith.schedules.schedule import Schedule

TURNS = 8
# In the calm, so many rounds of a second and a half until a run is over; then it is stuck.
ROUNDS = 150
# What somebody does in a turn, and how often. The planner is slow, so plans are changed seldom.
_DEEDS = {
    "attend": 50,
    "command": 10,
    "force": 5,
    "pause": 5,
    "server": 4,
    "skip": 3,
    "edit": 3,
    "template": 3,
    "undo": 2,
    "cancel": 2,
    "changes": 1,
}


def play(seed: int, world: World | None = None) -> World:
    """Lives through the story of a seed; `BrokenPromiseError` says what does not hold."""
    world = world or World(seed)
    was_on = gc.isenabled()
    gc.disable()  # what is collected, and when, is no part of a seed
    try:
        world.live(_story(world))
    finally:
        if was_on:
            gc.enable()
    if world.broken:
        raise BrokenPromiseError(world.broken[0])
    return world


async def _story(world: World) -> None:
    person = Person(world)
    await world.save_templates()
    for _ in range(world.rng.randint(1, 2) if world.has_servers else 0):
        world.boot(is_server=True)
    troubles = asyncio.create_task(_troubles(world))
    if world.kind == "schedule":
        await _keep_schedule(world, person)
    else:
        await _live(world, person)
    troubles.cancel()
    for run in world.journals():
        check_run(world, run, person.agreed.get(run))
        check_told(world, run, person.tried, person.told)
        check_said(world, run, person.said)
    check_secrets(world)


async def _live(world: World, person: Person) -> None:
    runs = await _begin(world, person)
    for _ in range(TURNS):
        for run in runs:
            await _turn(world, person, run)
        await asyncio.sleep(world.rng.choice((0, 0.05, 0.3, 1, 4)))
    await _settle(world, person)
    if runs and world.rng.random() < 0.15:
        again = await _begin_again(world, runs[0])
        for _ in range(TURNS // 2 if again else 0):
            await _turn(world, person, cast("str", again))
            await asyncio.sleep(world.rng.choice((0, 0.05, 0.5, 4)))
        await _settle(world, person)


async def _begin(world: World, person: Person) -> list[str]:
    """Somebody asks for something, until it is written down."""
    count = 2 if world.rng.random() < 0.15 and world.kind == "plan" else 1
    for _ in range(8):
        process = world.rng.choice(world.living() or [world.boot()])
        try:
            await person.ask(process, plan=world.plan if world.kind == "plan" else None)
        except PlansmithError:
            await asyncio.sleep(1.0)
        if len(world.journals()) >= count:
            break
    return [*world.journals()]


async def _turn(world: World, person: Person, run_id: str) -> None:
    """Somebody does something about a run."""
    deed = world.rng.choices([*_DEEDS], [*_DEEDS.values()])[0]
    process = _at_hand(world)
    if any(each.loop.is_stopped for each in world.living()) and world.rng.random() < 0.15:
        deed = "force"  # what is this run waiting for?
    world.note("deed", deed, process.loop.name)
    if world.has_deletes and world.deleter.random() < 0.08:
        deed = "delete"
        world.note("deed", deed)
    if world.has_previews and world.previewer.random() < 0.15:
        deed = world.previewer.choice(["preview", "preview", "move"])
        world.note("deed", deed)
    with suppress(PlansmithError):  # refused: that is an answer
        await _do(world, person, process, deed, run_id)


async def _do(world: World, person: Person, process: Process, deed: str, run_id: str) -> None:
    match deed:
        case "move":
            world.move()
        case "template":
            await world.change_template()
        case "server":
            if world.has_servers and len(world.living(servers=True)) < 3:
                world.boot(is_server=True)
        case "command":
            await _command(world, person, run_id)
        case _:
            await getattr(person, deed)(process, run_id)


def _at_hand(world: World) -> Process:
    """Returns a process for what is to be done: one that runs, or a new command."""
    living = world.living()
    return world.rng.choice(living) if living and world.rng.random() < 0.9 else world.boot()


async def _command(world: World, person: Person, run_id: str) -> None:
    """A command decides something and goes on with the run itself, as long as that takes."""
    process = world.boot()
    await person.attend(process, run_id)
    ends = world.rng.random() < 0.5
    await process.do(lambda smith: smith.runs.run(run_id), patience_s=30.0 if ends else 0.3)
    if ends:
        await process.exit()


async def _begin_again(world: World, run_id: str) -> str | None:
    """Another run of a plan: all of it anew, what is not done, or what takes it back."""
    world.calm = False
    verb = world.rng.choice(["rerun", "retry", "take_back"])
    known = set(world.journals())
    process = world.boot()
    try:
        if verb == "take_back":
            await process.do(lambda smith: smith.runs.undo_effects(run_id, by="ada"))
        else:
            await process.do(lambda smith: getattr(smith, verb)(run_id, by="ada"))
    except PlansmithError:
        return None
    found = [each for each in world.journals() if each not in known]
    if found and verb == "retry":
        world.chains[found[0]] = world.chain(run_id)
    return found[0] if found else None


async def _troubles(world: World) -> None:
    """Things go wrong until the calm."""
    rng = world.rng
    while True:
        await asyncio.sleep(rng.choice((0.02, 0.5, 2, 6)))
        if world.calm:
            continue
        living = world.living()
        kind = rng.choice(("kill", "kill", "stop", "stop", "exit", "restart", "weather", "weather"))
        if kind == "restart":
            world.note("restart")
            world.store.restart()
        elif kind == "weather":
            await _bad_weather(world, living)
        elif living:
            await _harm(world, rng.choice(living), kind)


async def _bad_weather(world: World, living: list[Process]) -> None:
    rng = world.rng
    cut = frozenset({rng.choice(living).name}) if living else frozenset[str]()
    weather = rng.choice(
        (
            Weather(is_slow=True),
            Weather(is_full=True),
            Weather(is_away=True),
            Weather(cut_off=cut),
            Weather(loses_answers=0.3),
            Weather(loses_answers=0.1),
        )
    )
    world.note("weather", *weather._replace(cut_off=frozenset()), sorted(weather.cut_off))
    world.store.change_weather(weather)
    await asyncio.sleep(rng.choice((0.3, 2, 6, 12)))
    world.note("fair")
    world.store.change_weather(Weather())


async def _harm(world: World, process: Process, kind: str) -> None:
    if kind == "kill":
        process.kill()
    elif kind == "stop":
        process.stop()
        world.timeline.call_later(world.rng.choice((0.3, 3, 8, 20)), process.wake)
    else:
        await process.exit()


async def _settle(world: World, person: Person, rounds: int = ROUNDS) -> None:
    """Nothing goes wrong any more: every run ends, once a person decides what waits for her."""
    world.note("calm")
    world.calm = True
    world.store.change_weather(Weather())
    for process in world.living():
        process.loop.fate = 0
        process.wake()
    tries: Counter[str] = Counter()
    left: list[str] = []
    for _ in range(rounds):
        if world.has_servers and not world.living(servers=True):
            world.boot(is_server=True)
        left = [run for run in [*world.journals()] if not cast("Run", world.view(run)).status.over]
        if not left:
            return
        asked = False
        for run in left:
            asked = await _attend_calmly(world, person, run, tries[run]) or asked
            tries[run] += 1
        await asyncio.sleep(0.1 if asked else 1.5)
    for run in left:
        seen = cast("Run", world.view(run))
        world.fail(f"{run} is stuck: {seen.status}, {[*seen.questions]}")


async def _attend_calmly(world: World, person: Person, run: str, tries: int) -> bool:
    """The person decides; a run that no server made she goes on with by a command."""
    servers = world.living(servers=True)
    is_command = not world.makers[run].is_server and tries % 12 == 11
    if servers and not is_command and world.rng.random() < 0.7:
        return await person.attend(world.rng.choice(servers), run)
    process = world.boot()
    asked = await person.attend(process, run)
    if servers and not is_command:  # she decides by a command, and leaves the rest to the servers
        await process.exit()
        return asked
    try:
        await process.do(lambda smith: smith.runs.run(run), patience_s=60.0)
    except PlansmithError as error:
        world.note("not run", run, type(error).__name__)
    await process.exit()
    return asked


async def _keep_schedule(world: World, person: Person) -> None:
    """A plan that runs every minute, while servers come and go and templates change."""
    world.calm = True
    schedule = await _make_schedule(world, person)
    if schedule is None:
        return
    world.calm = False
    for _ in range(TURNS // 2):
        match world.rng.choice(["server", "keeper", "keeper", "template", "wait"]):
            case "keeper":
                _keep_schedules(world)
            case "server" if len(world.living(servers=True)) < 3:
                world.boot(is_server=True)
            case "template":
                await world.change_template()
            case _:
                pass
        await asyncio.sleep(world.rng.choice((5, 20, 40)))
    await _settle(world, person)
    _keep_schedules(world)
    _keep_schedules(world)
    await asyncio.sleep(65.0)
    await _settle(world, person)
    check_fires(world, schedule)


def _keep_schedules(world: World) -> None:
    """Starts a command that keeps the schedules too, beside all servers."""
    keeper = world.boot()
    keeper.loop.create_task(keeper.smith.schedules.run_forever())


async def _make_schedule(world: World, person: Person) -> Schedule | None:
    """She has a plan kept that runs every minute; none if it cannot run while nobody is there."""
    first = world.boot()
    first.loop.fate = 0
    made: Schedule | None = None
    try:
        run: Run = await first.do(lambda smith: smith.submit(world.plan, by="ada"))
        plan = cast("Plan", run.plan)
        if effects_of(plan, run.templates) and not person.refuses(plan, run):
            world.approved |= set(writes_of(plan, run.templates))
            every = Timing(every_minutes=1)
            made = await first.do(
                lambda s: s.schedules.create(plan=plan, timing=every, approve=plan.hash, by="ada")
            )
    except PlansmithError as error:
        world.note("no schedule", type(error).__name__)
    for each in [*world.journals()]:
        await first.do(partial(Plansmith.cancel, run_id=each, by="ada"))
    return made
