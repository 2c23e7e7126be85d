"""SAGE's runtime: plans a query, runs the plan with a journal and writes the answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, Literal, Protocol, cast

from plansmith.app import Plansmith
from plansmith.errors import Refused, StaleDecision
from plansmith.plan.capability import tool_specs
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.planning import PlanRequest
from plansmith.plan.run import Run, StepStatus
from plansmith.ports import ChatModel, PlanStore
from plansmith.review.policy import acting_steps
from plansmith.store.memory import MemoryStore
from plansmith_compat.calling import Tell, in_own_loop, in_thread, told_by, verdict_of
from plansmith_compat.sage.dialect import write
from plansmith_compat.sage.drafting import PlanStep
from plansmith_compat.sage.model import GeneratorLike, need_generator, wording_model
from plansmith_compat.sage.operator import MapFunction, Scoped
from plansmith_compat.sage.planner import LLMPlanner
from plansmith_compat.sage.profile import BaseProfile, briefing_of
from plansmith_compat.sage.registry import RegistryTools, ToolRegistry
from plansmith_compat.sage.runnable import Runnable, runnable
from plansmith_compat.sage.step_result import StepResult, result_of
from plansmith_compat.sage.step_stream import failed_before, tell_steps
from plansmith_planner.make import model_of

Review = Callable[[Run], bool | Awaitable[bool | None] | None]
_REPLANS: Final = 2
_CALLER: Final = "who called the runtime"


class Planner(Protocol):
    """What a runtime needs from its planner; one with `generator` also words the answers."""

    def plan(self, profile_system_prompt: str, user_query: str, tools: Any) -> list[dict[str, Any]]:
        """Returns the steps."""
        ...


class AgentRuntime(MapFunction):
    """Plans with a planner and runs the plan with a registry, with a journal.

    As in SAGE, calling `step` or `execute` approves the plan; with `review` you decide on it
    first. `summarizer` words the answer; by default the planner's generator does. `replans` is
    how many new plans a failed step may lead to, or with `replan="after_each"` every step; one
    that changes something waits for `review` or `decide`. A missing argument becomes a question,
    and `answer_question` answers it, also in another process with the same `store`.
    """

    max_steps = Scoped[int]()
    profile = Scoped[BaseProfile]()

    def __init__(  # noqa: PLR0913 - SAGE's own signature, the rest by name
        self,
        profile: BaseProfile | None = None,
        planner: Planner | None = None,
        tools: ToolRegistry | None = None,
        summarizer: GeneratorLike | str | None = None,
        max_steps: int = 6,
        *,
        memory: Any = None,
        model: ChatModel | str | None = None,
        store: str | PlanStore = "memory",
        review: Review | None = None,
        replan: Literal["never", "on_failure", "after_each"] = "never",
        replans: int = 0,
    ) -> None:
        self.profile = profile if profile is not None else BaseProfile()
        self.planner: Planner = planner if planner is not None else LLMPlanner(model=model)
        self.tools = tools if tools is not None else ToolRegistry()
        self.summarizer = model_of(summarizer) if isinstance(summarizer, str) else summarizer
        if self.summarizer is not None:
            need_generator(self.summarizer)
        self.max_steps = _positive(max_steps)
        self.memory = memory
        own = self._own_planner()
        if memory is not None and own is not None:
            own.memory = memory
        if (replans or replan != "never") and own is None:
            raise TypeError("new plans while a plan runs need an LLMPlanner")
        self.replans = replans or (0 if replan == "never" else _REPLANS)
        self._replan: Literal["on_failure", "after_each"] = (
            "after_each" if replan == "after_each" else "on_failure"
        )
        self.run: Run | None = None
        self.result: StepResult | None = None
        # Kept open, so that a question can still be answered.
        self._store: str | PlanStore = MemoryStore() if store == "memory" else store
        self._review = review

    @property
    def observations(self) -> list[dict[str, Any]]:
        """The result of each tool step of the last query."""
        return self.result["observations"] if self.result is not None else []

    def step(self, user_query: str) -> StepResult:
        """Plans a query, runs the plan, and returns reply, observations and plan."""
        return in_own_loop(self.answer(user_query))

    def step_stream(self, user_query: str) -> Iterator[dict[str, Any]]:
        """Yields what happens: thoughts, the plan, each tool, the reply, and the whole result."""

        async def work(tell: Tell) -> None:
            result = await self._turn(user_query, tell)
            if result.error:
                tell({"type": "error", "content": result.error})
            else:
                tell({"type": "reply", "content": result["reply"]})
                tell({"type": "completed", **result})

        return told_by(work)

    def execute(self, data: Any) -> StepResult:
        """Answers a query: a text, or a mapping with `max_steps` and `profile_overrides`."""
        if isinstance(data, str):
            return self.step(data)
        if not isinstance(data, dict):
            raise TypeError("AgentRuntime.execute takes a text, or a mapping with 'query'")
        table = cast("dict[str, Any]", data)
        query = table.get("user_query") or table.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError("give a query, or a mapping with 'user_query' (or 'query')")
        own = AgentRuntime.__dict__
        with ExitStack() as changes:
            if "max_steps" in table:
                most = _positive(table["max_steps"])
                changes.enter_context(own["max_steps"].during(self, most))
            profile = self._profile_with(table.get("profile_overrides"))
            changes.enter_context(own["profile"].during(self, profile))
            return self.step(query)

    async def answer(self, query: str, profile: BaseProfile | None = None) -> StepResult:
        """Does the same as `step`, for async programs."""
        return await self._turn(query, profile=profile)

    def answer_question(
        self, value: Any, question: str = "", *, run_id: str = "", by: str = _CALLER
    ) -> StepResult:
        """Answers a question of the last query, or of a stored run, and goes on with it."""
        return in_own_loop(self.aanswer_question(value, question, run_id=run_id, by=by))

    async def aanswer_question(
        self, value: Any, question: str = "", *, run_id: str = "", by: str = _CALLER
    ) -> StepResult:
        """Does the same as `answer_question`, for async programs."""

        async def answered(smith: Plansmith, run: Run) -> Run:
            name = question or next(iter(run.questions), "")
            if not name:
                raise Refused(f"run {run.id} has no open question", hint="see result.questions")
            return await smith.answer(run.id, name, value, by=by)

        return await self._resumed(run_id, answered)

    def decide(self, *, approve: bool, run_id: str = "", by: str = _CALLER) -> StepResult:
        """Approves a new plan that waits, or rejects it, and goes on."""
        return in_own_loop(self.adecide(approve=approve, run_id=run_id, by=by))

    async def adecide(self, *, approve: bool, run_id: str = "", by: str = _CALLER) -> StepResult:
        """Does the same as `decide`, for async programs."""

        async def decided(smith: Plansmith, run: Run) -> Run:
            shown = self.run if self.run is not None and self.run.id == run.id else run
            if shown.plan != run.plan:
                self.run = run
                hint = "look at runtime.run.plan, and decide again"
                raise StaleDecision(f"run {run.id} has another plan by now", hint=hint)
            return await _decided(smith, run, approve=approve, by=by)

        return await self._resumed(run_id, decided)

    async def _resumed(
        self, run_id: str, act: Callable[[Plansmith, Run], Awaitable[Run]]
    ) -> StepResult:
        """Does what a run waits for, and goes on with it."""
        name = run_id or (self.run.id if self.run is not None else "")
        if not name:
            raise Refused("there is no run to go on with", hint="give run_id=…")
        async with self._smith("") as smith:
            request = (await smith.get(name)).request
        async with self._smith(request) as smith:
            run = await act(smith, await smith.get(name))
            run = await self._go_on(smith, run)
            earlier = await failed_before(smith, run)
        steps = write(run.plan).value if run.plan else []
        return self._ended(run, result_of(run, cast("list[PlanStep]", steps), earlier))

    async def _turn(
        self, query: str, tell: Tell | None = None, *, profile: BaseProfile | None = None
    ) -> StepResult:
        """Plans, runs and tells the result; what goes wrong in planning is told too."""
        who = profile or self.profile
        try:
            manifest = self.tools.describe()
            steps = await in_thread(self._plan_steps, who, query, manifest, tell)
        except Exception as error:  # noqa: BLE001 - a planner may raise anything
            return self._ended(None, StepResult(error=f"Planning failed: {error}"))
        own = self._own_planner()
        if own is not None and own.failure and len(steps) == 1:
            # Nothing was planned, so nothing runs, and the answer says why.
            said = str(steps[0].get("text", ""))
            reply = "\n".join(dict.fromkeys([said, own.failure]))
            failed = f"Planning failed: {own.failure}"
            return self._ended(None, StepResult(reply, plan=steps, error=failed))
        return await self._ran(steps, manifest, who, query, tell)

    async def _ran(
        self,
        steps: list[PlanStep],
        manifest: Mapping[str, Any],
        who: BaseProfile,
        query: str,
        tell: Tell | None,
    ) -> StepResult:
        """Runs a list of steps as a plan."""
        given = runnable(
            steps,
            manifest,
            query,
            most=self.max_steps,
            words=self._wording(query, who) is not None,
            sums=self.summarizer is not None,
        )
        if given.plan is None:
            return self._ended(None, result_of(None, steps, given.unusable))
        async with self._smith(query, who) as smith:
            run = await self._started(smith, given, who, query, tell)
            earlier = await failed_before(smith, run)
        return self._ended(run, result_of(run, steps, [*given.unusable, *earlier]))

    def _ended(self, run: Run | None, result: StepResult) -> StepResult:
        self.run, self.result = run, result
        return result

    async def _started(
        self, smith: Plansmith, given: Runnable, who: BaseProfile, query: str, tell: Tell | None
    ) -> Run:
        own = self._own_planner()
        wanted = PlanRequest(
            query,
            profile=briefing_of(who.render_system_prompt()),
            top_k=own.topk_tools if own is not None else None,
            max_steps=self.max_steps,
            dialect="sage",
        )
        options = wanted.options()
        made = await smith.runs.create(query, plan=given.plan, options=options, by=_CALLER)
        if tell is None:
            return await self._go_on(smith, made.run)
        async with tell_steps(smith, made.run.id, tell):
            return await self._go_on(smith, made.run)

    async def _go_on(self, smith: Plansmith, run: Run) -> Run:
        """Runs on until the run is over or asks; every plan is decided on before it runs."""
        while True:
            if isinstance(next_move(run), AwaitReview):
                said = self._review(run) if self._review else self._is_covered(run)
                approved = await verdict_of(said)
                if approved is None:
                    return await smith.get(run.id)
                run = await _decided(smith, run, approve=approved, by=_CALLER)
            run = await smith.runs.run(run.id)
            if not isinstance(next_move(run), AwaitReview):
                return run

    def _is_covered(self, run: Run) -> Literal[True] | None:
        """Whether the caller's own call approves a plan: the first one, or one that only reads.

        A later plan was made by a model that has read what tools said.
        """
        if not run.replans:
            return True
        known = {each.name: each for each in tool_specs(self.tools.describe())}
        done = {name for name, each in run.steps.items() if each.status is StepStatus.DONE}
        left = [step for step in run.plan.steps if step.id not in done] if run.plan else []
        acts = acting_steps(Plan(steps=tuple(left)), tools=known, agents={}, templates={})
        return None if acts else True

    def _plan_steps(
        self, profile: BaseProfile, query: str, tools: Mapping[str, Any], tell: Tell | None
    ) -> list[PlanStep]:
        """Has the planner plan; by `plan`, which a subclass may have overridden."""
        given: dict[str, Any] = {
            "profile_system_prompt": profile.render_system_prompt(),
            "user_query": query,
            "tools": tools,
        }
        own = self._own_planner()
        if tell is None or own is None or type(own).plan is not LLMPlanner.plan:
            steps = self.planner.plan(**given)
        else:
            steps = list[PlanStep]()
            for event in own.plan_stream(**given):
                if event["type"] == "plan":
                    steps = event["steps"]
                else:
                    tell({"type": "planning_thought", "content": event["content"]})
        given_back: object = steps
        if not isinstance(given_back, list):
            raise TypeError(f"the planner returned {type(steps).__name__}, not a list of steps")
        if tell is not None:
            tell({"type": "plan_generated", "plan": steps})
        return steps

    def _own_planner(self) -> LLMPlanner | None:
        """Returns the planner if it is one of ours, and not only declared to be one."""
        ours = issubclass(type(self.planner), LLMPlanner)
        return cast("LLMPlanner", self.planner) if ours else None

    def _wording(self, query: str, who: BaseProfile) -> ChatModel | None:
        """Returns the model that words answers: the summarizer's, else the planner's."""
        text = who.render_system_prompt()
        if self.summarizer is not None:
            return wording_model(self.summarizer, None, text)
        own = self._own_planner()
        return wording_model(own.generator, query, text) if own is not None else None

    def _smith(self, query: str, who: BaseProfile | None = None) -> Plansmith:
        own = self._own_planner() if self.replans else None
        return Plansmith(
            model=own.plan_model(query=query) if own is not None else None,
            report_model=self._wording(query, who or self.profile),
            tools=[RegistryTools(self.tools)],
            store=self._store,
            shared_store=not isinstance(self._store, str),
            limits=Limits(
                max_replans=self.replans, replan=self._replan, tool_texts="ask", data="show"
            ),
        )

    def _profile_with(self, overrides: Any) -> BaseProfile:
        """Returns the profile with other values; itself where they do not fit, with a warning."""
        if not isinstance(overrides, dict):
            return self.profile
        try:
            return self.profile.merged(**cast("dict[str, Any]", overrides))
        except Exception as error:  # noqa: BLE001 - as in SAGE, the query goes on
            message = "the profile stays as it is: %s"
            logging.getLogger(__name__).warning(message, error)
            return self.profile


async def _decided(smith: Plansmith, run: Run, *, approve: bool, by: str) -> Run:
    move = next_move(run)
    if not isinstance(move, AwaitReview):
        raise Refused(f"run {run.id} has no plan that waits for a decision")
    return await smith.decide(
        run.id, approve=move.hash if approve else None, reject=not approve, by=by
    )


def _positive(most: Any) -> int:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError("'max_steps' must be a positive int")
    return most
