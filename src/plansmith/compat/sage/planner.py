"""SAGE's profile and planner: turns a query and tools into a list of steps."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from plansmith.adapters.clock import SystemClock
from plansmith.compat.sage.model import Generator, model_of
from plansmith.dialects.dialect import left_behind
from plansmith.dialects.sage import write
from plansmith.plan.capability import tool_specs
from plansmith.plan.data import Record
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import Texts
from plansmith.plan.steps import Text
from plansmith.planner.context import profile as briefing
from plansmith.planner.fallback import salvage
from plansmith.planner.model_calls import Transcript
from plansmith.planner.pipeline import make_plan
from plansmith.planner.request import Planned, PlannerDeps, PlannerSettings, PlanRequest
from plansmith.ports import ChatModel

PlanStep = dict[str, Any]
Manifest = Mapping[str, Mapping[str, Any]]
NO_PLAN: Final = "（计划不可用）"
_MOST_TEXT: Final = 2000
_KEYS: Final = (
    "'profile_prompt' (or 'profile_system_prompt'), 'user_query' (or 'query') and "
    "'tools' (or 'registry')"
)


class Profile(Record):
    """A profile with SAGE's defaults and with constraints, which plans are checked against."""

    name: Text = "BaseAgent"
    role: Text = "general assistant"
    goals: Texts = ()
    tasks: Texts = ()
    backstory: Text = ""
    language: Text = "zh"
    tone: Text = "concise"
    hard_constraints: Texts = ()
    soft_constraints: Texts = ()

    def merged(self, **overrides: Any) -> Profile:
        """Returns a copy with other values in some fields; None leaves a field unchanged."""
        return self.replace(**{name: each for name, each in overrides.items() if each is not None})

    def render_system_prompt(self) -> str:
        """Returns the profile as text for a prompt."""
        return self.briefing().render()

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Profile:
        """Makes a profile from its fields."""
        return cls.model_validate(dict(data))

    def execute(self, data: Any = None) -> str:
        """Returns the text; a mapping changes fields for this call only."""
        changes: dict[str, Any] = {**data} if isinstance(data, dict) else {}
        return self.merged(**changes).render_system_prompt()

    def briefing(self) -> briefing.Profile:
        """Returns the profile in the form of our planner."""
        return briefing.Profile.model_validate(dict(self))


BaseProfile = Profile


