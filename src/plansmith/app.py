"""The class Plansmith: the library's entry point, for programs that plan and run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, Unpack

from plansmith.adapters.clock import SystemClock
from plansmith.arguments import (
    ToolLike,
    agents_of,
    model_of,
    planner_settings_of,
    resolved_options,
    sources_of,
    store_of,
)
from plansmith.errors import PlanInvalid
from plansmith.lazy import lazy_modules, made_once
from plansmith.old_names import by_old_name, read_options
from plansmith.ports import Closing

if TYPE_CHECKING:
    from plansmith import assembly, sync
    from plansmith.config import Settings
    from plansmith.plan.data import Json
    from plansmith.plan.events import Event, Who
    from plansmith.plan.plan import Plan
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run
    from plansmith.planner import request as requests
    from plansmith.ports import Agent, ChatModel, Clock, PlanStore
    from plansmith.runs import callbacks
    from plansmith.runs.options import Options
    from plansmith.runs.service import RunService
    from plansmith.schedules import service
    from plansmith.templates import book
    from plansmith.threads import service as conversations
    from plansmith.threads.thread import Thread
else:
    lazy_modules(
        globals(),
        assembly="plansmith.assembly",
        book="plansmith.templates.book",
        callbacks="plansmith.runs.callbacks",
        conversations="plansmith.threads.service",
        requests="plansmith.planner.request",
        sync="plansmith.sync",
    )

__all__ = ["Plansmith", "ToolLike"]


class Plansmith:
    """Makes plans, asks a person to approve them, runs them, and records every event.

    Its parts: `runs` manages runs, `schedules` starts runs at set times, `templates` keeps plans
    for reuse, `threads` are conversations. A method about one run takes its id as `run_id`; it
    raises `NotFound` if there is no such run, and `Refused` if the run's state does not allow the
    call. `by` names who acts; the journal keeps the name.

    Args:
        model: The name of a model (see `model`), or a model of yours. Plans run without one.
        tools: Functions (see `tool`) and tool sources.
        agents: Agents; a plan gives them tasks in words.
        store: `memory`, a URL such as `sqlite:///runs.db`, or a store of yours.
        settings: Settings for the planner; `from_settings` takes all settings.
        clock: Tells the time; a test gives a `FakeClock`.
        **more: The other options, by name; see `Options`.

    Raises:
        Misconfigured: An argument cannot be used; the hint says what to give.

    Examples:
        In `python -m asyncio` you can type this. The examples of the methods go on from here.

        >>> from plansmith import Plansmith, read_plan, tool
        >>> @tool
        ... def order(item: str) -> str:
        ...     return f"ordered {item}"
        >>> smith = Plansmith("rules", tools=[order])
        >>> step = {"id": "buy", "tool": "order", "inputs": {"item": "bolts"}}
        >>> plan = read_plan({"goal": "Buy bolts", "steps": [step]})
        >>> run = await smith.submit(plan)
        >>> run.status.value
        'reviewing'
    """

    def __init__(
        self,
        model: ChatModel | str | None = None,
        *,
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent] = (),
        store: str | PlanStore = "memory",
        settings: Settings | None = None,
        clock: Clock | None = None,
        **more: Unpack[Options],
    ) -> None:
        options = resolved_options(read_options(more))
        self.store: PlanStore = store_of(store)
        self._clock: Clock = clock or SystemClock()
        self._options = options
        self._planner_settings = planner_settings_of(settings)
        self._model = model_of(model)
        self._sources = sources_of(tools)
        self._agents = agents_of(agents)

    @made_once
    def runs(self) -> RunService:
        """Manages runs."""
        return assembly.make_runs(
            store=self.store,
            clock=self._clock,
            sources=self._sources,
            agents=self._agents,
            model=self._model,
            settings=self._planner_settings,
            options=self._options,
        )

    @made_once
    def templates(self) -> book.TemplateBook:
        """Keeps plans for reuse."""
        return book.TemplateBook(self)

    @made_once
    def schedules(self) -> service.Schedules:
        """Starts runs at set times."""
        return assembly.make_schedules(self.runs, self.templates)

    @made_once
    def threads(self) -> conversations.Threads:
        """Keeps conversations."""
        return conversations.Threads(runs=self.runs)

    @classmethod
    def from_settings(cls, settings: Settings | None = None) -> Plansmith:
        """Builds a Plansmith from `settings`, else from those that `load_settings` finds.

        Examples:
            >>> from plansmith.config import Settings
            >>> smith = Plansmith.from_settings(Settings(store="memory"))
        """
        # By name, since `wiring` imports this module.
        smith: Plansmith = import_module("plansmith.wiring").make_smith(settings)
        return smith

    if not TYPE_CHECKING:  # names of the first release: for programs, not for type checkers

        def __getattr__(self, name: str) -> Any:
            return by_old_name(self, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops executing and closes the store, tools and agents; runs can be resumed later.

        Examples:
            >>> async with Plansmith(tools=[order]) as smith:  # closes it at the end
            ...     run = await smith.submit(plan)
        """
        if "schedules" in self.__dict__:
            await self.schedules.close()
        if "runs" in self.__dict__:
            await self.runs.close()
        for part in (*self._sources, *self._agents):
            if isinstance(part, Closing):
                await part.close()
        if not self._options.get("shared_store"):
            await self.store.close()

    async def do(
        self,
        request: str | Plan,
        *,
        approve: callbacks.Approve | None = None,
        answer: callbacks.Answer | None = None,
        by: Who = "",
    ) -> Run:
        """Plans a request, has the plan approved, runs it; `run.answer` is the answer.

        What nobody decides is left waiting: see `run.status`; `decide`, `answer` and `run` go on.

        Args:
            request: The request in words, or a plan; raises `TypeError` for anything else.
            approve: Gets each plan that needs approval. Returns True, False (cancels the run) or a
                changed plan, which then counts as approved. May be async.
            answer: Gets each question and returns its answer; None leaves it open. May be async.
            by: Who asks and approves.

        Examples:
            >>> run = await smith.do(plan, approve=lambda plan: len(plan.steps) < 5)
            >>> run.result("buy")
            'ordered bolts'
        """
        asking = callbacks.CallbackRun(self.runs, approve=approve, answer=answer, by=by)
        if isinstance(request, str):
            return await asking.finish(await self.plan(request, by=by))
        if not hasattr(request, "steps"):
            raise TypeError("do takes a request in words or a Plan; read_plan makes one of a dict")
        return await asking.finish(await self.submit(request, by=by))

    def do_sync(
        self,
        request: str | Plan,
        *,
        approve: callbacks.Approve | None = None,
        answer: callbacks.Answer | None = None,
        by: Who = "",
    ) -> Run:
        """Does what `do` does and waits for it, for programs and notebooks that are not async.

        `request`, `approve` and `answer` are those of `do`.

        Examples:
            >>> smith.do_sync(plan, approve=lambda plan: True).result("buy")
            'ordered bolts'
        """
        return sync.wait_for(self.do(request, approve=approve, answer=answer, by=by))

    async def plan(self, request: str, *, by: Who = "", **options: Any) -> Run:
        """Plans a `request`: returns a run with a checked plan, waiting for review if required.

        `options` are those of a `PlanRequest`: locale, target, profile, history, top_k.

        Examples:
            >>> run = await smith.plan("Order the item 'bolts'")
            >>> run.plan.steps[0].inputs
            {'item': 'bolts'}
        """
        return await self.runs.plan(requests.PlanRequest(request, **options), by=by)

    async def thread(self, thread_id: str = "") -> Thread:
        """Returns a conversation by its id, or that of a run in it; no `thread_id` begins one.

        Examples:
            >>> thread = await smith.thread()
            >>> said = await thread.say("Order bolts")  # plans, answers, or changes a plan
        """
        return await self.threads.open(thread_id)

    async def submit(self, plan: Plan | list[Problem], *, request: str = "", by: Who = "") -> Run:
        """Creates a run from a finished plan, checked and reviewed like any; needs no model.

        `plan` may also be what `try_read_plan` returned; `request` says in words what it is for.

        Raises:
            PlanInvalid: The plan has errors; `problems` has each.
            TypeError: It is no plan.

        Examples:
            >>> run = await smith.submit(plan, request="We are out of bolts")
        """
        if isinstance(plan, list):
            raise PlanInvalid(plan)
        if not hasattr(plan, "steps"):
            raise TypeError("submit takes a Plan: read_plan makes one of a dictionary or a text")
        return await self.runs.submit(plan, request=request, by=by)

    async def check(self, plan: Plan) -> list[Problem]:
        """Returns every problem of a `plan`, given the present tools, agents and templates.

        Examples:
            >>> await smith.check(plan)
            []
        """
        return await self.runs.intake.check(plan)

    async def run(self, run_id: str) -> Run:
        """Executes a run until it is over or waits for a person.

        Raises `NotApproved` if its plan needs an approval before anything runs, and `RunBusy` if
        another process executes it.

        Examples:
            >>> run = await smith.decide(run.id, approve=run.plan.hash)
            >>> (await smith.run(run.id)).status.value
            'done'
        """
        run = await self.runs.run(run_id)
        callbacks.need_approval_given(run)
        return run

    async def get(self, run_id: str) -> Run:
        """Returns the current state of a run, with its results.

        Examples:
            >>> run = await smith.get(run.id)
        """
        return await self.runs.journals.get(run_id)

    def events(self, run_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """Yields the events of a run `after` a number; if you `follow` it, new ones as they come.

        Examples:
            >>> [event.body.type async for event in smith.events(run.id)]
            ['run_created', 'plan_proposed', 'review_asked']
        """
        return self.runs.journals.events(run_id, after=after, follow=follow)

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: Who = ""
    ) -> Run:
        """Approves the plan with this hash, or rejects the plan; a second decision is refused.

        `approve` is the hash of the plan that was looked at; to `reject` it cancels the run. Raises
        `StaleDecision` if the plan has changed since, or was decided on already.

        Examples:
            >>> run = await smith.decide(run.id, approve=run.plan.hash, by="ann")
        """
        return await self.runs.decide(run_id, approve=approve, reject=reject, by=by)

    async def answer(self, run_id: str, question: str, value: Json, *, by: Who = "") -> Run:
        """Answers a question of a run; makes the plan if the question was about the request.

        `question` is its name in `run.questions`, and `value` the answer.

        Examples:
            >>> ask = read_plan({"steps": [{"id": "size", "question": "Which size?"}]})
            >>> run = await smith.do(ask)
            >>> run = await smith.answer(run.id, "size", "M8")
        """
        run = await self.runs.answer(run_id, question, value, by=by)
        return await self.runs.planned(run)

    async def edit(self, run_id: str, plan: Plan, *, by: Who = "") -> Run:
        """Replaces the plan by a person's `plan`; it is checked and reviewed like any other.

        Raises `PlanInvalid` if it has errors.

        Examples:
            >>> run = await smith.edit(run.id, plan.replace(goal="Buy more bolts"))
        """
        return await self.runs.editing.edit(run_id, plan, by=by)

    async def request_changes(self, run_id: str, text: str, *, by: Who = "") -> Run:
        """Asks the planner to change the plan as `text` says; pauses the run, keeps finished steps.

        Examples:
            >>> run = await smith.request_changes(run.id, "Order nuts instead")
        """
        return await self.runs.editing.request_changes(run_id, text, by=by)

    async def pause(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Pauses a run, for a `reason`: no step starts until `resume`; running steps finish.

        Examples:
            >>> run = await smith.pause(run.id, reason="wait for the price")
        """
        return await self.runs.stopping.pause(run_id, by=by, reason=reason)

    async def resume(self, run_id: str, *, by: Who = "", force: bool = False) -> Run:
        """Ends the pause of a run; call `run` to execute it.

        By `force`, also takes it from a living process, which then writes and calls nothing more.

        Examples:
            >>> run = await smith.resume((await smith.pause(run.id)).id)
        """
        return await self.runs.stopping.resume(run_id, by=by, force=force)

    async def cancel(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Stops a run for good, for a `reason`: no step starts, running calls are cancelled.

        A cancelled call may have taken effect already: its step becomes `unknown`.

        Examples:
            >>> run = await smith.cancel(run.id, reason="no longer needed")
        """
        return await self.runs.stopping.cancel(run_id, by=by, reason=reason)

    async def rerun(self, run_id: str, *, by: Who = "") -> Run:
        """Runs the same plan again as a new run, from the start, without earlier results.

        Examples:
            >>> run = await smith.rerun((await smith.cancel(run.id)).id)
        """
        return await self.runs.repeating.rerun(run_id, by=by)

    async def retry(
        self, run_id: str, *, from_step: str | None = None, plan: Plan | None = None, by: Who = ""
    ) -> Run:
        """Creates a new run that keeps finished results and runs only the other or changed steps.

        `from_step` repeats this step and all steps after it; `plan` is a changed plan to use. A
        run that never had a plan is planned again.

        Examples:
            >>> run = await smith.retry((await smith.cancel(run.id)).id)
        """
        return await self.runs.repeating.retry(run_id, from_step=from_step, plan=plan, by=by)
