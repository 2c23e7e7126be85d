"""NL2SQL's nodes and dispatchers, and DataAgent: the same questions as durable runs."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, cast

from plansmith.app import Plansmith
from plansmith.check.check_plan import check_plan
from plansmith.clock import SystemClock
from plansmith.errors import Refused, UnreadableText
from plansmith.plan import next_move as moves
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.plan.problem import Problem, Severity, has_errors, problem
from plansmith.plan.question_options import GO_ON, LIMIT_OPTIONS
from plansmith.plan.run import Run
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.ports import ChatModel, Clock, ContextBlock
from plansmith.runs.intake import SEEN_FIRST, NewRun
from plansmith_compat import turns
from plansmith_compat.calling import KnownContext
from plansmith_compat.spring import keys
from plansmith_compat.spring.beans import Bean
from plansmith_compat.spring.dialects import nl2sql, write_as
from plansmith_compat.spring.dialects.nl2sql import node_of, read
from plansmith_compat.spring.keys import State, Updates
from plansmith_planner.agent_cards import CODER, SQL_WRITER
from plansmith_planner.dialect import Reading
from plansmith_planner.make import model_of
from plansmith_planner.parse.habits import snake
from plansmith_planner.parse.reply import read_plan_value
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

OnText = Callable[[str], None]
_KNOWLEDGE: Final = "business knowledge"
_SEMANTICS: Final = "semantic model"
_KNOWN: Final = {
    keys.BUSINESS_KNOWLEDGE: _KNOWLEDGE,
    keys.EVIDENCE: _KNOWLEDGE,
    keys.EVIDENCES: _KNOWLEDGE,
    keys.SEMANTIC_MODEL: _SEMANTICS,
    keys.GENEGRATED_SEMANTIC_MODEL_PROMPT: _SEMANTICS,
    keys.TABLE_RELATION_OUTPUT: "tables and their relations",
    keys.BACKGROUND_RESULTS: "background investigation results of user query:",
    keys.DOCUMENTS: "retrieved documents",
}
_REJECTED_TEXT: Final = "the last answer, which could not be read as a plan"
_AS_ASKED: Final = "the question as the person asked it"
_NO_QUESTION: Final = (keys.SMALL_TALK_REJECT, keys.INTENT_UNCLEAR)
_MAX_REJECTED: Final = 4000


class PlanningNode(ABC):
    """A node that drafts a plan; one model call each time.

    `model` is a model, its name, or None for the automatic choice. Your own prompts replace ours
    with `PlannerSettings(prompts=FOLDER)`.
    """

    usual_agents: ClassVar[Sequence[AgentSpec]]

    def __init__(
        self,
        model: ChatModel | str | None = None,
        *,
        agents: Sequence[AgentSpec] | None = None,
        settings: PlannerSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.model = model_of(model)
        self.agents = self.usual_agents if agents is None else agents
        self.settings = settings or PlannerSettings()
        self.clock = clock or SystemClock()

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state: the plan as JSON text, or why there is none."""
        return await self._apply(state, lambda _: None)

    async def stream(self, state: State) -> AsyncIterator[str | Updates]:
        """Yields the plan's text piece by piece, and at last the updates of the state."""
        texts: asyncio.Queue[str] = asyncio.Queue()
        planning = asyncio.ensure_future(self._apply(state, texts.put_nowait))
        try:
            while not planning.done() or not texts.empty():
                piece = asyncio.ensure_future(texts.get())
                pending: set[asyncio.Future[Any]] = {planning, piece}
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if piece.done():
                    yield piece.result()
                else:
                    piece.cancel()
            yield await planning
        finally:
            planning.cancel()

    @abstractmethod
    async def _apply(self, state: State, on_text: OnText) -> Updates: ...

    async def _draft(
        self, request: PlanRequest, blocks: Sequence[ContextBlock], on_text: OnText
    ) -> Planned:
        """Calls the model once; what is wrong with its plan goes back through the graph."""
        deps = PlannerDeps(
            plan_model=self.model,
            clock=self.clock,
            agents=self.agents,
            sources=[KnownContext(lambda: blocks)],
            settings=self.settings.replace(triage=False, repairs=0),
        )
        return await make_plan(request, deps=deps, on_text=on_text)


