"""Executes what only reads, before the approval, and finds what the changes would be."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, Unpack, cast

from plansmith.engine.consent import data_sources
from plansmith.engine.executor import Executor, ExecutorOptions
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import Failed
from plansmith.engine.units import Unit
from plansmith.plan import events as e
from plansmith.plan.data import Json, canonical_hash, content_of, json_text
from plansmith.plan.earlier import source_name
from plansmith.plan.ids import root_of
from plansmith.plan.preview import CallPreview, OpenCall, Preview, PreviewedCall
from plansmith.plan.refs import RESERVED

_AT_ONCE: Final = 8
_MAX_SHOWN: Final = 20_000_000  # characters of one preview


class PreviewExecutor(Executor):
    """Makes the calls of a plan that only read; holds its changes, with their inputs.

    A change that merely comes after another one is shown, too. What uses the result of a change,
    and every read after one, stays open until the plan runs.
    """

    is_preview = True

    def __init__(self, journal: Journal, **options: Unpack[ExecutorOptions]) -> None:
        super().__init__(journal, **options)
        self.only: Collection[str] = ()  # the steps to execute, if not all
        self._held: dict[str, PreviewedCall] = {}
        self._units: dict[str, Unit] = {}
        self._aside: set[str] = set()
        self._late: set[str] = set()  # what comes after a change, if only in order
        self._covers: dict[str, str] = {}
        self._items: dict[str, str] = {}

    async def preview(self) -> None:
        """Executes until nothing but changes is left, and writes what these would be."""
        await self.execute()
        if self._is_cancelled or not self._may_start:
            return  # a person has decided meanwhile
        shown = await self._ask_tools()
        places = {name: at for at, name in enumerate(self._state.units)}
        held = sorted(self._held, key=lambda name: places[root_of(name)])  # as in the plan
        calls = [self._held[name].replace(shown=shown.get(name)) for name in held]
        size = 0
        for place, call in enumerate(calls):
            size += len(json_text(call.shown.to_json())) if call.shown is not None else 0
            if call.shown is not None and size > _MAX_SHOWN:
                calls[place] = call.replace(shown=_in_brief(call.shown))
        content = Preview(calls=tuple(calls), open=tuple(self._open_calls())).to_json()
        if calls:  # with the digits that numbers were written with
            written = [{**each.to_json(), "inputs": each.inputs} for each in calls]
            content["calls"] = cast("Json", written)
        made = e.PreviewMade(
            hash=self._journal.plan_hash,
            covers=self._covers,
            items=self._items,
            seen={name: each.hash for name, each in shown.items()},
            touches={name: each.touched for name, each in shown.items() if each.touched},
        )
        whole = content_of(content)
        await self._journal.append(made.replace(content=whole.digest), values=[whole])

    async def _ask_tools(self) -> dict[str, CallPreview]:
        """Asks the tools what the calls would do, some at a time."""
        places, shown = asyncio.Semaphore(_AT_ONCE), dict[str, CallPreview]()

        async def ask(name: str, call: PreviewedCall) -> None:
            if call.shown is None:  # else it is known that it would fail
                async with places:
                    found = await self._callees.preview(self._units[name], call.inputs)
            else:
                found = call.shown
            # After another change the world is another one: what would fail now may not fail then.
            if found is not None and not (found.fails and name in self._late):
                shown[name] = found

        await asyncio.gather(*(ask(name, call) for name, call in self._held.items()))
        return shown

    @property
    def _is_stopped(self) -> bool:
        return self._journal.run.previewing != self._journal.plan_hash or super()._is_stopped

    async def _loop(self) -> None:
        """Goes on past steps with parts, once nothing else can be read."""
        state = self._state
        while True:
            await super()._loop()
            waiting = [
                name
                for name, group in state.groups.items()
                if group.held and name not in state.stopped and name not in self._aside
            ]
            if not waiting or not self._may_start:
                return
            for name in waiting:
                self._set_aside(state.units[name])

    def _is_set_aside(self, unit: Unit) -> bool:
        """Sets a unit aside that asks, replies, or needs what a change has not yet done."""
        step = unit.step
        is_wanted = not self.only or root_of(unit.name) in self.only
        if is_wanted and step.kind not in ("ask", "reply"):
            lacking = unit.needs() & (self._aside | self._late)
            self._late |= {unit.name} if lacking else set()
            inner = step.inner
            if inner.kind in ("tool", "agent") and self._acts(unit.with_step(inner)):
                uses = {each.ref.step for each in step.references if each.ref is not None}
                lacking &= {f"{unit.scope}{name}" for name in uses - RESERVED}
            if not lacking:
                return False
        self._set_aside(unit)
        return True

    def _acts(self, unit: Unit) -> bool:
        return not self._callees.is_read(unit)

    def _set_aside(self, unit: Unit) -> None:
        self._aside.add(unit.name)
        self._state.set_aside(unit)

    def _ask_for_consent(
        self, unit: Unit, inputs: dict[str, Json], permit: e.StepReplied | None
    ) -> bool:
        """Holds a change in place of asking about its values."""
        if unit.is_item:
            self._items[unit.name] = unit.item
        if not self._acts(unit):
            if unit.step.kind == "map" and root_of(unit.name) in self._journal.run.acts:
                self._covers[unit.name] = canonical_hash(inputs)
            return False
        refused = self._consent.needed(unit, inputs, permit, self._state)
        repeat = unit.step.repeat
        self._units[unit.name] = unit
        self._covers[unit.name] = canonical_hash(inputs)
        self._held[unit.name] = PreviewedCall(
            step=unit.name,
            callee=unit.callee,
            inputs=inputs,
            shown=CallPreview(fails=refused.error) if isinstance(refused, Failed) else None,
            sources=tuple(map(source_name, data_sources(unit, self._state))),
            times=repeat.at_most if repeat is not None else 0,
        )
        self._set_aside(unit)
        return True

    def _open_calls(self) -> list[OpenCall]:
        """Returns the changes that nobody can show yet, with what they wait for."""
        state, found = self._state, list[OpenCall]()
        acts = {*self._journal.run.acts}
        for name, unit in state.units.items():
            is_known = name in self._held or name in state.stopped or name in state.groups
            if is_known or root_of(name) not in acts or not (unit.is_group or self._acts(unit)):
                continue
            waits = (each for each in unit.needs() if each not in state.results)
            found.append(OpenCall(step=name, waits_for=tuple(sorted(waits))))
        return found


def _in_brief(shown: CallPreview) -> CallPreview:
    """Returns what a tool showed without long texts; its hash stays."""
    files = tuple(each.replace(difference=(), text="") for each in shown.files)
    return shown.replace(seen=shown.hash, text="", rows=(), files=files)
