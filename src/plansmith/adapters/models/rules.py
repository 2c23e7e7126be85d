"""Planning by rules, where there is no language model: words match tools, values are copied."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, cast

from plansmith.adapters.models.local.brief import Brief, read_brief
from plansmith.adapters.models.local.unfold import no_plan, plan_of_calls
from plansmith.adapters.models.local.wording import lead, read_task, said_exactly, worded
from plansmith.adapters.models.rules_fill import calls_for
from plansmith.errors import ModelRefused
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Delta, Message, ModelDone, TextDelta, Usage
from plansmith.text import HAN

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

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> AsyncIterator[Delta]:
        """A decision, a plan or a reply; anything else takes a language model."""
        del tools
        yield TextDelta(_said(messages, schema))
        yield ModelDone(Usage(), self.name)


def _said(messages: Sequence[Message], schema: Mapping[str, Json] | None) -> str:
    brief = read_brief(messages)
    if brief is not None:
        return json.dumps(_plan(brief), ensure_ascii=False)
    if schema is not None:
        if "decision" in cast("Mapping[str, Any]", schema.get("properties") or {}):
            reason = "rules plan whatever they are asked"
            return json.dumps({"decision": "plan", "reason": reason, "query": "", "answer": ""})
        raise ModelRefused("this takes a language model, and there is none", hint=_HINT)
    prompt = "\n".join(message.text for message in messages)
    task, exact = read_task(prompt), said_exactly(prompt)
    if task is None and not exact:
        raise ModelRefused("no language model is set up to word it", hint=_HINT)
    return exact if task is None else worded(task, lead(task) or "")


def _plan(brief: Brief) -> dict[str, Json]:
    if brief.remark:
        hint = f"plansmith edit changes a plan by hand; {_HINT}"
        raise ModelRefused("rules cannot make another plan", hint=hint)
    language = "zh" if HAN.search(brief.request) else "en"
    calls = calls_for(brief.request, brief.tools)
    tools = {tool.name: tool for tool in brief.tools}
    if not calls:
        return no_plan(_NOTHING[language], brief.request)
    return plan_of_calls(calls, tools, brief.request) | {"degraded": _MARK[language]}


def rules_model() -> RulesModel:
    """The rules as a model."""
    return RulesModel()
