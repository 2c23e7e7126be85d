"""Planning by rules, where there is no language model: words match tools, values are copied."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Final

from plansmith.adapters.models.local.brief import DraftTask
from plansmith.adapters.models.local.unfold import no_plan, plan_of_calls
from plansmith.adapters.models.local.wording import Task, language_of, lead, worded
from plansmith.adapters.models.rules_fill import calls_for
from plansmith.errors import ModelRefused
from plansmith.plan.data import Json
from plansmith.ports import (
    Delta,
    ModelDone,
    PlanBrief,
    Prompt,
    ReplyBrief,
    TextDelta,
    TriageBrief,
    Usage,
)

_MARK: Final = {
    "en": "made by rules, without a language model: tools were matched by their words, values "
    "copied from the request",
    "zh": "由规则生成，没有语言模型：工具按词语匹配，值从请求中照抄",
}
_NOTHING: Final = {
    "en": "No language model is set up, and by its words alone the request fits no tool here. "
    "`plansmith model pull` gets a model, `--model` names one.",
    "zh": "还没有语言模型，而只按词语看，这里没有适合这个请求的工具。"
    "`plansmith model pull` 获取模型，`--model` 指定模型。",
}
_HINT: Final = "plansmith model pull gets a model, --model names one"


class RulesModel:
    """Answers the planner and the runner without a language model, and says so in the plan."""

    @property
    def name(self) -> str:
        """The name by which settings and reports call it."""
        return "rules"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """A decision, a plan or a reply; anything else takes a language model."""
        yield TextDelta(_said(prompt))
        yield ModelDone(Usage(), self.name)


def _said(prompt: Prompt) -> str:
    match prompt.brief:
        case PlanBrief() as brief:
            return json.dumps(_plan(brief), ensure_ascii=False)
        case TriageBrief():
            reason = "rules plan whatever they are asked"
            return json.dumps({"decision": "plan", "reason": reason, "query": "", "answer": ""})
        case ReplyBrief(style="results") as brief:
            task = Task.of(brief)
            return worded(task, lead(task) or "")
        case _ if prompt.schema is not None:
            raise ModelRefused("this takes a language model, and there is none", hint=_HINT)
        case _:
            raise ModelRefused("no language model is set up to word it", hint=_HINT)


def _plan(brief: PlanBrief) -> dict[str, Json]:
    task = DraftTask.of(brief)
    if task.remark:
        hint = f"plansmith edit changes a plan by hand; {_HINT}"
        raise ModelRefused("rules cannot make another plan", hint=hint)
    language = language_of(brief.locale)
    calls = calls_for(task.request, task.tools)
    tools = {tool.name: tool for tool in task.tools}
    if not calls:
        return no_plan(_NOTHING[language], task.request)
    return plan_of_calls(calls, tools, task.request) | {"degraded": _MARK[language]}


def rules_model() -> RulesModel:
    """The rules as a model."""
    return RulesModel()
