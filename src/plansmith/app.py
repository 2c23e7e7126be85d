"""The class Plansmith: the library's entry point, for programs that plan and run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from plansmith.adapters.clock import SystemClock
from plansmith.arguments import (
    ToolLike,
    agents_of,
    model_of,
    planner_settings_of,
    sources_of,
    store_of,
    with_models,
)
from plansmith.errors import NotApproved, PlanInvalid
from plansmith.lazy import lazy_modules, made_once
from plansmith.old_names import by_old_name, read_options
from plansmith.ports import Closing

if TYPE_CHECKING:
    from plansmith import assembly, sync
    from plansmith.config import Settings
    from plansmith.plan import next_move
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
    from plansmith.schedules import approval, service
    from plansmith.templates import book
    from plansmith.threads import service as conversations
    from plansmith.threads.thread import Thread
else:
    lazy_modules(
        globals(),
        approval="plansmith.schedules.approval",
        assembly="plansmith.assembly",
        book="plansmith.templates.book",
        callbacks="plansmith.runs.callbacks",
        conversations="plansmith.threads.service",
        next_move="plansmith.plan.next_move",
        requests="plansmith.planner.request",
        service="plansmith.schedules.service",
        sync="plansmith.sync",
    )

__all__ = ["Plansmith", "ToolLike"]


class Plansmith:
    """Makes plans, asks a person to approve them, runs them, and records every event.

        smith = Plansmith("openai:gpt-5", tools=[weather], store="sqlite:///runs.db")
        run = await smith.do("Is it warmer in Oslo or in Rome?", approve=look_at_it)
        print(run.answer)

    `model` is the name of a model (see `model`) or a model of yours; none is needed to run plans
    that are there. `tools` are functions (see `tool`) and tool sources; `store` is a URL or your
    own store. For the other options see `Options`. Its parts are made when they are first used:
    `runs` manages runs, `schedules` starts runs at set times, `templates` keeps plans for reuse,
    `threads` are conversations.
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
        options = with_models(read_options(more))
        if folder := options.get("folder"):
            options["folder"] = Path(folder).resolve()  # now: a program may change its folder
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
        standing = approval.StandingApproval(intake=self.runs.intake)
        return service.Schedules(runs=self.runs, templates=self.templates, approval=standing)

    @made_once
    def threads(self) -> conversations.Threads:
        """Keeps conversations."""
        return conversations.Threads(runs=self.runs)

    @classmethod
    def from_settings(cls, settings: Settings | None = None) -> Plansmith:
        """Builds a Plansmith from settings: those given, else those that `load_settings` finds."""
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
        """Stops executing and closes the store, tools and agents; runs can be resumed later."""
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

        `approve` gets every plan that needs approval, and returns True, False (the run is
        cancelled) or a changed plan, which is then the approved one. `answer` gets each question;
        None leaves it open. Both may be async. What nobody decides is left waiting: look at
        `run.status`, and go on with `decide`, `answer` and `run`.
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
        """Does what `do` does and waits for it, for programs and notebooks that are not async."""
        return sync.wait_for(self.do(request, approve=approve, answer=answer, by=by))

    async def plan(self, request: str, *, by: Who = "", **options: Any) -> Run:
        """Plans a request: returns a run with a checked plan, waiting for review if required.

        Options are those of a `PlanRequest`: locale, target, profile, history, top_k.
        """
        return await self.runs.plan(requests.PlanRequest(request, **options), by=by)

    async def thread(self, thread_id: str = "") -> Thread:
        """Returns a conversation by its id, or the one a run is in; without an id a new one.

        `await thread.say("…")` then plans, answers, changes a plan or tells why.
        """
        return await self.threads.open(thread_id)

    async def submit(self, plan: Plan | list[Problem], *, request: str = "", by: Who = "") -> Run:
        """Creates a run from a finished plan, checked and reviewed like any; needs no model.

        Takes what `read_plan` returns; raises problems as `PlanInvalid`.
        """
        if isinstance(plan, list):
            raise PlanInvalid(plan)
        if not hasattr(plan, "steps"):
            raise TypeError("submit takes a Plan: read_plan makes one of a dictionary or a text")
        return await self.runs.submit(plan, request=request, by=by)

    async def check(self, plan: Plan) -> list[Problem]:
        """Returns every problem of a plan, given the present tools, agents and templates."""
        return await self.runs.intake.check(plan)

    async def run(self, run_id: str) -> Run:
        """Executes a run until it is over or waits for a person.

        Raises `NotApproved` if its plan needs an approval before anything runs.
        """
        run = await self.runs.run(run_id)
        waits = next_move.next_move(run)
        if isinstance(waits, next_move.AwaitReview) and run.started_at is None:
            hint = f"look at run.plan, then: await smith.decide({run.id!r}, approve=run.plan.hash)"
            raise NotApproved(f"run {run.id} waits for the approval of its plan", hint=hint)
        return run

    async def get(self, run_id: str) -> Run:
        """Returns the current state of a run, with its results."""
        return await self.runs.journals.get(run_id)

    def events(self, run_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """Yields the events of a run after a number; with `follow`, also new ones as they come."""
        return self.runs.journals.events(run_id, after=after, follow=follow)

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: Who = ""
    ) -> Run:
        """Approves the plan with this hash, or rejects the plan; a second decision is refused."""
        return await self.runs.decide(run_id, approve=approve, reject=reject, by=by)

    async def answer(self, run_id: str, question: str, value: Json, *, by: Who = "") -> Run:
        """Answers a question of a run; makes the plan if the question was about the request."""
        run = await self.runs.answer(run_id, question, value, by=by)
        return await self.runs.planned(run)

    async def edit(self, run_id: str, plan: Plan, *, by: Who = "") -> Run:
        """Replaces the plan by a person's version; it is checked and reviewed like any other."""
        return await self.runs.editing.edit(run_id, plan, by=by)

    async def request_changes(self, run_id: str, text: str, *, by: Who = "") -> Run:
        """Asks the planner to change the plan as `text` says.

        A run that is executing is paused first; finished steps are kept.
        """
        return await self.runs.editing.request_changes(run_id, text, by=by)

    async def pause(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Pauses a run: no further step starts until `resume`; running steps finish."""
        return await self.runs.stopping.pause(run_id, by=by, reason=reason)

    async def resume(self, run_id: str, *, by: Who = "", force: bool = False) -> Run:
        """Ends the pause of a run; call `run` to execute it.

        By `force`, also takes it from a living process, which then writes and calls nothing more.
        """
        return await self.runs.stopping.resume(run_id, by=by, force=force)

    async def cancel(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Stops a run for good: no step starts any more, running calls are cancelled.

        A cancelled call may have taken effect already: its step becomes `unknown`.
        """
        return await self.runs.stopping.cancel(run_id, by=by, reason=reason)

    async def rerun(self, run_id: str, *, by: Who = "") -> Run:
        """Runs the same plan again as a new run, from the start, without earlier results."""
        return await self.runs.repeating.rerun(run_id, by=by)

    async def retry(
        self, run_id: str, *, from_step: str | None = None, plan: Plan | None = None, by: Who = ""
    ) -> Run:
        """Creates a new run that keeps finished results and runs only the other or changed steps.

        `from_step` repeats this step and all steps after it; `plan` is a changed plan to use. A
        run that never had a plan is planned again.
        """
        return await self.runs.repeating.retry(run_id, from_step=from_step, plan=plan, by=by)
