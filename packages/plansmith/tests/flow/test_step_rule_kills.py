"""Ten stories with conditions, repeats, collected errors and undoing, killed at every append."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from plansmith import Effect, Plan, Plansmith, Run, RunStatus, ToolSpec
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import StepDone, verify_chain
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.testing import FakeClock, MemoryStore

LIMITS = Limits(first_wait_s=0, data="show", grace_s=0.0)
LONG = bool(os.environ.get("PLANSMITH_LONG"))
STOCK = {"id": "stock", "tool": "stock"}
LOW = {"below": ["{{stock.count}}", 10]}


class Shop:
    """The world outside, which outlives every process: what was ordered, under which key."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.looks: Counter[str] = Counter()
        self.keys: set[str] = set()

    async def tools(self) -> Sequence[ToolSpec]:
        """Reads, writes, and keyed writes."""
        named = {"stock": Effect.READ, "poll": Effect.READ, "part": Effect.READ}
        named |= {"order": Effect.WRITE, "cancel": Effect.WRITE, "press": Effect.WRITE}
        return [
            ToolSpec(name=name, effect=effect, idempotent=name == "press")
            for name, effect in named.items()
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Answers by what was asked alone, so that a repeated read tells the same."""
        number = call.key.split("/")[-2]
        match tool:
            case "stock":
                return {"count": 7}
            case "poll":
                return {"state": "open" if int(number) < 3 else "shipped"}
            case "part":
                if arguments["x"] == 2:
                    raise ToolFailed("no two")
                return cast("int", arguments["x"]) * 10
            case "press":
                self.effects["press"] += call.key not in self.keys
                self.keys.add(call.key)
                return {"n": int(number)}
            case _:
                self.effects[f"{tool} {arguments.get('n', arguments.get('id'))}"] += 1
                return {"id": f"o{arguments.get('n')}"}


class Dying:
    """A store that a process holds, until it dies at an append: then nothing more is written."""

    def __init__(self, store: MemoryStore, appends: int, *, written: bool) -> None:
        self._store, self._left, self._written = store, appends, written
        self.dead = asyncio.Event()

    async def append(self, events: Any, values: Any = (), **told: Any) -> None:
        if self._left == 0 and self._written and not self.dead.is_set():
            await self._store.append(events, values, **told)
        if self._left <= 0:
            self.dead.set()
            await asyncio.Event().wait()
        self._left -= 1
        await self._store.append(events, values, **told)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def order(name: str, n: int, **rules: Any) -> dict[str, Any]:
    return {"id": name, "tool": "order", "inputs": {"n": n}, **rules}


def poll(most: int, **more: Any) -> dict[str, Any]:
    until = {"equals": ["{{poll.state}}", "shipped"]}
    return {"id": "poll", "tool": "poll", "repeat": {"until": until, "at_most": most, **more}}


ITEM = {"tool": "part", "inputs": {"x": "{{item}}"}}
STORIES: dict[str, list[dict[str, Any]]] = {
    "a condition that holds": [STOCK, order("a", 1, when=LOW), order("b", 2, after=["a"])],
    "a condition that does not": [STOCK, order("a", 1, when={"not": LOW}), order("b", 2)],
    "a value for a skipped step": [
        STOCK,
        order("a", 1, when={"not": LOW}, otherwise={"value": {"id": "none"}}),
        order("b", 2, after=["a"]),
    ],
    "branches that join": [
        STOCK,
        order("a", 1, when=LOW),
        order("b", 2, when={"not": LOW}),
        {"id": "c", "tool": "part", "inputs": {"x": 3}, "after": ["stock"]},
        {"id": "d", "tool": "stock", "inputs": {"of": {"$first": ["{{b}}", "{{a}}"]}}},
    ],
    "rounds at once": [poll(5), order("a", 1, after=["poll"])],
    "rounds with long pauses": [poll(5, every=600), order("a", 1, after=["poll"])],
    "rounds of a keyed change": [
        {
            "id": "press",
            "tool": "press",
            "repeat": {"until": {"at_least": ["{{press.n}}", 3]}, "at_most": 4, "every": 60},
        }
    ],
    "rounds of each item": [
        {
            "id": "all",
            "over": ["a", "b"],
            "each": {
                "id": "one",
                "tool": "poll",
                "inputs": {"of": "{{item}}"},
                "repeat": {
                    "until": {"equals": ["{{one.state}}", "shipped"]},
                    "at_most": 4,
                    "every": 60,
                },
            },
        },
        order("a", 1, when={"equals": ["{{all[1].state}}", "shipped"]}),
    ],
    "rounds of a whole list": [
        {
            "id": "all",
            "over": [1, 2],
            "each": {"tool": "press", "inputs": {"x": "{{item}}"}},
            "repeat": {"until": {"at_least": ["{{all[0].n}}", 0]}, "at_most": 3},
        },
    ],
    "rounds that never end well": [poll(2, every=60) | {"on_error": "skip"}, order("a", 1)],
    "collected errors": [
        {"id": "all", "over": [1, 2, 3], "each": ITEM, "on_error": "collect"},
        {"id": "told", "instruction": "{{all}}", "style": "exact"},
    ],
    "items that are skipped and retried": [
        {
            "id": "all",
            "over": [1, 2, 3, 4],
            "each": ITEM
            | {
                "on_error": "skip",
                "retry": {"at_most": 1, "every": 60},
                "when": {"not_equals": ["{{item}}", 4]},
            },
        }
    ],
}


async def lived(app: Plansmith, clock: FakeClock, shop: Shop, run_id: str) -> Run:
    """Runs to the end, while time passes; of what is unknown it is told what the shop knows."""
    running = asyncio.ensure_future(app.run(run_id))
    while not running.done():
        await clock.advance(100)
    run = await running
    for asked in run.questions.values():
        given = cast("dict[str, Any]", await app.store.get(run.steps[asked.step or ""].inputs))
        happened = shop.effects[f"order {given['n']}"]
        answer: Json = {"done": {"id": f"o{given['n']}"}} if happened else "retry"
        await app.answer(run_id, asked.question, answer, by="ada")
    return await lived(app, clock, shop, run_id) if run.questions else run


async def told(store: MemoryStore, shop: Shop, run: Run) -> dict[str, Any]:
    verify_chain(await store.events(run.id))
    done = [
        each.body.step for each in await store.events(run.id) if isinstance(each.body, StepDone)
    ]
    assert len(done) == len(set(done))
    steps = {name: (each.status, each.rule) for name, each in run.steps.items()}
    return {"status": run.status, "steps": steps, "effects": dict(shop.effects)}


async def begun(app: Plansmith, wanted: Plan) -> None:
    run = await app.submit(wanted, by="bob")
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=wanted.hash, by="ada")


async def killed(
    steps: list[dict[str, Any]], appends: int, *, written: bool
) -> tuple[dict[str, Any], bool]:
    """Lives through a story whose first process dies at an append; tells how all ended."""
    wanted = Plan.model_validate({"goal": "test", "steps": steps})
    clock, shop, store = FakeClock(), Shop(), MemoryStore()
    await begun(Plansmith(tools=[shop], limits=LIMITS, store=store, clock=clock), wanted)
    run_id = (await store.runs())[0]
    dying = Dying(store, appends, written=written)
    first = Plansmith(tools=[shop], limits=LIMITS, store=cast("Any", dying), clock=clock)
    life = asyncio.ensure_future(first.run(run_id))
    death = asyncio.ensure_future(dying.dead.wait())
    while not (life.done() or death.done()):
        await clock.advance(100)
    death.cancel()
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    await first.close()
    second = Plansmith(tools=[shop], limits=LIMITS, store=store, clock=clock)
    run = await lived(second, clock, shop, run_id)
    return await told(store, shop, run), dying.dead.is_set()


@pytest.mark.parametrize("name", STORIES)
async def test_a_story_with_rules_ends_alike_wherever_its_process_is_killed(name: str) -> None:
    expected, died = await killed(STORIES[name], 10_000, written=True)
    assert not died
    appends, died = 0, True
    while died:
        # Before and after each append where there is time, else in turn.
        for written in (False, True) if LONG else (appends % 2 == 0,):
            found, died = await killed(STORIES[name], appends, written=written)
            assert found == expected, f"killed at append {appends}, written: {written}"
        appends += 1
    assert appends > 3
