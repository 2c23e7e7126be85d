"""Report: what came of a run, from recorded results alone, every claim with its step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.steps import ReplyStep

_LONGEST: Final = 1200
_EN: Final = {
    "answer": "Answer",
    "evidence": "Evidence",
    "failures": "What did not work",
    "assumptions": "Assumptions",
    "nothing": "There is no answer: the steps that lead to it did not finish.",
    "clipped": "… ({size:,} characters, clipped)",
    "done": "Everything was done.",
    "partly_done": "Part of it was done; what is missing is listed below.",
    "failed": "Nothing could be done.",
    "cancelled": "The run was cancelled.",
}
_ZH: Final = {
    "answer": "回答",
    "evidence": "依据",
    "failures": "未完成的部分",
    "assumptions": "假设",
    "nothing": "没有回答：得出回答所需的步骤没有完成。",
    "clipped": "……（共 {size:,} 个字符，已截断）",
    "done": "全部完成。",
    "partly_done": "部分完成；缺少的部分列在下面。",
    "failed": "没有完成任何步骤。",
    "cancelled": "运行已取消。",
}


def report(run: Run, status: RunStatus, results: Mapping[str, Json]) -> str:
    """The report as Markdown, in the run's language."""
    words = _ZH if run.locale.startswith("zh") else _EN
    return "\n".join(_lines(run, status, results, words)).strip() + "\n"


def _lines(
    run: Run, status: RunStatus, results: Mapping[str, Json], words: Mapping[str, str]
) -> Iterator[str]:
    yield f"# {_one_line(run.plan.goal if run.plan and run.plan.goal else run.request)}"
    yield ""
    yield words[status.value]
    yield from ("", f"## {words['answer']}", "", _answer(run, results) or words["nothing"])
    done = {name: step for name, step in run.steps.items() if step.status is StepStatus.DONE}
    if done:
        yield from ("", f"## {words['evidence']}", "")
        yield from (_evidence(name, results.get(name), words["clipped"]) for name in done)
    bad = {n: s for n, s in run.steps.items() if s.status is not StepStatus.DONE}
    if bad:
        yield from ("", f"## {words['failures']}", "")
        yield from (_failure(name, step) for name, step in bad.items())
    if run.plan and run.plan.assumptions:
        yield from ("", f"## {words['assumptions']}", "")
        yield from (f"- {_one_line(each)}" for each in run.plan.assumptions)


def _answer(run: Run, results: Mapping[str, Json]) -> str:
    """The last reply that was composed."""
    replies = (
        [step.id for step in run.plan.steps if isinstance(step, ReplyStep)] if run.plan else []
    )
    texts = [str(results[name]) for name in replies if name in results]
    return texts[-1] if texts else ""


def _evidence(name: str, value: Json, clipped: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = _one_line(text[:_LONGEST])
    if len(text) > _LONGEST:
        shown += clipped.format(size=len(text))
    return f"- **{name}**: {shown}"


def _failure(name: str, step: StepState) -> str:
    why = f": {_one_line(step.error)}" if step.error else ""
    return f"- **{name}** ({step.status}){why}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