def value_in(output: object) -> Json:
    """Returns a planner's output as JSON: text, or a plan as an object."""
    if isinstance(output, Bean):
        return output.to_json()
    return read_plan_value(output) if isinstance(output, str) else cast("Json", output)


def read_output(output: object, title: str, read: Callable[[Json], Reading]) -> Reading:
    """Reads the plan in a planner's output."""
    try:
        return read(value_in(output))
    except UnreadableText as error:
        message = Sentence(
            "no plan of {title} was found: {reason}", title=title, reason=error.message
        )
        hint = Sentence("write the plan again")
        return Reading(None, (problem("PS001", message, hint=hint),))


def usable(planned: Planned) -> Plan | None:
    """Returns the plan, unless it is missing or only stands in for one."""
    return None if planned.plan is None or planned.plan.degraded else planned.plan


def error_text(problems: Sequence[Problem]) -> str:
    """Returns the errors of a plan as text, with fields and hints."""
    errors = [each for each in problems if each.severity is Severity.ERROR]
    return "\n".join(map(str, errors or problems)) or "the model gave no plan"


def text_of(value: object) -> str:
    """Returns a value of the state as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class PlannerNode(PlanningNode):
    """NL2SQL's planner: plans with the SQL writer and the coder, or with other agents."""

    usual_agents = (SQL_WRITER, CODER)

    async def _apply(self, state: State, on_text: OnText) -> Updates:
        question = _question_of(state)
        if state.get(keys.IS_ONLY_NL2SQL):
            return _done(only_nl2sql(question))
        words = [state.get(keys.PLAN_VALIDATION_ERROR), state.get(keys.HUMAN_FEEDBACK_CONTENT)]
        feedback = "\n".join(dict.fromkeys(text_of(each) for each in words if each))
        sent_back = state.get(keys.PLANNER_NODE_OUTPUT) or state.get(keys.HUMAN_REJECTED_PLAN)
        text = text_of(sent_back or "") if feedback else ""
        rejected = read_output(text, nl2sql.TITLE, read).plan if text else None
        blocks = _blocks(state, question)
        if text and rejected is None:
            blocks.append(ContextBlock(_REJECTED_TEXT, text[:_MAX_REJECTED]))
        spring = RunOptions(dialect="spring")
        request = PlanRequest(question, spring, previous=rejected, feedback=feedback)
        plan = usable(planned := await self._draft(request, blocks, on_text))
        if plan is not None:
            return _done(write_as("nl2sql", plan).value)
        return {
            keys.PLANNER_NODE_OUTPUT: planned.text,
            keys.PLAN_VALIDATION_STATUS: False,
            keys.PLAN_VALIDATION_ERROR: error_text(planned.problems),
        }


def _question_of(state: State) -> str:
    """Returns the rewritten question if a node before has rewritten it, else the person's own."""
    enhanced: Any = state.get(keys.QUERY_ENHANCE_NODE_OUTPUT)
    if isinstance(enhanced, Mapping):
        given = cast("Mapping[str, Any]", enhanced)
        enhanced = {snake(name): each for name, each in given.items()}.get("canonical_query")
    for rewritten in (enhanced, state.get(keys.QUERY_REWRITE_NODE_OUTPUT)):
        if isinstance(rewritten, str) and rewritten.strip() and rewritten not in _NO_QUESTION:
            return rewritten
    return str(state[keys.INPUT_KEY])


def _blocks(state: State, question: str) -> list[ContextBlock]:
    known = {key: title for key, title in _KNOWN.items() if state.get(key)}
    blocks = [ContextBlock(title, text_of(state[key])) for key, title in known.items()]
    original = state.get(keys.INPUT_KEY)
    if original and original != question:
        blocks.insert(0, ContextBlock(_AS_ASKED, text_of(original)))
    return blocks


