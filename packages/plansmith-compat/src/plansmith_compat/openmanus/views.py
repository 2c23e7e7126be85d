"""The plans of a planning tool as dictionaries that programs read, and may write into."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

from plansmith.clock import SystemClock
from plansmith.store.urls import open_store
from plansmith_compat.openmanus.book import Kept, PlanBook
from plansmith_compat.openmanus.dialect import STATUSES
from plansmith_compat.openmanus.tools import ToolError

PlanDict = dict[str, Any]


class PlanViews:
    """Holds one dictionary per plan; says what a program has written into them since.

    The dictionaries stay the same objects, so that a program may hold on to them.
    """

    def __init__(self) -> None:
        self.plans: dict[str, PlanDict] = {}
        self._known: dict[str, Kept] = {}

    def show(self, plan: Kept) -> None:
        """Brings the dictionary of a plan up to date."""
        self._known[plan.plan_id] = plan
        self.plans.setdefault(plan.plan_id, {}).update(dictionary(plan))

    def forget(self, plan_id: str) -> None:
        """Removes a plan that is no more."""
        self._known.pop(plan_id, None)
        self.plans.pop(plan_id, None)

    def show_all(self, plans: Iterable[Kept]) -> None:
        """Brings all dictionaries up to date."""
        shown = {plan.plan_id: plan for plan in plans}
        for plan_id in self.plans.keys() - shown.keys():
            self.forget(plan_id)
        for plan in shown.values():
            self.show(plan)

    @property
    def is_changed(self) -> bool:
        """Whether a program has written into the dictionaries."""
        if self.plans.keys() != self._known.keys():
            return True
        return any(_differs(plan, self._known[name]) for name, plan in self.plans.items())

    async def write_to(self, book: PlanBook) -> None:
        """Writes what a program has changed into the store."""
        for plan_id in [each for each in self._known if each not in self.plans]:
            _need_own(self._known[plan_id])
            await book.remove(plan_id)
            self.forget(plan_id)
        for plan_id, plan in list(self.plans.items()):
            before = self._known.get(plan_id)
            if before is None or _differs(plan, before):
                await _write(book, plan_id, plan, before)
                kept = await book.find(plan_id)
                assert kept is not None  # noqa: S101
                self.show(kept)


def dictionary(plan: Kept) -> PlanDict:
    """Returns a plan as the dictionary that programs of OpenManus read."""
    return {
        "plan_id": plan.plan_id,
        "title": plan.title,
        "steps": [*plan.steps],
        "step_statuses": [*plan.statuses],
        "step_notes": [*plan.notes],
    }


def _differs(plan: Mapping[str, Any], kept: Kept) -> bool:
    return any(plan.get(name) != value for name, value in dictionary(kept).items())


async def _write(book: PlanBook, plan_id: str, plan: PlanDict, before: Kept | None) -> None:
    steps = plan.get("steps")
    if not isinstance(steps, list) or not all(
        isinstance(each, str) for each in cast("list[object]", steps)
    ):
        raise ToolError(f"plans[{plan_id!r}]['steps'] must be a list of strings")
    want = Kept.of(plan_id, plan)
    unknown = [each for each in want.statuses if each not in STATUSES.values()]
    if unknown:
        raise ToolError(f"plans[{plan_id!r}]['step_statuses'] has an unknown status: {unknown[0]}")
    if before is None:
        await book.create(plan_id, want.title, want.steps)
    else:
        _need_own(before)
        await book.revise(plan_id, want.title, want.steps)
    now = await book.find(plan_id)
    assert now is not None  # noqa: S101
    for index, (status, note) in enumerate(zip(want.statuses, want.notes, strict=True)):
        if (status, note) != (now.statuses[index], now.notes[index]):
            await book.mark(plan_id, index, status, note)


def _need_own(plan: Kept) -> None:
    if not plan.own:
        raise ToolError(f"Plan '{plan.plan_id}' is run by a flow: only its run changes it.")


class Everything(NamedTuple):
    """All plans of a store, and which is the active one."""

    plans: list[Kept]
    active: str | None


def read_beside(url: str) -> Everything:
    """Reads a store in a thread of its own, for code that cannot wait."""

    async def read() -> Everything:
        store = open_store(url)
        try:
            return await everything(PlanBook(store, SystemClock()))
        finally:
            await store.close()

    return _in_thread(read())


def read_memory(book: PlanBook) -> Everything:
    """Reads a store in memory, which needs no waiting, save for an event loop with results."""
    reading = everything(book)
    try:
        reading.send(None)
    except StopIteration as done:
        return cast("Everything", done.value)
    except RuntimeError:
        pass
    reading.close()
    # Nobody else uses the store meanwhile: this thread waits.
    return _in_thread(everything(book))


async def everything(book: PlanBook) -> Everything:
    """Reads all plans and the active one."""
    return Everything(await book.all(), await book.active())


def _in_thread(reading: Coroutine[Any, Any, Everything]) -> Everything:
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, reading).result()
