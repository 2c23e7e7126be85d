"""The class Plansmith: the library's entry point, for programs that plan and run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack, cast

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.urls import open_store
from plansmith.errors import Misconfigured, PlanInvalid
from plansmith.lazy import lazy_modules, made_once
from plansmith.old_names import by_old_name, read_options
from plansmith.ports import Closing

if TYPE_CHECKING:
    from plansmith import assembly
    from plansmith.adapters.tools import functions
    from plansmith.config import Settings
    from plansmith.plan.data import Json
    from plansmith.plan.events import Event, Who
    from plansmith.plan.plan import Plan
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run
    from plansmith.planner import request as requests
    from plansmith.ports import Agent, ChatModel, Clock, PlanStore, ToolSource
    from plansmith.runs.options import Options
    from plansmith.runs.service import RunService
    from plansmith.runs.stopping import LeftOut
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
        conversations="plansmith.threads.service",
        functions="plansmith.adapters.tools.functions",
        requests="plansmith.planner.request",
        service="plansmith.schedules.service",
    )

ToolLike: TypeAlias = "functions.FunctionTool | Callable[..., Any] | ToolSource"


class Plansmith:
    """Makes plans, asks a person to approve them, runs them, and records every event.

    `tools` are functions (see `tool`) and tool sources; `store` is a URL or your own store. For
    the other options see `Options`. Its parts are made when they are first used: `runs` manages
    runs, `schedules` starts runs at set times, `templates` keeps plans for reuse, `threads` are
    conversations.
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
        options = read_options(more)
        if folder := options.get("folder"):
            options["folder"] = Path(folder).resolve()  # now: a program may change its folder
        self.store: PlanStore = open_store(store) if isinstance(store, str) else store
        self._clock: Clock = clock or SystemClock()
        self._options = options
        self._planner_settings = settings.planner if settings else None
        self._model = model
        self._sources = _sources(tools)
        self._agents = list(agents)
        _refuse_same_name(agents)

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
        """Executes a run until it is over or waits for a person."""
        return await self.runs.run(run_id)

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

    async def undo(self, run_id: str, *, by: Who = "") -> Run:
        """Goes back to the previous plan; called again, to the one before that."""
        return await self.runs.editing.undo(run_id, by=by)

    async def request_changes(self, run_id: str, text: str, *, by: Who = "") -> Run:
        """Asks the planner to change the plan as `text` says.

        A run that is executing is paused first; finished steps are kept.
        """
        return await self.runs.editing.request_changes(run_id, text, by=by)

    async def pause(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Pauses a run: no further step starts until `resume`; running steps finish."""
        return await self.runs.stopping.pause(run_id, by=by, reason=reason)

    async def resume(self, run_id: str, *, by: Who = "") -> Run:
        """Ends the pause of a run; call `run` to execute it."""
        return await self.runs.stopping.resume(run_id, by=by)

    async def cancel(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Stops a run for good: no step starts any more, running calls are cancelled.

        A cancelled call may have taken effect already: its step becomes `unknown`.
        """
        return await self.runs.stopping.cancel(run_id, by=by, reason=reason)

    async def skip(self, run_id: str, step: str, *, by: Who = "") -> LeftOut:
        """Skips a step that has not started or that waits for an answer; the rest goes on.

        Returns the step and those that cannot run without it.
        """
        return await self.runs.stopping.skip(run_id, step, by=by)

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


def _sources(tools: Sequence[ToolLike]) -> list[ToolSource]:
    wrong = [each for each in tools if not _is_source(each) and not callable(each)]
    if wrong:
        hint = "give functions, marked with @tool, or tool sources"
        raise Misconfigured(f"{wrong[0]!r} is not a tool", hint=hint)
    sources = [cast("ToolSource", each) for each in tools if _is_source(each)]
    plain = [cast("Callable[..., Any]", each) for each in tools if not _is_source(each)]
    return [functions.FunctionTools(plain), *sources] if plain else sources


def _is_source(each: object) -> bool:
    return hasattr(each, "tools") and hasattr(each, "call")


def _refuse_same_name(agents: Sequence[Agent]) -> None:
    names = [agent.spec.name for agent in agents]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Misconfigured(f"two agents are called {twice!r}")
