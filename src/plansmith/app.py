"""Plansmith: plans and runs, for a program that uses it as a library (floor 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Self, Unpack, cast

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.urls import open_store
from plansmith.adapters.tools.functions import FunctionTool, FunctionTools
from plansmith.config import Settings
from plansmith.plan.events import Who
from plansmith.plan.run import Run
from plansmith.ports import Agent, ChatModel, Clock, PlanStore, ToolSource
from plansmith.runner.halting import LeftOut, skip_step
from plansmith.runner.options import Options
from plansmith.runner.scheduling import Scheduling

ToolLike = FunctionTool | Callable[..., Any] | ToolSource


class Plansmith(Scheduling):
    """Makes plans, has them approved, runs them, and forgets nothing.

    `tools` are functions (see `tool`) and tool sources, `store` a URL or a store of your own.
    More by name: see `Options`.
    """

    def __init__(
        self,
        *,
        model: ChatModel | None = None,
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent] = (),
        store: str | PlanStore = "memory",
        settings: Settings | None = None,
        clock: Clock | None = None,
        **more: Unpack[Options],
    ) -> None:
        super().__init__(
            model=model,
            store=open_store(store) if isinstance(store, str) else store,
            clock=clock or SystemClock(),
            sources=_sources(tools),
            agents=agents,
            planner=(settings or Settings()).planner,
            **more,
        )

    @classmethod
    def from_settings(cls, settings: Settings | None = None) -> Plansmith:
        """A Plansmith as the settings say: files of the person and the project, environment."""
        # By name: wiring stands a floor higher, since it knows every part by its dotted path.
        made: Plansmith = import_module("plansmith.wiring").make_smith(settings)
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def skip(self, run_id: str, step: str, *, by: Who = "") -> LeftOut:
        """Leave a step out that has not begun, or that asks; tells what cannot run without it.

        Nothing else of the run stops or waits for that.
        """
        return await skip_step(self, run_id, step, by=by)

    def plan_sync(self, request: str, **options: Any) -> Run:
        """`plan`, for scripts and notebooks that do not wait."""
        return asyncio.run(self.plan(request, **options))

    def run_sync(self, run_id: str) -> Run:
        """`run`, for scripts and notebooks that do not wait."""
        return asyncio.run(self.run(run_id))


def _sources(tools: Sequence[ToolLike]) -> list[ToolSource]:
    sources = [cast("ToolSource", each) for each in tools if _is_source(each)]
    functions = [cast("Callable[..., Any]", each) for each in tools if not _is_source(each)]
    return [FunctionTools(functions), *sources] if functions else sources


def _is_source(each: object) -> bool:
    return hasattr(each, "tools") and hasattr(each, "call")
