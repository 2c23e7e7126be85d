"""The demonstration model: a fixed script that searches the files of a folder."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from plansmith.errors import Misconfigured, ModelRefused
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
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

NOTICE: Final = {
    "en": "No language model is set up, so a scripted demo answers: it takes one word of the "
    "request and searches the files of this folder for it. `--model` names a real model.",
    "zh": "还没有设置语言模型，由脚本演示作答：它从请求中取一个词，在当前文件夹的文件中查找。"
    "用 `--model` 指定真正的模型。",
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

    @property
    def name(self) -> str:
        """The name that settings and reports use."""
        return "demo"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer in pieces."""
        text = _answer(prompt)
        for start in range(0, len(text), _CHUNK):
            yield TextDelta(text[start : start + _CHUNK])
        yield ModelDone(Usage(), self.name)


def _answer(prompt: Prompt) -> str:
    match prompt.brief:
        case TriageBrief(request):
            decided = {"decision": "plan", "reason": "the demo plans always", "query": request}
            return json.dumps(decided | {"answer": ""})
        case MessageBrief():
            raise ModelRefused(
                Sentence("the scripted demo cannot judge a message"),
                hint=Sentence("rules decide instead"),
            )
        case PlanBrief(request) as brief:
            if brief.previous is not None:
                hint = "plansmith runs edit changes a plan by hand; --model names a real model"
                raise ModelRefused(Sentence("the scripted demo cannot change a plan"), hint=hint)
            return json.dumps(_plan(request, brief.locale), ensure_ascii=False)
        case ReplyBrief() as brief:
            return _reply(brief)
        case None:
            return _reply(ReplyBrief("", {}))


def keyword(request: str) -> str:
    """Returns the word to search for: a quoted one, or else the longest uncommon one."""
    quoted = _QUOTED.search(request)
    if quoted:
        return quoted[1]
    cues = _HAN_CUE.findall(request)
    if cues:
        return _HAN_ENDS.sub("", cues[-1]) or cues[-1]
    words = [each for each in re.findall(r"\w+", request) if each.lower() not in _COMMON]
    longest = max(words, key=len, default="plan")
    # The singular finds the plural too.
    plural = longest.isascii() and longest.endswith("s") and not longest.endswith("ss")
    return longest[:-1] if plural and len(longest) > 3 else longest


def _plan(request: str, locale: str) -> dict[str, Json]:
    word = keyword(request)
    chinese = locale.startswith("zh")
    titles = (
        ("看看文件夹里有什么", f"在文件中查找“{word}”", "说出找到了什么")
        if chinese
        else ("See what is in the folder", f'Search the files for "{word}"', "Say what was found")
    )
    return {
        "goal": request,
        "steps": [
            {
                "id": "list",
                "kind": "tool",
                "title": titles[0],
                "tool": "files.list",
                "inputs": {"folder": "."},
            },
            {
                "id": "search",
                "kind": "tool",
                "title": titles[1],
                "tool": "files.search",
                "inputs": {"text": word, "folder": "."},
            },
            {
                "id": "answer",
                "kind": "reply",
                "title": titles[2],
                "instruction": f"{'说出找到了什么' if chinese else titles[2]}: {{{{search}}}}",
                "after": ["list"],
            },
        ],
    }


def _reply(brief: ReplyBrief) -> str:
    chinese = brief.locale.startswith("zh")
    found = next(filter(None, map(_search_result, brief.results.values())), None)
    if found is None:
        return (
            "这是脚本演示，没有语言模型；它只会说出自己的查找结果，而这里没有。"
            if chinese
            else "This is the scripted demo, not a language model: it can only word the result of "
            "its own search, and there is none here."
        )
    files = [_line(each) for each in found["files"]]
    word, count, searched = found["text"], len(files), found["searched"]
    if chinese:
        head = (
            f"脚本演示（没有语言模型）查找了“{word}”："
            f"在 {searched} 个文本文件中，{count} 个含有它。"
        )
    else:
        have = "has it" if count == 1 else "have it"
        head = (
            f'The scripted demo (no language model) searched for "{word}": '
            f"of {searched} text files, {count} {have}."
        )
    return "\n".join([head, "", *files]).strip()


def _search_result(value: Json) -> dict[str, Any] | None:
    """Returns the value if it is a result of `files.search`."""
    if not isinstance(value, dict) or "searched" not in value:
        return None
    return value if isinstance(value.get("files"), list) else None


def _line(file: Mapping[str, Any]) -> str:
    lines = ", ".join(str(each["line"]) for each in file["lines"])
    more = ", …" if file["count"] > len(file["lines"]) else ""
    return f"- {file['path']} ({lines}{more})"


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