def only_nl2sql(question: str) -> dict[str, Json]:
    """Returns the fixed plan if only SQL is wanted: one step, made without a model."""
    parameters: Json = {"instruction": question}
    step: Json = {"step": 1, "tool_to_use": nl2sql.SQL, "tool_parameters": parameters}
    return {"thought_process": "根据问题生成SQL", "execution_plan": [step]}


def _done(plan: Json) -> Updates:
    text = json.dumps(cast("Any", plan), ensure_ascii=False)
    return {keys.PLANNER_NODE_OUTPUT: text, keys.PLAN_CURRENT_STEP: 1}


MAX_REPAIRS: Final = 2
MAX_REJECTIONS: Final = 3
REJECTED: Final = "Plan rejected by user"
# What a node calls the field that it misses; for SQL, also by the name that it had once.
_MISSES: Final = {
    nl2sql.SQL: "the SQL generation node is missing description: the field 'instruction'",
    nl2sql.PYTHON: "the Python generation node is missing instruction",
    nl2sql.REPORT: "the report node is missing summary_and_recommendations",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanExecutorNode:
    """Validates a plan and picks the next node; an invalid plan goes back at most twice."""

    agents: Sequence[AgentSpec] = (SQL_WRITER, CODER)

    async def apply(self, state: State) -> Updates:
        output = state.get(keys.PLANNER_NODE_OUTPUT)
        reading = self.validate(output)
        if reading.plan is None or has_errors(list(reading.problems)):
            why = "\n".join(filter(None, (_headline(output), error_text(reading.problems))))
            if not output and state.get(keys.PLAN_VALIDATION_STATUS) is False:
                # The planner has no plan, and says why.
                why = text_of(state.get(keys.PLAN_VALIDATION_ERROR) or why)
            repairs = _count(state, keys.PLAN_REPAIR_COUNT) + 1
            rejections = _count(state, keys.HUMAN_REJECTION_COUNT)
            return {
                keys.PLAN_VALIDATION_STATUS: False,
                keys.PLAN_VALIDATION_ERROR: why,
                keys.PLAN_REPAIR_COUNT: repairs,
                keys.HUMAN_REJECTION_COUNT: rejections,
                keys.PLAN_NEXT_NODE: _after_repairs(repairs, rejections),
            }
        valid: Updates = {keys.PLAN_VALIDATION_STATUS: True, keys.PLAN_VALIDATION_ERROR: ""}
        if state.get(keys.HUMAN_REVIEW_ENABLED):
            return valid | {keys.PLAN_NEXT_NODE: keys.HUMAN_FEEDBACK_NODE}
        return valid | _next(reading.plan, state)

    def validate(self, output: object) -> Reading:
        reading = read_output(output, nl2sql.TITLE, read)
        if reading.plan is None:
            return reading
        found = check_plan(reading.plan, (), agents=self.agents)
        own = [_unsupported(step) for step in reading.plan.steps if isinstance(step, ToolStep)]
        # Replaces the checker's problem by one that lists the known tools.
        rest = [each for each in found if each.code != "PS101"]
        return Reading(reading.plan, (*reading.problems, *own, *rest))


def _count(state: State, key: str) -> int:
    return int(state.get(key) or 0)


def _unsupported(step: ToolStep) -> Problem:
    message = Sentence("unknown.tool", name=step.tool)
    hint = Sentence("use one of {tools}", tools=[*nl2sql.TOOLS])
    return problem("PS101", message, hint=hint, step=step.id, path=("tool_to_use",))


def _headline(output: object) -> str:
    try:
        steps = _snaked(value_in(output)).get("execution_plan")
    except UnreadableText:
        return ""
    if isinstance(steps, list) and not steps:
        return "Validation failed: the plan has no execution steps."
    for place, each in enumerate(steps if isinstance(steps, list) else (), start=1):
        step = _snaked(each)
        given = step.get("tool_parameters")
        if given is None:
            return f"Validation failed: Tool parameters are missing in step {place}."
        tool, words = str(step.get("tool_to_use")), _snaked(given)
        if tool in nl2sql.PARAMETERS and not (
            words.get(nl2sql.PARAMETERS[tool]) or words.get("description")
        ):
            return f"Validation failed in step {place}: {_MISSES[tool]}."
    return ""


def _snaked(value: Json) -> dict[str, Json]:
    return {snake(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _after_repairs(repairs: int, rejections: int) -> str:
    """Returns where an invalid plan goes; a person's rejections leave the repairs as they are."""
    return keys.PLANNER_NODE if repairs - rejections <= MAX_REPAIRS else keys.END


def _next(plan: Plan, state: State) -> Updates:
    current = max(int(state.get(keys.PLAN_CURRENT_STEP) or 1), 1)
    if current > len(plan.steps):
        last = keys.END if state.get(keys.IS_ONLY_NL2SQL) else nl2sql.REPORT
        return {keys.PLAN_NEXT_NODE: last, keys.PLAN_CURRENT_STEP: 1}
    return {
        keys.PLAN_NEXT_NODE: nl2sql.node_of(plan.steps[current - 1]),
        keys.PLAN_CURRENT_STEP: current,
    }


def feedback_data(given: object) -> dict[str, Any]:
    """Returns a person's feedback under its present names; `feed_back…` are the earlier ones."""
    data = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
    fields = {name: each for name, each in data.items() if each is not None}
    return {name.replace("feed_back", "feedback"): each for name, each in fields.items()} | fields


def decision_in(
    data: Mapping[str, Any], state: State, *, at_limit: bool
) -> Literal["approve", "go_on", "stop", "ask", "wait"]:
    """Returns what a person's feedback means for the plan that waits.

    Only true and false decide. At the limit a rejection asks whether to go on, and the answer to
    that question counts as well.
    """
    feedback, answer = data.get(keys.FEEDBACK), data.get("decision")
    if feedback is True:
        return "approve"
    if state.get(keys.HUMAN_FEEDBACK_QUESTION) and answer in LIMIT_OPTIONS:
        return "go_on" if answer == "go_on" else "stop"
    if feedback is not False:
        return "wait"
    return "ask" if at_limit else "go_on"


class HumanFeedbackNode:
    """Reads `{"feedback": true | false, "feedback_content": …}`; anything else keeps waiting.

    A rejection beyond the limit asks whether to go on; answer `{"decision": "go_on" | "stop"}`.
    """

    async def apply(self, state: State) -> Updates:
        data = feedback_data(state.get(keys.HUMAN_FEEDBACK_DATA))
        # A state of the original has a person's rejections among the repairs.
        own = state.get(keys.HUMAN_REJECTION_COUNT) is not None
        rejections = _count(state, keys.HUMAN_REJECTION_COUNT if own else keys.PLAN_REPAIR_COUNT)
        match decision_in(data, state, at_limit=rejections >= MAX_REJECTIONS):
            case "approve":
                more = {keys.HUMAN_FEEDBACK_CONTENT: "", keys.HUMAN_REJECTED_PLAN: ""}
                return _to(keys.PLAN_EXECUTOR_NODE, {keys.HUMAN_REVIEW_ENABLED: False, **more})
            case "go_on":  # back to the planner with the person's words and the rejected plan
                words = str(data.get(keys.FEEDBACK_CONTENT) or REJECTED)
                sent_back: Updates = {
                    keys.HUMAN_REJECTION_COUNT: rejections + 1,
                    keys.PLAN_REPAIR_COUNT: _count(state, keys.PLAN_REPAIR_COUNT) + 1,
                    keys.PLAN_VALIDATION_ERROR: words,
                    keys.HUMAN_FEEDBACK_CONTENT: words,
                    keys.HUMAN_FEEDBACK_QUESTION: "",
                    keys.HUMAN_REJECTED_PLAN: state.get(keys.PLANNER_NODE_OUTPUT) or "",
                    keys.PLANNER_NODE_OUTPUT: "",
                    keys.PLAN_CURRENT_STEP: 1,
                    keys.HUMAN_REVIEW_ENABLED: True,
                }
                return _to(keys.PLANNER_NODE, sent_back)
            case "stop":
                return _to(keys.END, {keys.HUMAN_FEEDBACK_QUESTION: ""})
            case "ask":
                question = f"{rejections} plans were sent back. Make another one?"
                update = {keys.HUMAN_FEEDBACK_QUESTION: f"{question} ({', '.join(LIMIT_OPTIONS)})"}
                return _to(keys.WAIT_FOR_FEEDBACK, update)
            case "wait":
                return _to(keys.WAIT_FOR_FEEDBACK, {})


def _to(node: str, more: Updates) -> Updates:
    # The feedback is used up: the next plan needs its own.
    return {keys.HUMAN_NEXT_NODE: node, keys.HUMAN_FEEDBACK_DATA: None, **more}


class PlanExecutorDispatcher:
    """The edge behind the plan executor."""

    async def apply(self, state: State) -> str:
        """Returns the next node: the executor's choice, or the planner for an invalid plan."""
        if state.get(keys.PLAN_VALIDATION_STATUS):
            return str(state.get(keys.PLAN_NEXT_NODE) or keys.END)
        rejections = _count(state, keys.HUMAN_REJECTION_COUNT)
        return _after_repairs(_count(state, keys.PLAN_REPAIR_COUNT), rejections)


class HumanFeedbackDispatcher:
    """The edge behind a human feedback node, before which a graph stops to wait for a person."""

    async def apply(self, state: State) -> str:
        node = str(state.get(keys.HUMAN_NEXT_NODE) or keys.END)
        return keys.HUMAN_FEEDBACK_NODE if node == keys.WAIT_FOR_FEEDBACK else node


class DataAgent:
    """Uses a Plansmith that has a SQL writer, such as that of `plansmith_cli.teams.data`."""

    def __init__(self, smith: Plansmith) -> None:
        self.smith = smith
        self._hashes: dict[str, str] = {}  # by run, the plan that a state showed; last the newest

    async def ask(
        self,
        question: str,
        *,
        human_review: bool = False,
        only_sql: bool = False,
        by: str = "",
        thread_id: str = "",
    ) -> Updates:
        """Plans a question and runs the plan, unless a person has to see it first.

        A `thread_id` names a conversation: the question knows what came before in it, or it
        answers what was asked there.
        """
        if only_sql:
            return await self._execute(await self._only_sql(question, thread_id, by))
        given: dict[str, Any] = {"dialect": "spring", "mode": "review" if human_review else ""}
        run = await turns.plan_message(self.smith, question, thread_id=thread_id, by=by, **given)
        # A message that answered a question did not ask for a look.
        if human_review and not moves.sees_first(run):
            await self.smith.runs.ask_for_review(run.id, SEEN_FIRST)
            run = await self.smith.get(run.id)
        return await self._execute(run)

    async def _only_sql(self, question: str, thread_id: str, by: str) -> Run:
        made = read(only_nl2sql(question)).plan
        assert made is not None  # noqa: S101 - it is ours
        plan = made.replace(goal=question)
        if not thread_id:
            return await self.smith.submit(plan, by=by)
        new = NewRun(question, plan, by=by)
        return await turns.begin(self.smith, thread_id, question, new)

    async def feedback(self, run_id: str, data: Mapping[str, Any], *, by: str = "") -> Updates:
        """Takes a person's decision on the plan, in the form of `HumanFeedbackNode`.

        For the id of a conversation, on the plan that was shown last in it.
        """
        given_id, run_id = run_id, await self._run_of(run_id)
        run = await self.smith.get(run_id)
        if given_id != run_id and run_id not in self._hashes:
            return self.state(run)  # what a conversation has newest need not be what was seen
        limits = {each.limit: name for name, each in run.questions.items()}
        limit_question = limits.get("rejections", "")
        given = feedback_data(data)
        decision, verdict = given.get("decision"), given.get(keys.FEEDBACK)
        if limit_question and (decision or verdict is True):
            # An approval also answers the question whether to make another plan.
            run = await self.smith.answer(run_id, limit_question, decision or GO_ON, by=by)
        move = next_move(run)
        # Feedback on a plan that was changed since is not about this one.
        if not isinstance(move, AwaitReview) or self._hashes.get(run_id, move.hash) != move.hash:
            return self.state(run)
        if verdict is True:
            await self.smith.decide(run_id, approve=move.hash, by=by)
            return await self.resume(run_id)
        if verdict is False:
            words = str(given.get(keys.FEEDBACK_CONTENT) or REJECTED)
            return await self._execute(await turns.change(self.smith, run, words, by=by))
        return self.state(run)

    async def resume(self, run_id: str) -> Updates:
        return self.state(await self.smith.runs.run(await self._run_of(run_id)))

    async def _run_of(self, name: str) -> str:
        """Returns the run that the thread id of a state means: itself, or the one shown last."""
        if await self.smith.store.events(name):
            return name
        runs = (await self.smith.thread(name)).runs
        if not runs:
            raise Refused(f"there is neither a run nor a conversation {name}")
        return next((run for run in reversed(self._hashes) if run in runs), runs[-1])

    async def _execute(self, run: Run) -> Updates:
        runs = isinstance(next_move(run), moves.MakePlan | moves.Execute | moves.EndOrReplan)
        return self.state(await self.smith.runs.run(run.id) if runs else run)

    def state(self, run: Run) -> Updates:
        plan = run.plan
        self._hashes.pop(run.id, None)
        self._hashes[run.id] = plan.hash if plan is not None else ""
        head: Updates = {keys.THREAD_ID: run.options.thread or run.id, keys.RUN_ID: run.id}
        head[keys.INPUT_KEY] = run.request
        head[keys.QUERY_REWRITE_NODE_OUTPUT] = (plan.goal if plan else "") or run.request
        if plan is None or plan.degraded:
            error = error_text(run.problems) if run.problems else run.reason
            return head | {
                keys.PLANNER_NODE_OUTPUT: "",
                keys.PLAN_VALIDATION_STATUS: False,
                keys.PLAN_VALIDATION_ERROR: error,
                keys.PLAN_NEXT_NODE: keys.END,
                keys.HUMAN_FEEDBACK_QUESTION: _questions_text(run),
                keys.RESULT: run.report,
            }
        return head | _plan_updates(plan, run)


def _plan_updates(plan: Plan, run: Run) -> Updates:
    value = write_as("nl2sql", plan, run).value
    assert isinstance(value, dict)  # noqa: S101 - this shape is an object
    results, current = value.pop(keys.SQL_EXECUTE_NODE_OUTPUT), value.pop(keys.PLAN_CURRENT_STEP)
    errors = [f"{name}: {step.error}" for name, step in run.steps.items() if step.error]
    return {
        keys.PLANNER_NODE_OUTPUT: json.dumps(value, ensure_ascii=False),
        keys.PLAN_CURRENT_STEP: current,
        keys.PLAN_NEXT_NODE: _next_node(plan, run, int(str(current))),
        keys.PLAN_VALIDATION_STATUS: True,
        keys.PLAN_VALIDATION_ERROR: "\n".join(errors),
        keys.HUMAN_REVIEW_ENABLED: isinstance(next_move(run), AwaitReview),
        keys.HUMAN_REJECTION_COUNT: run.rejections,
        keys.HUMAN_FEEDBACK_QUESTION: _questions_text(run),
        keys.SQL_EXECUTE_NODE_OUTPUT: results,
        keys.RESULT: run.report,
    }


def _questions_text(run: Run) -> str:
    return "\n".join(each.text for each in run.questions.values())


def _next_node(plan: Plan, run: Run, current: int) -> str:
    move = next_move(run)
    if isinstance(move, moves.Over):
        return keys.END
    if isinstance(move, AwaitReview | moves.AwaitAnswer):
        return keys.HUMAN_FEEDBACK_NODE
    if current > len(plan.steps):
        return keys.REPORT_GENERATOR_NODE
    return node_of(plan.steps[current - 1]) or keys.END
