"""The class Plansmith: the library's entry point, for programs that plan and run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from plansmith import plugins
from plansmith.arguments import Arguments, ToolLike, require_plan
from plansmith.lazy import lazy_modules, made_once

if TYPE_CHECKING:
    from plansmith import assembly, sync
    from plansmith.arguments import Options
    from plansmith.plan import plan as plan_module
    from plansmith.plan import run_options
    from plansmith.plan.data import Json, Record
    from plansmith.plan.events import Event, Who
    from plansmith.plan.plan import Plan
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run
    from plansmith.ports import Agent, ChatModel, Clock, JournalStore, Store
    from plansmith.runs import callbacks, template_book
    from plansmith.runs.decisions import ApprovalDetails
    from plansmith.runs.service import RunService
    from plansmith.schedules import service
else:
    lazy_modules(
        globals(),
        assembly="plansmith.assembly",
        callbacks="plansmith.runs.callbacks",
        plan_module="plansmith.plan.plan",
        run_options="plansmith.plan.run_options",
        service="plansmith.schedules.service",
        sync="plansmith.sync",
        template_book="plansmith.runs.template_book",
    )


class Plansmith:
    """Makes plans, asks a person to approve them, runs them, and records every event.

    Its parts: `runs` manages runs, `schedules` starts runs at set times, `templates` keeps plans
    for reuse, `threads` are conversations. A method about one run raises `NotFound` if there is no
    such run, and `Refused` if the run's state does not allow the call.

    Args:
        model: The name of a model (see `model`), or your own model. Plans run without one.
        tools: Functions (see `tool`) and tool sources.
        agents: Agents; a plan gives them tasks in words.
        store: `memory`, a URL such as `sqlite:///runs.db`, or your own store.
        settings: Settings of the planner.
        clock: Tells the time; tests pass a `FakeClock`.
        **more: The other options, by name; see `Options`.

    Raises:
        Misconfigured: An argument cannot be used; the hint says what to pass instead.

    Args of methods:
        run_id: The id of the run.
        by: Who acts; the name is kept in the journal.
        reason: Why; kept in the journal.

    Examples:
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
        store: str | JournalStore = "memory",
        settings: Record | None = None,
        clock: Clock | None = None,
        **more: Unpack[Options],
    ) -> None:
        self._given = Arguments.checked(
            model, tools=tools, agents=agents, store=store, settings=settings, clock=clock, **more
        )
        self.store: Store = self._given.store

    @made_once
    def runs(self) -> RunService:
        """Manages runs."""
        return assembly.make_runs(self._given)

    @made_once
    def templates(self) -> template_book.TemplateBook:
        """Keeps plans for reuse."""
        return template_book.TemplateBook(self.runs)

    @made_once
    def schedules(self) -> service.Schedules:
        """Starts runs at set times."""
        return service.Schedules(self.runs, self.templates)

    @made_once
    def threads(self) -> Any:
        """Keeps conversations."""
        return plugins.load("threads", "service")(runs=self.runs)

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
        for part in ("schedules", "runs"):
            if part in self.__dict__:  # it was used
                await getattr(self, part).close()
        await self._given.close()

    async def do(
        self,
        request: str | Plan,
        *,
        approve: callbacks.Approve | None = None,
        approve_changes: callbacks.ApproveChanges | None = None,
        answer: callbacks.Answer | None = None,
        by: Who = "",
    ) -> Run:
        """Plans a request, has the plan approved, runs it; `run.answer` is the answer.

        If nobody decides, the run is returned waiting (see `run.status`); continue it with
        `decide`, `answer` and `run`.

        Args:
            request: The request in words, or a plan.
            approve: Called with each plan that needs approval; may be async. Returns True, False
                (cancels the run) or a changed plan, which then counts as approved.
            approve_changes: Called in its place with the preview of each plan: every change, with
                its values. Returns True, which allows exactly these, or False; may be async.
            answer: Returns the answer to each question, or None to leave it open; may be async.

        Raises:
            TypeError: The request, or what `approve` returned, is of another type.

        Examples:
            >>> run = await smith.do(plan, approve=lambda plan: len(plan.steps) < 5)
            >>> run.result("buy")
            'ordered bolts'
        """
        asking = callbacks.CallbackRun(
            self.runs, approve=approve, approve_changes=approve_changes, answer=answer, by=by
        )
        if isinstance(request, str):
            return await asking.finish(await self.plan(request, by=by))
        return await asking.finish(await self.submit(require_plan(request, "do"), by=by))

    def do_sync(
        self,
        request: str | Plan,
        *,
        approve: callbacks.Approve | None = None,
        approve_changes: callbacks.ApproveChanges | None = None,
        answer: callbacks.Answer | None = None,
        by: Who = "",
    ) -> Run:
        """Does what `do` does, for programs and notebooks that are not async.

        Args:
            request: The request in words, or a plan.
            approve: Decides on plans, as in `do`.
            approve_changes: Decides on what they would change, as in `do`.
            answer: Answers questions, as in `do`.

        Examples:
            >>> smith.do_sync(plan, approve=lambda plan: True).result("buy")
            'ordered bolts'
        """
        return sync.wait_for(
            self.do(request, approve=approve, approve_changes=approve_changes, answer=answer, by=by)
        )

    async def plan(self, request: str, *, by: Who = "", **options: Any) -> Run:
        """Plans a request: returns a run with a checked plan, waiting for review if required.

        Args:
            request: What you want, in words.
            **options: Any field of `RunOptions`, such as `locale` or `profile`.

        Examples:
            >>> run = await smith.plan("Order the item 'bolts'")
            >>> run.plan.steps[0].inputs
            {'item': 'bolts'}
        """
        return await self.runs.plan(request, run_options.read_options(options), by=by)

    async def thread(self, thread_id: str = "") -> Any:
        """Returns a conversation, or begins one.

        Args:
            thread_id: The id of the conversation, or of a run in it; empty begins one.

        Examples:
            >>> thread = await smith.thread()
            >>> said = await thread.say("Order bolts")  # plans, answers, or changes a plan
        """
        return await self.threads.open(thread_id)

    async def submit(self, plan: Plan | list[Problem], *, request: str = "", by: Who = "") -> Run:
        """Creates a run from a finished plan, which is checked and reviewed; needs no model.

        Args:
            plan: The plan, or what `try_read_plan` returned.
            request: What the plan is for, in words.

        Raises:
            PlanInvalid: The plan has errors; `problems` lists them.
            TypeError: It is not a plan.

        Examples:
            >>> run = await smith.submit(plan, request="We are out of bolts")
        """
        return await self.runs.submit(require_plan(plan, "submit"), request=request, by=by)

    async def preview(
        self,
        request: str | Plan | Run,
        *,
        given: Mapping[str, Json] | None = None,
        only: Sequence[str] = (),
        fresh: bool = False,
        by: Who = "",
        **options: Any,
    ) -> Run:
        """Shows what a plan would change: runs what only reads, and nothing else.

        `run.preview` has every call with its values. Its hash approves the plan and these calls;
        when it runs, a person is asked only about calls that are not as they were shown.

        Args:
            request: The request in words, a plan, or a run whose plan waits for approval.
            given: Results that stand in for those of steps that read, to see what would follow.
            only: Executes only these steps, and what they need.
            fresh: Reads again what an earlier preview has read, and forgets what it was given.
            **options: Any field of `RunOptions`, if the request is in words.

        Raises:
            Refused: The run has begun, or a step of `given` changes something.

        Examples:
            >>> run = await smith.preview(plan)
            >>> run.preview.calls[0].callee, run.preview.calls[0].inputs
            ('order', {'item': 'bolts'})
            >>> run = await smith.decide(run.id, approve=run.preview.hash)
        """
        if isinstance(request, str):
            run = await self.plan(request, by=by, **options)
            if run.preview is not None and not (given or only):
                return run
        elif isinstance(request, plan_module.Plan):
            run = await self.submit(request, by=by)
        else:
            run = request
        return await self.runs.preview(run.id, given=given, only=only, fresh=fresh, by=by)

    async def check(self, plan: Plan) -> list[Problem]:
        """Returns every problem of a plan, given the present tools, agents and templates.

        Args:
            plan: The plan to check; nothing is stored.

        Examples:
            >>> await smith.check(plan)
            []
        """
        return [*await self.runs.intake.check(plan), *await self.runs.intake.advice(plan)]

    async def run(self, run_id: str) -> Run:
        """Executes a run until it is over or waits for a person.

        Raises:
            NotApproved: Its plan needs an approval before anything runs.
            RunBusy: Another process is executing it.

        Examples:
            >>> run = await smith.decide(run.id, approve=run.plan.hash)
            >>> (await smith.run(run.id)).status.value
            'done'
        """
        return callbacks.require_approval_given(await self.runs.run(run_id))

    async def get(self, run_id: str) -> Run:
        """Returns the current state of a run, with its results.

        Examples:
            >>> run = await smith.get(run.id)
        """
        return await self.runs.journals.get(run_id)

    def events(self, run_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """Yields the events of a run.

        Args:
            after: The number of the last event that you know.
            follow: Whether to wait for new events until the run is over.

        Examples:
            >>> [event.body.type async for event in smith.events(run.id)]
            ['run_created', 'plan_proposed', 'review_asked']
        """
        return self.runs.journals.events(run_id, after=after, follow=follow)

    async def decide(
        self,
        run_id: str,
        *,
        approve: str | None = None,
        reject: bool = False,
        by: Who = "",
        **details: Unpack[ApprovalDetails],
    ) -> Run:
        """Approves exactly one plan, or rejects it.

        Args:
            approve: The hash of the plan that the person saw; that of its preview approves the
                calls shown there, too.
            reject: Rejects the plan, which cancels the run.
            **details: Of an approved preview: steps or parts to `leave_out`, inputs to `change` by
                step or part, and `fresh` if what was read is to be read again.

        Raises:
            StaleDecision: The plan has changed since, or the decision was made already.

        Examples:
            >>> run = await smith.decide(run.id, approve=run.plan.hash, by="ann")
        """
        return await self.runs.decide(run_id, approve=approve, reject=reject, by=by, **details)

    async def answer(
        self, run_id: str, question: str, value: Json, *, by: Who = "", of: str = ""
    ) -> Run:
        """Answers a question of a run; makes the plan if the question was about the request.

        Args:
            question: Its name in `run.questions`.
            of: The value of `run.question_hash` when you saw the question; an answer to any other
                question is refused.
            value: The answer.

        Examples:
            >>> run = await smith.do(read_plan({"steps": [{"id": "size", "question": "Which?"}]}))
            >>> run = await smith.answer(run.id, "size", "M8")
        """
        run = await self.runs.answer(run_id, question, value, by=by, of=of)
        return await self.runs.plan_if_next(run)

    async def edit(self, run_id: str, plan: Plan, *, by: Who = "") -> Run:
        """Replaces the plan with one that a person wrote.

        Args:
            plan: The new plan, which is checked and reviewed like any other.

        Raises:
            PlanInvalid: The new plan has errors.

        Examples:
            >>> run = await smith.edit(run.id, plan.replace(goal="Buy more bolts"))
        """
        return await self.runs.editing.edit(run_id, plan, by=by)

    async def request_changes(self, run_id: str, text: str, *, by: Who = "") -> Run:
        """Asks the planner to change the plan; pauses the run, keeps finished steps.

        Args:
            text: What should be different, in words.

        Examples:
            >>> run = await smith.request_changes(run.id, "Order nuts instead")
        """
        return await self.runs.editing.request_changes(run_id, text, by=by)

    async def pause(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Pauses a run: no step starts until `resume`; running steps finish.

        Examples:
            >>> run = await smith.pause(run.id, reason="wait for the price")
        """
        return await self.runs.pause(run_id, by=by, reason=reason)

    async def resume(self, run_id: str, *, by: Who = "", force: bool = False) -> Run:
        """Ends the pause of a run; call `run` to execute it.

        Args:
            force: Take the run over even if another live process is executing it; that process then
                stops writing and calling.

        Examples:
            >>> run = await smith.resume((await smith.pause(run.id)).id)
        """
        return await self.runs.resume(run_id, by=by, force=force)

    async def cancel(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Stops a run for good.

        A call that is cut off may still have taken effect; its step becomes `unknown`.

        Examples:
            >>> run = await smith.cancel(run.id, reason="no longer needed")
        """
        return await self.runs.cancel(run_id, by=by, reason=reason)

    async def rerun(self, run_id: str, *, by: Who = "") -> Run:
        """Runs the same plan again as a new run, from the start, without earlier results.

        Examples:
            >>> run = await smith.rerun((await smith.cancel(run.id)).id)
        """
        return await self.runs.editing.rerun(run_id, by=by)

    async def retry(
        self, run_id: str, *, from_step: str | None = None, plan: Plan | None = None, by: Who = ""
    ) -> Run:
        """Creates a run that keeps the finished results of another one.

        If the old run never got a plan, its request is planned again.

        Args:
            from_step: Repeats this step and all steps after it.
            plan: A changed plan to use; only its new and changed steps run.

        Examples:
            >>> run = await smith.retry((await smith.cancel(run.id)).id)
        """
        return await self.runs.editing.retry(run_id, from_step=from_step, plan=plan, by=by)
