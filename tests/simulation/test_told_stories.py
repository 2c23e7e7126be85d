"""Bugs that the simulation found, each as a short story that breaks without its fix."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from lab.simulation.mutations import planted
from lab.simulation.person import Person
from lab.simulation.plans import effects_of
from lab.simulation.process import Process
from lab.simulation.store import Request, Weather
from lab.simulation.world import World

from plansmith import Plan, Plansmith, Run, RunStatus
from plansmith.engine.ownership import Owners
from plansmith.errors import PlansmithError
from plansmith.plan import events as e

PLAN = Plan.model_validate(
    {"goal": "pay", "steps": [{"id": "a", "tool": "pay", "inputs": {"id": "x"}}]}
)
Story = Callable[[World, Person], Awaitable[None]]


def told(story: Story) -> World:
    """Lives through a story in a world in which nothing else goes wrong."""
    world = World(1)
    world.calm, world.plan, world.machines = True, PLAN, ("m1",)
    world.drafter.templates.clear()
    world.is_stored, world.lease_s = False, 2.0
    world.approved |= set(effects_of(PLAN, {}))
    world.store.delay = float  # type: ignore[method-assign] # every message comes at once
    world.live(story(world, Person(world, twice=0.0)))
    return world


def run_of(world: World) -> Run:
    return cast("Run", world.view(next(iter(world.journals()))))


async def until(world: World, *statuses: RunStatus) -> None:
    """Waits until the run has one of these statuses; fails if it is stuck."""
    for _ in range(60):
        if world.journals() and run_of(world).status in statuses:
            return
        await asyncio.sleep(1.0)
    raise AssertionError(f"it is still {run_of(world).status}")


async def command(world: World, act: Callable[[Process], Awaitable[object]]) -> Process:
    """Starts a command that does something."""
    process = world.boot()
    await act(process)
    return process


async def after_a_server(world: World, person: Person) -> None:
    """A server makes a run and dies; a command approves it; another server goes on."""
    world.boot(is_server=True)
    await asyncio.sleep(1.0)
    first = world.boot(is_server=True)
    await asyncio.sleep(0.5)
    await person.ask(first, plan=PLAN)
    first.kill()
    await asyncio.sleep(5.0)
    await command(world, lambda process: person.attend(process, run_of(world).id))
    await until(world, RunStatus.DONE)


async def cancelled_by_half(world: World, person: Person) -> None:
    """A command that cancels a run is killed when no more than that is written."""
    server = world.boot(is_server=True)
    await person.ask(server, plan=PLAN)
    await asyncio.sleep(5.0)
    seen = world.store.watch

    def watch(request: Request) -> None:
        seen(request)
        if request.name == "append" and isinstance(request.args[0][-1].body, e.CancelAsked):
            world.by_name[request.process].kill()

    world.store.watch = watch
    await command(world, lambda process: person.cancel(process, run_of(world).id))
    await until(world, RunStatus.CANCELLED)


async def paused_while_planned(world: World, person: Person) -> None:
    """A run is paused and resumed by commands while a server makes its plan."""
    server = world.boot(is_server=True)
    await person.ask(server)
    run = run_of(world).id
    process = world.boot()
    await person.pause(process, run)
    await person.attend(process, run)
    await until(world, RunStatus.REVIEWING, RunStatus.PLANNING, RunStatus.DONE)
    assert run_of(world).plan is not None
    assert any("run_changed_meanwhile" in entry for entry in world.trace)


async def claimed_without_an_answer(world: World, person: Person) -> None:
    """The store loses what it says to a command that claims a run, and the command lives on."""
    server = world.boot(is_server=True)
    await person.ask(server, plan=PLAN)
    await asyncio.sleep(5.0)
    run = run_of(world).id
    seen = world.store.watch

    def watch(request: Request) -> None:
        seen(request)
        if request.name == "claim" and request.process != server.name:
            world.store.change_weather(Weather(loses_answers=1.0))

    world.store.watch = watch

    async def approve_and_run(smith: Plansmith) -> None:
        await smith.decide(run, approve=PLAN.hash, by="ada")
        await smith.runs.run(run)

    with pytest.raises(PlansmithError):
        await command(world, lambda process: process.do(approve_and_run))
    world.store.watch = seen
    world.store.change_weather(Weather())
    await until(world, RunStatus.DONE)


@pytest.mark.parametrize(
    ("story", "bug"),
    [
        (cancelled_by_half, "a cancellation or a wish is left to the process that wrote it"),
        (claimed_without_an_answer, "a claim stays when the store loses an answer"),
    ],
)
def test_a_run_goes_on_by_itself_and_not_with_the_bug(story: Story, bug: str) -> None:
    assert not told(story).broken
    with planted(bug), pytest.raises(AssertionError, match="still"):
        told(story)


def test_a_run_of_a_server_that_died_goes_on_at_another_one() -> None:
    assert not told(after_a_server).broken


def test_a_plan_is_made_although_the_run_is_paused_and_resumed_meanwhile() -> None:
    assert not told(paused_while_planned).broken


def test_a_process_that_renews_its_lease_meanwhile_keeps_its_claim() -> None:
    async def story(world: World, _: Person) -> None:
        world.machines = ("m1",)
        one = world.boot()
        world.machines = ("m2",)
        two = world.boot()
        first: Owners = one.smith.runs.journals.owners
        second: Owners = two.smith.runs.journals.owners
        await one.do(lambda _: first.claim("r"))
        one.stop()
        await asyncio.sleep(10.0)
        await two.do(lambda _: second.left_behind())
        await asyncio.sleep(1.0)
        assert await two.do(lambda _: second.left_behind())
        one.wake()
        await asyncio.sleep(1.0)  # it renews its lease
        await two.do(lambda _: second.forget("r"))
        assert world.store.server.claim_now("r").owner == one.name

    assert not told(story).broken
