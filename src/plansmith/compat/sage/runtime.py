"""SAGE's runtime: a query planned and run, the answer worded from what the tools gave."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, cast

from plansmith.app import Plansmith
from plansmith.compat.sage.model import Generator, model_of
from plansmith.compat.sage.profile import Profile
from plansmith.compat.sage.tools import RegistryTools, ToolRegistry
from plansmith.dialects.sage import read, write
from plansmith.errors import InvalidPlan
from plansmith.plan.data import Json
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.run import Run
from plansmith.ports import ChatModel, PlanStore
from plansmith.runner.limits import Caps, RunLimits

Review = Callable[[Run], bool]
_CALLER = "who called the runtime"


class Planner(Protocol):
    """What a runtime needs of its planner."""

    generator: Generator | ChatModel

    async def aplan(
        self, profile_system_prompt: Profile, user_query: str, tools: Any
    ) -> list[dict[str, Any]]:
        """The steps."""
        ...


class AgentRuntime:
    """Plans with a planner and runs with a registry, through our runner and its journal.

    As in SAGE, who calls `execute` approves the plan; with `review` you decide on it first.
    `summarizer` words the answer where it is not the planner's generator that should.
    """

    def __init__(
        self,
        profile: Profile,
        planner: Planner,
        tools: ToolRegistry,
        summarizer: Generator | ChatModel | None = None,
        *,
        store: str | PlanStore = "memory",
        review: Review = lambda _: True,
    ) -> None:
        self.profile = profile
        self.planner = planner
        self.tools = tools
        self.summarizer = summarizer
        self.run: Run | None = None
        self._store = store
        self._review = review

    @property
    def observations(self) -> list[dict[str, Any]]:
        """What came of each tool step of the last query."""
        if self.run is None or self.run.plan is None:
            return []
        told = cast("dict[str, Any]", write(self.run.plan, self.run).value)
        return cast("list[dict[str, Any]]", told["observations"])

    def execute(self, data: Any) -> str:
        """The answer to a query, given as text or as a table with `profile_overrides`."""
        table = cast("dict[str, Any]", data) if isinstance(data, dict) else {"query": data}
        query = table.get("user_query") or table.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError("give a query, or a table with 'user_query' (or 'query')")
        profile = self.profile.merged(**table.get("profile_overrides", {}))
        # A thread with a loop of its own, so that it works inside a loop too.
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(context.run, asyncio.run, self.answer(query, profile))
            return work.result()

    async def answer(self, query: str, profile: Profile | None = None) -> str:
        """`execute`, for programs that wait."""
        steps = await self.planner.aplan(profile or self.profile, query, self.tools.describe())
        reading = read(cast("Json", steps))
        if reading.plan is None:
            raise InvalidPlan(reading.problems)
        plan = reading.plan.replace(goal=query)
        smith = Plansmith(
            model=model_of(self.summarizer or self.planner.generator, query),
            tools=[RegistryTools(self.tools)],
            store=self._store,
            caps=Caps(replans=0),
            limits=RunLimits(data="show"),
        )
        async with smith:
            run = await smith.submit(plan, request=query, by=_CALLER)
            move = next_move(run)
            if isinstance(move, AwaitReview):
                approved = self._review(run)
                decision = {"approve": move.hash} if approved else {}
                run = await smith.decide(run.id, reject=not approved, by=_CALLER, **decision)
            self.run = await smith.run(run.id)
            told = cast("dict[str, Any]", write(plan, self.run).value)
        return str(told["answer"])
