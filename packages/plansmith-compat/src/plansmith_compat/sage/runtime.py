"""SAGE's runtime: plans a query, runs the plan with a journal and writes the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, SupportsIndex, cast

from plansmith.app import Plansmith
from plansmith.check.check_plan import check_plan
from plansmith.errors import Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.capability import Capabilities, tool_specs
from plansmith.plan.data import Json
from plansmith.plan.events import Event
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.refs import Ref, escape_text
from plansmith.plan.run import Run, RunStatus, Steps, StepState, StepStatus
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import AnyStep, ReplyStep, ToolStep
from plansmith.ports import ChatModel, JournalStore
from plansmith.review.policy import acting_calls, acting_steps
from plansmith.runs.intake import NewRun
from plansmith.store.memory import MemoryStore
from plansmith_compat import calling
from plansmith_compat.calling import Tell, in_own_loop
from plansmith_compat.sage import operators
from plansmith_compat.sage.dialect import observations_of, read, reply_of, reply_text, write
from plansmith_compat.sage.operators import BaseProfile, MapFunction, ToolRegistry
from plansmith_compat.sage.planner import (
    GeneratorLike,
    LLMPlanner,
    PlanStep,
    generator_of,
    wording_model,
)
from plansmith_planner.autofix import autofix
from plansmith_planner.dialect import in_order, place_id
from plansmith_planner.draft import salvage
from plansmith_planner.language.locales import locale_of

_SUM_UP: Final = {
    True: "请简洁汇总以下结果，保留关键信息和结论。",
    False: "Sum up these results briefly; keep the key facts and conclusions.",
}
_DECIDE: Final = {
    True: "新的计划正等待您的决定：decide(approve=True) 或 decide(approve=False)。",
    False: "A new plan waits for your decision: decide(approve=True) or decide(approve=False).",
}
_NOTHING: Final = "（没有可执行的步骤或工具返回空结果）"


def runnable(
    steps: Sequence[PlanStep],
    tools: Mapping[str, Any],
    query: str,
    *,
    most: int,
    is_worded: bool,
    is_summed_up: bool,
) -> tuple[Plan | None, list[dict[str, Any]]]:
    """Returns the plan of a list of steps, at most so many, and an observation for each misfit.

    What is missing is asked for; without anything that can run the plan is None.

    With `is_worded` a model words the replies from the results, else they are said as they are
    written. With `is_summed_up` a list without a reply gets one that sums the results up.
    """
    # A planner of another make may put anything into its list; place by place, as data.
    listed = _cut([_step(each) for each in steps], most)
    whole = getattr(steps, "plan", None) if len(listed) == len(steps) else None
    if not isinstance(whole, Plan) or write(whole).value != list(steps):
        whole = read(cast("Json", listed)).plan
    if whole is None:
        return None, []
    specs = tool_specs(tools)
    locale = locale_of(query)
    plan = autofix(whole.replace(goal=query, locale=locale), specs).plan
    errors = [each for each in check_plan(plan, specs) if each.severity is Severity.ERROR]
    usable = salvage(plan, errors, max_steps=len(plan.steps)) if errors else plan
    unusable = _unusable(listed, errors)
    if usable is None:
        return None, unusable
    final_steps = [_exact_reply(step, is_worded=is_worded) for step in usable.steps]
    if is_summed_up and not any(isinstance(step, ReplyStep) for step in final_steps):
        results = "\n".join(str(Ref(step.id)) for step in final_steps if isinstance(step, ToolStep))
        ids = {step.id for step in final_steps}
        name = next(each for each in ("summary", "summary_of_all") if each not in ids)
        instruction = f"{_SUM_UP[locale.startswith('zh')]}\n\n{results}"
        final_steps.append(ReplyStep(id=name, instruction=instruction))
    return usable.replace(steps=tuple(final_steps)), unusable


def _step(entry: Any) -> PlanStep:
    try:
        entry = operators.plain(entry)
    except ValueError:  # a circle, or no text: it cannot be kept, so it cannot be run
        entry = None
    return cast("PlanStep", entry) if isinstance(entry, dict) else {"type": entry}


def _cut(steps: Sequence[PlanStep], most: int) -> list[PlanStep]:
    """Returns the first steps; if the last of all is a reply, it is kept too."""
    if len(steps) <= most:
        return [*steps]
    ends_with_reply = steps[-1].get("type") == "reply" and most > 1
    return [*steps[: most - 1], steps[-1]] if ends_with_reply else [*steps[:most]]


def _unusable(steps: Sequence[PlanStep], errors: Sequence[Problem]) -> list[dict[str, Any]]:
    why = {each.step: str(each.message) for each in reversed(errors) if each.step is not None}
    return [
        {
            "step": place,
            "tool": step.get("name"),
            "ok": False,
            "error": why[place_id(place + 1)],
            "arguments": step.get("arguments") or {},
        }
        for place, step in enumerate(steps)
        if place_id(place + 1) in why and step.get("type") == "tool"
    ]


def _exact_reply(step: AnyStep, *, is_worded: bool) -> AnyStep:
    """Returns a reply to be said as it is written, where there is nothing to word it from."""
    if not isinstance(step, ReplyStep) or (is_worded and step.needed):
        return step
    text = escape_text(reply_text(step.instruction))
    return step.replace(instruction=text, style="exact", after=tuple(sorted(step.needed)))


class StepResult(dict[str, Any]):
    """A table with `reply`, `observations` and `plan`, as SAGE's newer runtime returns it.

    SAGE's first runtimes returned the reply alone, so this can be used as a text too: it prints
    as the reply, is searched as the reply, is equal to it and has the methods of a text.
    `questions` are those that wait for `answer_question`, by name; `run_id` is the run's name in
    the store; `status` its status; `error` says why nothing was planned.
    """

    def __init__(
        self,
        reply: str = "",
        observations: Sequence[Mapping[str, Any]] = (),
        plan: Sequence[PlanStep] = (),
        *,
        error: str = "",
        run: Run | None = None,
    ) -> None:
        rows = [dict(each) for each in observations]
        super().__init__(reply=reply, observations=rows, plan=[*plan])
        self.error = error
        self.run_id = run.id if run is not None else ""
        self.status = run.status.value if run is not None else ("failed" if error else "")
        self.questions = _questions(run)

    def __str__(self) -> str:
        return self["reply"] or self.error

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and key in str(self))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (slice, SupportsIndex)):
            return str(self)[key]
        return super().__getitem__(key)

    def __eq__(self, other: object) -> bool:
        return str(self) == other if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(str(self), name)


def result_of(
    run: Run | None, steps: Sequence[PlanStep], unusable: Sequence[Mapping[str, Any]] = ()
) -> StepResult:
    """Returns the result of a run: its reply, else its question, else what each step gave."""
    ordered = in_order(run.plan) if run is not None and run.plan is not None else []
    observed = observations_of(ordered, run) if run is not None else ()
    rows: list[Mapping[str, Any]] = [*unusable, *observed]
    rows.sort(key=lambda each: int(each["step"]))
    reply = reply_of(ordered, run) if run is not None else ""
    if not reply:
        questions = [*_questions(run).values()]
        if run is not None and run.status is RunStatus.REVIEWING:
            questions.append(_DECIDE[run.locale.startswith("zh")])
        # A step that waits for an argument is told by its question.
        finished = [each for each in rows if not questions or "latency_ms" in each]
        lines = [
            f"#{each['step'] + 1} 工具 {each['tool']} "
            + (f"成功：{each['result']}" if each["ok"] else f"失败：{each['error']}")
            for each in finished
        ]
        reply = "\n".join([*lines, *questions]) or _NOTHING
    return StepResult(reply, rows, steps, run=run)


def _questions(run: Run | None) -> dict[str, str]:
    if run is None:
        return {}
    return {name: in_language(each.text, run.locale) for name, each in run.questions.items()}


async def failed_before(smith: Plansmith, run: Run) -> list[dict[str, Any]]:
    """Returns an observation for each tool step that failed under an earlier plan of the run."""
    plan: Plan | None = None
    found: list[dict[str, Any]] = []
    if not run.replans:
        return found
    async for event in smith.events(run.id):
        body = event.body
        if isinstance(body, e.PlanProposed):
            plan = body.plan
        elif isinstance(body, e.StepFailed) and plan is not None and plan != run.plan:
            state = StepState(status=StepStatus.FAILED, error=in_language(body.error, run.locale))
            rows = observations_of(in_order(plan), Run(id=run.id, steps=Steps({body.step: state})))
            found += rows if not body.again else []
    return found


Review = Callable[[Run], bool | Awaitable[bool | None] | None]
_REPLANS: Final = 2
_CALLER: Final = "who called the runtime"


class Planner(Protocol):
    """What a runtime needs from its planner; one with `generator` also words the answers."""

    def plan(
        self, profile_system_prompt: str, user_query: str, tools: Any
    ) -> list[dict[str, Any]]: ...


class AgentRuntime(MapFunction):
    """Plans with a planner and runs the plan with a registry, with a journal.

    As in SAGE, calling `step` or `execute` approves the plan; with `review` you decide on it
    first. `summarizer` words the answer; by default the planner's generator does. `replans` is
    how many new plans a failed step may lead to, or with `replan="after_each"` every step; one
    that changes something waits for `review` or `decide`. A missing argument becomes a question,
    and `answer_question` answers it, also in another process with the same `store`.
    """

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
        store: str | JournalStore = "memory",
        review: Review | None = None,
        replan: Literal["never", "on_failure", "after_each"] = "never",
        replans: int = 0,
    ) -> None:
        self.profile = profile if profile is not None else BaseProfile()
        self.planner: Planner = planner if planner is not None else LLMPlanner(model=model)
        self.tools = tools if tools is not None else ToolRegistry()
        self.summarizer = generator_of(summarizer) if summarizer is not None else None
        self.max_steps = _positive(max_steps)
        self.memory = memory
        if memory is not None and self._own is not None:
            self._own.memory = memory
        if (replans or replan != "never") and self._own is None:
            raise TypeError("new plans while a plan runs need an LLMPlanner")
        self.replans = replans or (0 if replan == "never" else _REPLANS)
        self._replan: Literal["on_failure", "after_each"] = (
            "after_each" if replan == "after_each" else "on_failure"
        )
        self.run: Run | None = None
        self.result: StepResult | None = None
        # Kept open, so that a question can still be answered.
        self._store: str | JournalStore = MemoryStore() if store == "memory" else store
        self._review = review

    @property
    def observations(self) -> list[dict[str, Any]]:
        return self.result["observations"] if self.result is not None else []

    @property
    def _own(self) -> LLMPlanner | None:
        """The planner if it is one of ours, and not only declared to be one."""
        ours = issubclass(type(self.planner), LLMPlanner)
        return cast("LLMPlanner", self.planner) if ours else None

    def step(self, user_query: str) -> StepResult:
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

        return calling.stream_events(work)

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
        most, profile = _positive(table.get("max_steps", self.max_steps)), self.profile
        if isinstance(overrides := table.get("profile_overrides"), dict):
            try:
                profile = profile.merged(**cast("dict[str, Any]", overrides))
            except Exception as error:  # noqa: BLE001 - as in SAGE, the query goes on
                message = "the profile stays as it is: %s"
                logging.getLogger(__name__).warning(message, error)
        with operators.with_settings(self, max_steps=most, profile=profile) as runtime:
            return runtime.step(query)

    async def answer(self, query: str, profile: BaseProfile | None = None) -> StepResult:
        return await self._turn(query, profile=profile)

    def answer_question(
        self, value: Any, question: str = "", *, run_id: str = "", by: str = _CALLER
    ) -> StepResult:
        """Answers a question of the last query, or of a stored run, and goes on with it."""
        return in_own_loop(self.aanswer_question(value, question, run_id=run_id, by=by))

    async def aanswer_question(
        self, value: Any, question: str = "", *, run_id: str = "", by: str = _CALLER
    ) -> StepResult:

        async def answer_run(smith: Plansmith, run: Run) -> Run:
            name = question or next(iter(run.questions), "")
            if not name:
                raise Refused(f"run {run.id} has no open question", hint="see result.questions")
            return await smith.answer(run.id, name, value, by=by)

        return await self._resume(run_id, answer_run)

    def decide(self, *, approve: bool, run_id: str = "", by: str = _CALLER) -> StepResult:
        return in_own_loop(self.adecide(approve=approve, run_id=run_id, by=by))

    async def adecide(self, *, approve: bool, run_id: str = "", by: str = _CALLER) -> StepResult:

        async def decide_run(smith: Plansmith, run: Run) -> Run:
            reviewed = self.run if self.run is not None and self.run.id == run.id else run
            if reviewed.plan != run.plan:
                self.run = run
                hint = "look at runtime.run.plan, and decide again"
                raise StaleDecision(f"run {run.id} has another plan by now", hint=hint)
            if not isinstance(move := next_move(run), AwaitReview):
                raise Refused(f"run {run.id} has no plan that waits for a decision")
            seen = move.hash if approve else None
            return await smith.decide(run.id, approve=seen, reject=not approve, by=by)

        return await self._resume(run_id, decide_run)

    async def _resume(
        self, run_id: str, act: Callable[[Plansmith, Run], Awaitable[Run]]
    ) -> StepResult:
        name = run_id or (self.run.id if self.run is not None else "")
        if not name:
            raise Refused("there is no run to go on with", hint="give run_id=…")
        async with self._smith("", self.profile) as smith:
            request = (await smith.get(name)).request
        async with self._smith(request, self.profile) as smith:
            run = await self._go_on(smith, await act(smith, await smith.get(name)))
            earlier = await failed_before(smith, run)
        steps = write(run.plan).value if run.plan else []
        return self._keep_result(run, result_of(run, cast("list[PlanStep]", steps), earlier))

    async def _turn(
        self, query: str, tell: Tell | None = None, *, profile: BaseProfile | None = None
    ) -> StepResult:
        """Plans, runs and tells the result; what goes wrong in planning is told too."""
        persona = profile or self.profile
        try:
            manifest = self.tools.describe()
            steps = await calling.in_thread(self._plan_steps, persona, query, manifest, tell)
        except Exception as error:  # noqa: BLE001 - a planner may raise anything
            return self._keep_result(None, StepResult(error=f"Planning failed: {error}"))
        own = self._own
        if own is not None and own.failure and len(steps) == 1:
            # Nothing was planned, so nothing runs, and the answer says why.
            reply = "\n".join(dict.fromkeys([str(steps[0].get("text", "")), own.failure]))
            failed = f"Planning failed: {own.failure}"
            return self._keep_result(None, StepResult(reply, plan=steps, error=failed))
        plan, unusable = runnable(
            steps,
            manifest,
            query,
            most=self.max_steps,
            is_worded=self._wording(query, persona) is not None,
            is_summed_up=self.summarizer is not None,
        )
        if plan is None:
            return self._keep_result(None, result_of(None, steps, unusable))
        async with self._smith(query, persona) as smith:
            run = await self._run_plan(smith, plan, persona, query, tell)
            earlier = await failed_before(smith, run)
        return self._keep_result(run, result_of(run, steps, [*unusable, *earlier]))

    def _keep_result(self, run: Run | None, result: StepResult) -> StepResult:
        self.run, self.result = run, result
        return result

    async def _run_plan(
        self, smith: Plansmith, plan: Plan, profile: BaseProfile, query: str, tell: Tell | None
    ) -> Run:
        options = RunOptions(
            profile=operators.briefing_of(profile.render_system_prompt()),
            top_k=self._own.topk_tools if self._own is not None else None,
            max_steps=self.max_steps,
            dialect="sage",
        )
        made = await smith.runs.create(NewRun(query, plan, options=options, by=_CALLER))
        running = asyncio.ensure_future(self._go_on(smith, made.run))
        if tell is not None:
            async for event in calling.events_during(running, smith.store, made.run.id):
                await _tell_step(smith, made.run.id, event, tell)
        return await running

    async def _go_on(self, smith: Plansmith, run: Run) -> Run:
        """Runs on until the run is over or asks; every plan is decided on before it runs."""
        return await calling.run_reviewed(smith, run, self._review or self._is_covered, by=_CALLER)

    def _is_covered(self, run: Run) -> Literal[True] | None:
        """Whether the caller's own call approves a plan: the first one, or one that only reads.

        A later plan was made by a model that has read what tools said.
        """
        if not run.replans:
            return True
        known = {each.name: each for each in tool_specs(self.tools.describe())}
        done = {name for name, each in run.steps.items() if each.status is StepStatus.DONE}
        left = [step for step in run.plan.steps if step.id not in done] if run.plan else []
        acts = acting_steps(acting_calls(Plan(steps=tuple(left)), Capabilities(known)))
        return None if acts else True

    def _plan_steps(
        self, profile: BaseProfile, query: str, tools: Mapping[str, Any], tell: Tell | None
    ) -> list[PlanStep]:
        """Has the planner plan; by `plan`, which a subclass may have overridden."""
        given: Any = (profile.render_system_prompt(), query, tools)
        steps: object = None
        if tell is None or self._own is None or type(self._own).plan is not LLMPlanner.plan:
            names = ("profile_system_prompt", "user_query", "tools")
            steps = self.planner.plan(**dict(zip(names, given, strict=True)))
        else:
            for event in self._own.plan_stream(*given):
                if event["type"] == "plan":
                    steps = event["steps"]
                else:
                    tell({"type": "planning_thought", "content": event["content"]})
        if not isinstance(steps, list):
            raise TypeError(f"the planner returned {type(steps).__name__}, not a list of steps")
        if tell is not None:
            tell({"type": "plan_generated", "plan": steps})
        return cast("list[PlanStep]", steps)

    def _wording(self, query: str, profile: BaseProfile) -> ChatModel | None:
        """Returns the model that words answers: the summarizer's, else the planner's."""
        text = profile.render_system_prompt()
        if self.summarizer is not None:
            return wording_model(self.summarizer, None, text)
        return wording_model(self._own.generator, query, text) if self._own is not None else None

    def _smith(self, query: str, profile: BaseProfile) -> Plansmith:
        own = self._own if self.replans else None
        return Plansmith(
            model=own.plan_model(query) if own is not None else None,
            report_model=self._wording(query, profile),
            tools=[operators.RegistryTools(self.tools)],
            store=self._store,
            shared_store=not isinstance(self._store, str),
            limits=Limits(
                max_replans=self.replans, replan=self._replan, tool_texts="ask", data="show"
            ),
        )


async def _tell_step(smith: Plansmith, run_id: str, event: Event, tell: Tell) -> None:
    body = event.body
    if not isinstance(body, (e.StepStarted, e.StepDone, e.StepFailed, e.StepUnknown)):
        return
    run = await smith.get(run_id)
    step = run.plan.by_id.get(body.step) if run.plan is not None else None
    if not isinstance(step, ToolStep):
        return
    state = run.steps[step.id]
    if isinstance(body, e.StepStarted):
        tell({"type": "tool_start", "tool": step.tool, "arguments": dict(step.inputs)})
    elif isinstance(body, e.StepDone):
        tell({"type": "tool_result", "tool": step.tool, "result": state.result})
    else:
        tell({"type": "tool_error", "tool": step.tool, "error": state.error})


def _positive(most: Any) -> int:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError("'max_steps' must be a positive int")
    return most