class LLMPlanner:
    """Plans with a generator of SAGE or with one of our models.

    After a call, `problems` has all problems of the plan, and `planned` the whole result of
    planning, also what SAGE's list of steps cannot express.
    """

    def __init__(
        self,
        generator: Generator | ChatModel,
        max_steps: int = 6,
        enable_repair: bool = True,  # noqa: FBT001, FBT002 - SAGE's own signature
        topk_tools: int = 6,
    ) -> None:
        model_of(generator, "")  # raises if it is neither
        if max_steps < 1 or topk_tools < 1:
            raise ValueError("'max_steps' and 'topk_tools' must be positive")
        self.generator = generator
        self.max_steps = max_steps
        self.enable_repair = enable_repair
        self.topk_tools = topk_tools
        self.planned: Planned | None = None
        self.problems: tuple[Problem, ...] = ()

    def plan(
        self, profile_system_prompt: str | Profile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
        """Returns the steps; at least one."""
        return self._plan(profile_system_prompt, user_query, tools, self.topk_tools)

    def plan_stream(
        self, profile_system_prompt: str | Profile, user_query: str, tools: Manifest
    ) -> Iterator[dict[str, Any]]:
        """Yields the stages of planning as thoughts, and at last the plan."""
        return self._stream(profile_system_prompt, user_query, tools, self.topk_tools)

    async def aplan(
        self, profile_system_prompt: str | Profile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
        """Does the same as `plan`, for async programs."""
        return await self._make(
            profile_system_prompt, user_query, tools, self.topk_tools, lambda _: None
        )

    def execute(self, data: Any) -> list[PlanStep]:
        """Plans from a mapping or a triple; `topk` in a mapping applies to this call only."""
        parts: list[Any] = [*data] if isinstance(data, tuple) else []
        if len(parts) == 3:
            profile, query, tools = parts
            if not isinstance(profile, (str, Profile)) or not isinstance(query, str):
                raise TypeError("the triple must be (profile prompt, query, tools or registry)")
            return self._plan(profile, query, _manifest(tools), self.topk_tools)
        if not isinstance(data, dict):
            raise TypeError(f"LLMPlanner.execute takes a triple or a mapping with {_KEYS}")
        return self._from_mapping(cast("dict[str, Any]", data))

    def _from_mapping(self, data: dict[str, Any]) -> list[PlanStep]:
        profile = data.get("profile_prompt") or data.get("profile_system_prompt")
        query = data.get("user_query") or data.get("query")
        tools = data.get("tools") if data.get("tools") is not None else data.get("registry")
        if not isinstance(profile, (str, Profile)) or not isinstance(query, str) or tools is None:
            raise ValueError(f"LLMPlanner.execute needs {_KEYS}")
        topk = data.get("topk", self.topk_tools)
        if isinstance(topk, bool) or not isinstance(topk, int) or topk < 1:
            raise ValueError("'topk' must be a positive int")
        return self._plan(profile, query, _manifest(tools), topk)

    def _plan(
        self, profile: str | Profile, query: str, tools: Manifest, topk: int
    ) -> list[PlanStep]:
        *_, last = self._stream(profile, query, tools, topk)
        return cast("list[PlanStep]", last["steps"])

    def _stream(
        self, profile: str | Profile, query: str, tools: Manifest, topk: int
    ) -> Iterator[dict[str, Any]]:
        """Plans in a thread with its own event loop, so that it works inside a loop too."""
        events: queue.SimpleQueue[dict[str, Any] | BaseException] = queue.SimpleQueue()

        def think(text: str) -> None:
            events.put({"type": "thought", "content": text})

        def work() -> None:
            try:
                steps = asyncio.run(self._make(profile, query, tools, topk, think))
                events.put({"type": "plan", "steps": steps})
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                events.put(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), daemon=True).start()
        while True:
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if event["type"] == "plan":
                return

    async def _make(
        self,
        profile: str | Profile,
        query: str,
        tools: Manifest,
        topk: int,
        tell: Callable[[str], None],
    ) -> list[PlanStep]:
        own = profile.briefing() if isinstance(profile, Profile) else None
        prompt = own or briefing.Profile(backstory=str(profile), tone="")
        transcript = Transcript()
        deps = PlannerDeps(
            plan_model=transcript.of(model_of(self.generator, query)),
            clock=SystemClock(),
            tools=tool_specs(tools),
            settings=PlannerSettings(
                top_k=topk, max_steps=self.max_steps, repairs=int(self.enable_repair), triage=False
            ),
        )
        request = PlanRequest(query, profile=prompt, dialect="sage")
        planned = await make_plan(request, deps=deps, tell=tell)
        self.planned, self.problems = planned, planned.problems
        first = str(transcript.exchanges[0]["text"]) if transcript.exchanges else ""
        return self._steps(planned, first)

    def _steps(self, planned: Planned, text: str) -> list[PlanStep]:
        """Returns the plan, its usable part, or the model's text as a reply."""
        plan = planned.plan
        if plan is not None and plan.degraded:
            draft = planned.draft
            if draft is None:
                return [{"type": "reply", "text": text.strip()[:_MOST_TEXT] or NO_PLAN}]
            plan = salvage(draft, planned.problems, max_steps=self.max_steps)
        elif plan is not None and len(plan.steps) > self.max_steps:
            # Our limit does not count replies; SAGE's counts every step of the list.
            most, count = self.max_steps, len(plan.steps)
            cut = left_behind(f"the list holds {most} steps, the plan has {count}")
            self.problems += (cut,)
            plan = salvage(plan, (), max_steps=most)
        writing = write(plan) if plan is not None else None
        if writing is not None:
            # Losses of the plan itself are left out: its goal is the query, which the caller has.
            self.problems += tuple(each for each in writing.lost if each.step is not None)
        steps = cast("list[PlanStep]", writing.value) if writing is not None else []
        return steps or [{"type": "reply", "text": NO_PLAN}]


def _manifest(tools: Any) -> Manifest:
    """Returns a mapping of tools, also from a registry."""
    if isinstance(tools, Mapping):
        return cast("Manifest", tools)
    if callable(getattr(tools, "describe", None)):
        return cast("Manifest", tools.describe())
    raise TypeError("tools must be a mapping, or a registry with describe()")
