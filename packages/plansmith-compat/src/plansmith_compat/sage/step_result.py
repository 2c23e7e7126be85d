"""What a step of SAGE's runtime returns: reply, observations and plan, and as text the reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, SupportsIndex

from plansmith.formats.dialect import in_order
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ReplyStep
from plansmith_compat.sage.dialect import observations_of
from plansmith_compat.sage.drafting import PlanStep

_DECIDE: Final = {
    "zh": "新的计划正等待您的决定：decide(approve=True) 或 decide(approve=False)。",
    "en": "A new plan waits for your decision: decide(approve=True) or decide(approve=False).",
}
_NOTHING: Final = "（没有可执行的步骤或工具返回空结果）"


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
    seen = [*unusable]
    if run is not None and run.plan is not None:
        seen += observations_of(in_order(run.plan), run)
    seen.sort(key=lambda each: int(each["step"]))
    reply = _reply(run)
    if not reply:
        asked = [*_questions(run).values(), *_waiting(run)]
        # A step that waits for an argument is told by its question.
        ended = [each for each in seen if not asked or "latency_ms" in each]
        reply = "\n".join([*_listed(ended), *asked]) or _NOTHING
    return StepResult(reply, seen, steps, run=run)


def _questions(run: Run | None) -> dict[str, str]:
    if run is None:
        return {}
    return {name: in_language(each.text, run.locale) for name, each in run.questions.items()}


def _waiting(run: Run | None) -> list[str]:
    """Says that a plan waits for a decision, if one does."""
    if run is None or run.status is not RunStatus.REVIEWING:
        return []
    return [_DECIDE["zh" if run.locale.startswith("zh") else "en"]]


def _reply(run: Run | None) -> str:
    """Returns the last reply that was said; empty if none was."""
    for step in reversed(in_order(run.plan)) if run is not None and run.plan is not None else ():
        state = run.steps.get(step.id) if run is not None else None
        said = state is not None and state.status is StepStatus.DONE
        if isinstance(step, ReplyStep) and state is not None and said:
            return str(state.result).strip()
    return ""


def _listed(seen: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the observations as lines of text, as SAGE lists them."""
    return [
        f"#{each['step'] + 1} 工具 {each['tool']} 成功：{each['result']}"
        if each["ok"]
        else f"#{each['step'] + 1} 工具 {each['tool']} 失败：{each['error']}"
        for each in seen
    ]
