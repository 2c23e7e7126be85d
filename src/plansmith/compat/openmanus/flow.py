"""OpenManus' planning flow and its factory: plans a request, runs the plan, sums up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

from plansmith.adapters.models.wrappers import RefusingModel
from plansmith.adapters.stores.urls import open_store
from plansmith.app import Plansmith
from plansmith.compat.openmanus.book import run_id
from plansmith.compat.openmanus.tokens import CountingModel
from plansmith.compat.openmanus.tool import PlanningTool
from plansmith.config import Settings
from plansmith.errors import Misconfigured, ModelFailed, PlansmithError, ToolFailed
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.ids import Ids
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.refs import value_text
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.planner.context.fence import fence
from plansmith.planner.fallback import Fallback
from plansmith.planner.model_calls import read_answer, render
from plansmith.planner.request import PlannerSettings
from plansmith.ports import Call, ChatModel, Message, PlanStore, Prompt

_CUT_OFF: Final = "Terminated: Reached max steps"
_CALLER: Final = "who called the planning flow"
_MOST_STEPS: Final = 100
Review = Callable[[Run], bool]


@runtime_checkable
class Worker(Protocol):
    """An agent of OpenManus; `name` and `description` are used if it has them."""

    async def run(self, request: str) -> str:
        """Does what is asked, and returns what was done."""
        ...


Workers = Worker | Sequence[Worker] | Mapping[str, Worker]


class PlanningFlow:
    """Plans a request and lets its agents do the steps, one after the other.

    As in OpenManus, calling `execute` approves the plan; with `review` you decide on it first.
    Plans are stored: `execute("")` continues the plan of `plan_id`.
    """

    def __init__(
        self,
        agents: Workers,
        *,
        executors: Sequence[str] | None = None,
        plan_id: str | None = None,
        primary_agent_key: str | None = None,
        model: ChatModel | None = None,
        store: str | PlanStore = "memory",
        review: Review = lambda _: True,
        max_input_tokens: int | None = None,
    ) -> None:
        self.agents = _by_key(agents)
        self._keys = _keys(self.agents, numbered=not isinstance(agents, Mapping))
        wanted = [self._keys.get(key.lower()) for key in executors or self.agents]
        self.executor_keys = [key for key in wanted if key is not None]
        self.primary_agent_key = self._keys.get(
            (primary_agent_key or "").lower(), next(iter(self.agents))
        )
        self.active_plan_id = plan_id or f"plan_{Ids()()}"
        missing = RefusingModel("none", why="there is no model to plan with", hint="give model=…")
        self.llm = CountingModel(model or missing, max_input_tokens=max_input_tokens)
        self._review = review
        kept = open_store(store) if isinstance(store, str) else store
        self.planning_tool = PlanningTool(store=kept)
        self._smith = self._make_plansmith(kept)

    @property
    def primary_agent(self) -> Worker:
        """The agent with `primary_agent_key`, else the first."""
        return self.agents[self.primary_agent_key]

    def get_executor(self, step_type: str | None = None) -> Worker:
        """Returns who runs a step with this tag; else the first executor or primary agent."""
        return self.agents[self._key(step_type)]

    def _key(self, tag: str | None) -> str:
        usual = next(iter(self.executor_keys), self.primary_agent_key)
        return self._keys.get((tag or "").lower(), usual)

    async def execute(self, input_text: str) -> str:
        """Plans a request and runs the plan; without text, continues the current plan."""
        name = run_id(self.active_plan_id)
        try:
            if input_text:
                await self._smith.plan(input_text, dialect="openmanus", by=_CALLER)
            run = await self._smith.get(name)
            if isinstance(next_move(run), AwaitReview) and not await self._approved(run):
                return "Plan not approved: nothing was run."
            run = await self._smith.run(name)
            return "\n".join([*_outcomes(run), await self._finalize(run)])
        except PlansmithError as error:
            return f"Execution failed: {error}"

    async def run(self) -> Run:
        """Returns the run of the plan."""
        return await self._smith.get(run_id(self.active_plan_id))

    async def close(self) -> None:
        """Closes the store; an unfinished run can be continued later."""
        await self._smith.close()

    async def _approved(self, run: Run) -> bool:
        approved = self._review(run)
        decision = {"approve": run.plan.hash} if approved and run.plan else {}
        await self._smith.decide(run.id, reject=not approved, by=_CALLER, **decision)
        return approved

    async def _finalize(self, run: Run) -> str:
        """Returns a summary by the model, else by an agent; says what is not done."""
        if run.questions:
            asked = "; ".join(each.text for each in run.questions.values())
            return f"Plan waits for an answer: {asked}"
        done = run.status is RunStatus.DONE
        head = "Plan completed" if done else "Plan not completed"
        shown = await self.plan_text()
        try:
            return f"{head}:\n\n{await self._summary(shown, done=done)}"
        except ModelFailed:
            pass
        try:
            return f"{head}:\n\n{await self.primary_agent.run(_sum_up(shown, done=done))}"
        except Exception:  # noqa: BLE001 - a summary that fails must not hide the results
            return f"{head}. Error generating summary."

    async def _summary(self, shown: str, *, done: bool) -> str:
        instruction = fence("what to say, and the results", _sum_up(shown, done=done))
        text = render("reply", locale="the language of the plan", instruction=instruction)
        answer = await read_answer(self.llm.stream(Prompt([Message("user", text)])))
        if not answer.text.strip():
            raise ModelFailed("the model's answer is empty")
        return answer.text.strip()

    async def plan_text(self) -> str:
        """Returns the plan with the status of its steps."""
        shown = await self.planning_tool.execute(command="get", plan_id=self.active_plan_id)
        return str(shown)

    def _make_plansmith(self, store: PlanStore) -> Plansmith:
        first = self._key(None)
        keys = [first, *(key for key in self.agents if key != first)]
        planner = PlannerSettings(
            fallback=Fallback.THREE_STEPS,
            triage=False,
            top_k=max(6, len(keys)),
            max_steps=_MOST_STEPS,
        )
        return Plansmith(
            model=self.llm,
            agents=[FlowAgent(self, key) for key in keys],
            store=store,
            settings=Settings(planner=planner),
            limits=Limits(max_replans=0, data="show"),
            ids=lambda: run_id(self.active_plan_id),
        )


class FlowAgent:
    """Adapts an agent of OpenManus: it gets the whole plan and its one step."""

    def __init__(self, flow: PlanningFlow, key: str) -> None:
        worker = flow.agents[key]
        about = str(getattr(worker, "description", "") or "")
        self.spec = AgentSpec(name=key, description=about)
        self._flow = flow
        self._worker = worker

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Returns the agent's answer; fails if the agent ran out of turns."""
        del inputs, call
        answer = str(await self._worker.run(await self._prompt(task)))
        last = answer.strip().rsplit("\n", 1)[-1]
        if last.startswith(_CUT_OFF):
            raise ToolFailed(f"the agent was cut off: {last}", hint="give it more turns")
        return answer

    async def _prompt(self, task: str) -> str:
        shown = await self._flow.plan_text()
        return (
            f"The plan so far:\n{shown}\n"
            f"Your step, marked [→] above: {task}\n\n"
            "Do this one step and no other. When it is done, say in short what you did and found."
        )


