"""The demonstration model: a fixed script that searches the files of a folder."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Final

from plansmith import ports
from plansmith.errors import Misconfigured, ModelRefused
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, language_of
from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.wording import worded
from plansmith_desk.settings import program

NOTICE: Final = {
    "en": "No language model is set up, so a scripted demo answers: it takes one word of the "
    "request and searches the files of this folder for it. `--model` names a real model.",
    "zh": "还没有设置语言模型，由脚本演示作答：它从请求中取一个词，在当前文件夹的文件中查找。"
    "用 `--model` 指定真正的模型。",
}
_INTRODUCTION: Final = {
    "en": "This is the scripted demo, not a language model. What its steps found:",
    "zh": "这是脚本演示，没有语言模型。它的步骤找到了：",
}
_CHUNK: Final = 40
_QUOTED: Final = re.compile(r"[\"“「'‘](.{2,60}?)[\"”」'’]")
_HAN_CUE: Final = re.compile(
    "(?:提到|包含|含有|提及|关于|出现|找到|查找|搜索)+了?([\u4e00-\u9fff]{1,8})"
)
_HAN_ENDS: Final = re.compile("(?:的文件|的内容|吗|呢|的){1,9}$")
_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are can contain contains do does file files find folder folders "
        "for from have here how i in is it list look me mention mentions my of on or please read "
        "search show tell text that the their them there these this those to us want what when "
        "where which who why with word words you your",
    )
)


class DemoModel:
    """Answers any call: with a plan that searches files, or with what the search found."""

    name = "demo"

    async def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        text = _answer(prompt)
        for start in range(0, len(text), _CHUNK):
            yield ports.TextDelta(text[start : start + _CHUNK])
        yield ports.ModelDone(ports.Usage(), self.name)


def _answer(prompt: ports.Prompt) -> str:
    match prompt.brief:
        case ports.TriageBrief(request):
            return json.dumps({"decision": "plan", "reason": "", "query": request, "answer": ""})
        case MessageBrief():
            hint = Sentence("rules decide instead")
            raise ModelRefused(Sentence("the scripted demo cannot judge a message"), hint=hint)
        case ports.PlanBrief(previous=None) as brief:
            return json.dumps(_plan(brief.request, brief.locale), ensure_ascii=False)
        case ports.PlanBrief():
            hint = Sentence(
                "{plansmith} runs edit changes a plan by hand; --model names a real model",
                plansmith=program(),
            )
            raise ModelRefused(Sentence("the scripted demo cannot change a plan"), hint=hint)
        case ports.ReplyBrief() as brief:
            found = worded(Task.of(brief)._replace(writes=False), "")
            return f"{_INTRODUCTION[language_of(brief.locale)]}\n\n{found}"
        case None:
            return _INTRODUCTION["en"]


def keyword(request: str) -> str:
    """Returns the word to search for: a quoted one, or else the longest uncommon one."""
    quoted = _QUOTED.search(request)
    if quoted:
        return quoted[1]
    cues = _HAN_CUE.findall(request)
    if cues:
        return _HAN_ENDS.sub("", cues[-1]) or cues[-1]
    words = [each for each in re.findall(r"\w+", request) if each.lower() not in _COMMON]
    longest = max(words, key=len, default="")
    # The singular finds the plural too.
    plural = longest.isascii() and longest.endswith("s") and not longest.endswith("ss")
    return longest[:-1] if plural and len(longest) > 3 else longest


def _plan(request: str, locale: str) -> dict[str, Json]:
    word = keyword(request) or "plan"
    titles = ("See what is in the folder", f'Search the files for "{word}"', "Say what was found")
    if locale.startswith("zh"):
        titles = ("看看文件夹里有什么", f"在文件中查找“{word}”", "说出找到了什么")
    looks, searches, answers = titles
    inputs: Json = {"text": word, "folder": "."}
    answer: dict[str, Json] = {"title": answers, "instruction": f"{answers}: {{{{search}}}}"}
    steps: list[Json] = [
        {"id": "list", "title": looks, "tool": "files.list", "inputs": {"folder": "."}},
        {"id": "search", "title": searches, "tool": "files.search", "inputs": inputs},
        {"id": "answer", "kind": "reply", **answer, "after": ["list"]},
    ]
    return {"goal": request, "steps": steps}


def demo_model(name: str) -> DemoModel:
    """Returns the demonstration model; there is one only, without a name."""
    refuse_name("demo", name)
    return DemoModel()


def refuse_name(kind: str, name: str) -> None:
    """Refuses a name behind a kind of which there is one model only."""
    if name:
        hint = Sentence(
            "auto, local, rules, demo, recorded:FILE, or provider:name such as openai:gpt-5"
        )
        raise Misconfigured(
            Sentence("'{name}' is not the name of a model", name=f"{kind}:{name}"), hint=hint
        )
