"""SAGE's profile and planner: a query and tools in, a list of steps out, never an exception."""

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
    """A profile with SAGE's defaults; the constraints are ours, and plans are held to them."""

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
        """A copy with other values in some fields; None leaves a field as it is."""
        return self.replace(**{name: each for name, each in overrides.items() if each is not None})

    def render_system_prompt(self) -> str:
        """The profile as text for a prompt."""
        return self.briefing().render()

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Profile:
        """A profile from its fields."""
        return cls.model_validate(dict(data))

    def execute(self, data: Any = None) -> str:
        """The text, with fields changed for this once when a table of them is given."""
        changes: dict[str, Any] = {**data} if isinstance(data, dict) else {}
        return self.merged(**changes).render_system_prompt()

    def briefing(self) -> briefing.Profile:
        """The profile as our planner takes it."""
        return briefing.Profile.model_validate(dict(self))


BaseProfile = Profile


class LLMPlanner:
    """Plans with a generator of SAGE or any model of ours.

    After a call `problems` has all that was wrong with the plan, and `planned` all there is to
    know of it. What SAGE's list cannot say is left out of it, never of `planned`.
    """

    def __init__(
        self,
        generator: Generator | ChatModel,
        max_steps: int = 6,
        enable_repair: bool = True,  # noqa: FBT001, FBT002 - SAGE's own signature
        topk_tools: int = 6,
    ) -> None:
        model_of(generator, "")  # what is neither is told at once
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
        """The steps; at least one."""
        return self._plan(profile_system_prompt, user_query, tools, self.topk_tools)

    def plan_stream(
        self, profile_system_prompt: str | Profile, user_query: str, tools: Manifest
    ) -> Iterator[dict[str, Any]]:
        """What planning is about, as thoughts, while it goes on; at last the plan."""
        return self._stream(profile_system_prompt, user_query, tools, self.topk_tools)

    async def aplan(
        self, profile_system_prompt: str | Profile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
        """`plan`, for programs that wait."""
        return await self._make(
            profile_system_prompt, user_query, tools, self.topk_tools, lambda _: None
        )

    def execute(self, data: Any) -> list[PlanStep]:
        """`plan`, from a table or a triple; `topk` in a table counts for this call alone."""
        parts: list[Any] = [*data] if isinstance(data, tuple) else []
        if len(parts) == 3:
            profile, query, tools = parts
            if not isinstance(profile, (str, Profile)) or not isinstance(query, str):
                raise TypeError("a triple is (profile prompt, query, tools or registry)")
            return self._plan(profile, query, _manifest(tools), self.topk_tools)
        if not isinstance(data, dict):
            raise TypeError(f"LLMPlanner.execute takes a triple or a table with {_KEYS}")
        return self._from_table(cast("dict[str, Any]", data))

    def _from_table(self, data: dict[str, Any]) -> list[PlanStep]:
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
        """Planning in a thread with a loop of its own, so that it works inside a loop too."""
        told: queue.SimpleQueue[dict[str, Any] | BaseException] = queue.SimpleQueue()

        def think(text: str) -> None:
            told.put({"type": "thought", "content": text})

        def work() -> None:
            try:
                steps = asyncio.run(self._make(profile, query, tools, topk, think))
                told.put({"type": "plan", "steps": steps})
            except BaseException as error:  # noqa: BLE001 - raised where the plan is waited for
                told.put(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), daemon=True).start()
        while True:
            event = told.get()
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
        given = profile.briefing() if isinstance(profile, Profile) else None
        said = given or briefing.Profile(backstory=str(profile), tone="")
        transcript = Transcript()
        deps = PlannerDeps(
            plan_model=transcript.of(model_of(self.generator, query)),
            clock=SystemClock(),
            tools=tool_specs(tools),
            settings=PlannerSettings(
                top_k=topk, max_steps=self.max_steps, repairs=int(self.enable_repair), triage=False
            ),
        )
        request = PlanRequest(query, profile=said, dialect="sage")
        planned = await make_plan(request, deps=deps, tell=tell)
        self.planned, self.problems = planned, planned.problems
        first = str(transcript.exchanges[0]["text"]) if transcript.exchanges else ""
        return self._steps(planned, first)

    def _steps(self, planned: Planned, said: str) -> list[PlanStep]:
        """The plan, what can be used of it, or the words in which the model gave none."""
        plan = planned.plan
        if plan is not None and plan.degraded:
            draft = planned.draft
            if draft is None:
                return [{"type": "reply", "text": said.strip()[:_MOST_TEXT] or NO_PLAN}]
            plan = salvage(draft, planned.problems, max_steps=self.max_steps)
        elif plan is not None and len(plan.steps) > self.max_steps:
            # Our limit counts no reply, SAGE's counts every step of the list.
            most, count = self.max_steps, len(plan.steps)
            told = left_behind(f"the list holds {most} steps, the plan has {count}")
            self.problems += (told,)
            plan = salvage(plan, (), max_steps=most)
        writing = write(plan) if plan is not None else None
        if writing is not None:
            # The query is the plan's goal, and the caller has it.
            self.problems += tuple(each for each in writing.lost if each.step is not None)
        steps = cast("list[PlanStep]", writing.value) if writing is not None else []
        return steps or [{"type": "reply", "text": NO_PLAN}]


def _manifest(tools: Any) -> Manifest:
    """A table of tools, also from a registry."""
    if isinstance(tools, Mapping):
        return cast("Manifest", tools)
    if callable(getattr(tools, "describe", None)):
        return cast("Manifest", tools.describe())
    raise TypeError("tools are a table, or a registry with describe()")