def _by_key(agents: Workers) -> dict[str, Worker]:
    if isinstance(agents, Mapping):
        found = dict(agents)
    elif isinstance(agents, Worker):
        found = {"default": agents}
    else:
        names = [str(getattr(each, "name", "") or f"agent_{n}") for n, each in enumerate(agents)]
        unique = len({name.lower() for name in names}) == len(names)
        keys = names if unique else [f"agent_{place}" for place in range(len(names))]
        found = dict(zip(keys, agents, strict=True))
    if not found:
        raise Misconfigured("a planning flow needs an agent", hint="give one, a list or a table")
    return found


def _keys(agents: Mapping[str, Worker], *, numbered: bool) -> dict[str, str]:
    """Returns the agents by their keys in lower case; in a list also by number."""
    numbers = {f"agent_{place}": key for place, key in enumerate(agents)} if numbered else {}
    return numbers | {key.lower(): key for key in agents}


def _outcomes(run: Run) -> Iterator[str]:
    """Yields the result or error of each step that was tried, in the plan's order."""
    for place, step in enumerate(run.plan.steps if run.plan else ()):
        state = run.steps[step.id]
        if state.status is StepStatus.DONE:
            yield value_text(state.result)
        elif state.status in (StepStatus.FAILED, StepStatus.UNKNOWN):
            yield f"Error executing step {place}: {state.error}"


def _sum_up(shown: str, *, done: bool) -> str:
    how = "has been completed" if done else "has NOT been completed; say plainly what is missing"
    return f"The plan {how}. Sum up what was accomplished.\n\n{shown}"


class FlowType(StrEnum):
    """The types of flows."""

    PLANNING = "planning"


class FlowFactory:
    """Makes flows; passes other options on to the flow."""

    @staticmethod
    def create_flow(flow_type: FlowType | str, agents: Workers, **options: Any) -> PlanningFlow:
        """Makes a flow with one agent, a list or a table of agents."""
        if flow_type != FlowType.PLANNING:
            hint = f"known: {', '.join(FlowType)}"
            raise Misconfigured(f"there is no flow of the type {flow_type!r}", hint=hint)
        return PlanningFlow(agents, **options)
