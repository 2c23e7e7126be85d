"""SAGE's list of steps as a plan that can run, and what came of its run as SAGE's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, SupportsIndex, cast

from plansmith.check.autofix import autofix
from plansmith.check.check_plan import check_plan
from plansmith.formats.dialect import in_order, place_id
from plansmith.plan.capability import tool_specs
from plansmith.plan.data import Json
from plansmith.plan.events import PlanProposed, StepFailed
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.refs import Ref, escape_text
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import AnyStep, ReplyStep, ToolStep
from plansmith_compat.sage.dialect import observations_of, read, reply_of, reply_text, write
from plansmith_compat.sage.operators import plain
from plansmith_compat.sage.planner import PlanStep
from plansmith_planner.fallback import salvage
from plansmith_planner.language.locales import locale_of

if TYPE_CHECKING:
    from plansmith.app import Plansmith

_SUM_UP: Final = {
    True: "请简洁汇总以下结果，保留关键信息和结论。",
    False: "Sum up these results briefly; keep the key facts and conclusions.",
}
_DECIDE: Final = {
    True: "新的计划正等待您的决定：decide(approve=True) 或 decide(approve=False)。",
    False: "A new plan waits for your decision: decide(approve=True) or decide(approve=False).",
}
_NOTHING: Final = "（没有可执行的步骤或工具返回空结果）"


class Runnable(NamedTuple):
    """A plan, None if nothing can run, and an observation for each step that cannot."""

    plan: Plan | None
    unusable: list[dict[str, Any]]


def runnable(
    steps: Sequence[PlanStep],
    tools: Mapping[str, Any],
    query: str,
    *,
    most: int,
    words: bool,
    sums: bool,
) -> Runnable:
    """Returns the plan of a list of steps, at most so many; what is missing is asked for.

    With `words` a model words the replies from the results, else they are said as they are
    written. With `sums` a list without a reply gets one that sums the results up.
    """
    # A planner of another make may put anything into its list; place by place, as data.
    listed = _cut([_step(each) for each in steps], most)
    whole = getattr(steps, "plan", None) if len(listed) == len(steps) else None
    if not isinstance(whole, Plan) or write(whole).value != list(steps):
        whole = read(cast("Json", listed)).plan
    if whole is None:
        return Runnable(None, [])
    specs = tool_specs(tools)
    locale = locale_of(query)
    plan = autofix(whole.replace(goal=query, locale=locale), specs).plan
    errors = [each for each in check_plan(plan, specs) if each.severity is Severity.ERROR]
    usable = salvage(plan, errors, max_steps=len(plan.steps)) if errors else plan
    unusable = _unusable(listed, errors)
    if usable is None:
        return Runnable(None, unusable)
    said = [_said(step, words=words) for step in usable.steps]
    if sums and not any(isinstance(step, ReplyStep) for step in said):
        said.append(_summary(said, locale))
    return Runnable(usable.replace(steps=tuple(said)), unusable)


def _step(entry: Any) -> PlanStep:
    try:
        entry = plain(entry)
    except ValueError:  # a circle, or no text: it cannot be kept, so it cannot be run
        entry = None
    return cast("PlanStep", entry) if isinstance(entry, dict) else {"type": entry}


def _cut(steps: Sequence[PlanStep], most: int) -> list[PlanStep]:
    """Returns the first steps; if the last of all is a reply, it is kept too."""
    if len(steps) <= most:
        return [*steps]
    ends = steps[-1].get("type") == "reply" and most > 1
    return [*steps[: most - 1], steps[-1]] if ends else [*steps[:most]]


def _unusable(steps: Sequence[PlanStep], errors: Sequence[Problem]) -> list[dict[str, Any]]:
    """Returns an observation for each tool step that has an error."""
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


def _said(step: AnyStep, *, words: bool) -> AnyStep:
    """Returns a reply to be said as it is written, where there is nothing to word it from."""
    if not isinstance(step, ReplyStep) or (words and step.needs()):
        return step
    text = escape_text(reply_text(step.instruction))
    return step.replace(instruction=text, style="exact", after=tuple(sorted(step.needs())))


def _summary(steps: Sequence[AnyStep], locale: str) -> ReplyStep:
    results = "\n".join(str(Ref(step.id)) for step in steps if isinstance(step, ToolStep))
    taken = {step.id for step in steps}
    name = next(each for each in ("summary", "summary_of_all") if each not in taken)
    return ReplyStep(id=name, instruction=f"{_SUM_UP[locale.startswith('zh')]}\n\n{results}")


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
        seen = [dict(each) for each in observations]
        super().__init__(reply=reply, observations=seen, plan=[*plan])
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
    seen = [*unusable, *(observations_of(ordered, run) if run is not None else ())]
    seen.sort(key=lambda each: int(each["step"]))
    reply = reply_of(ordered, run) if run is not None else ""
    if not reply:
        asked = [*_questions(run).values()]
        if run is not None and run.status is RunStatus.REVIEWING:
            asked.append(_DECIDE[run.locale.startswith("zh")])
        # A step that waits for an argument is told by its question.
        ended = [each for each in seen if not asked or "latency_ms" in each]
        reply = "\n".join([*map(_line, ended), *asked]) or _NOTHING
    return StepResult(reply, seen, steps, run=run)


def _questions(run: Run | None) -> dict[str, str]:
    asked = run.questions if run is not None else {}
    return {name: in_language(each.text, run.locale if run else "") for name, each in asked.items()}


def _line(seen: Mapping[str, Any]) -> str:
    """Returns an observation as a line of text, as SAGE lists them."""
    came = f"成功：{seen['result']}" if seen["ok"] else f"失败：{seen['error']}"
    return f"#{seen['step'] + 1} 工具 {seen['tool']} {came}"


async def failed_before(smith: Plansmith, run: Run) -> list[dict[str, Any]]:
    """Returns an observation for each tool step that failed under an earlier plan of the run."""
    plan: Plan | None = None
    found: list[dict[str, Any]] = []
    if not run.replans:
        return found
    async for event in smith.events(run.id):
        body = event.body
        if isinstance(body, PlanProposed):
            plan = body.plan
        elif isinstance(body, StepFailed) and plan is not None and plan != run.plan:
            state = StepState(status=StepStatus.FAILED, error=in_language(body.error, run.locale))
            seen = observations_of(in_order(plan), Run(id=run.id, steps={body.step: state}))
            found += seen if not body.again else []
    return found
