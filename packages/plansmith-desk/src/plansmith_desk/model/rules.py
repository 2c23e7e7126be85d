"""Plans by rules without a language model: matches words to tools and copies values."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from plansmith import ports
from plansmith.errors import Misconfigured, ModelRefused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, in_language, language_of
from plansmith_desk.model.answer_rules import Task
from plansmith_desk.model.calls_to_plan import plan_of_calls, plan_of_reply
from plansmith_desk.model.grounding import ASK
from plansmith_desk.model.prompt import DraftTask, Offered, Schema
from plansmith_desk.model.wording import worded
from plansmith_desk.settings import program
from plansmith_planner.language import word_list
from plansmith_planner.language.characters import READ_BY_RULES
from plansmith_planner.language.words import FILLER, terms
from plansmith_planner.ranking.pick import shortlist

Values = dict[str, list[str]]
_KINDS: Final = {
    "quoted": re.compile(
        r"\"([^\"\n]{1,500})\"|“([^”\n]{1,500})”|「([^」\n]{1,500})」|《([^》\n]{1,500})》"
        r"|`([^`\n]{1,500})`|(?<!\w)'([^'\n]{1,500})'(?!\w)|‘([^’\n]{1,500})’"
    ),
    "urls": re.compile(r"https?://[^\s\"'<>，。；）]+[^\s\"'<>，。；）.,;:!?)]"),
    "mails": re.compile(r"(?<![\w.%+-])[\w.%+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", re.ASCII),
    "patterns": re.compile(r"(?<![\w./*?-])(?=[\w/*?-]*[./])[\w./?-]*\*[\w./*?-]*"),
    "dates": re.compile(r"(?<!\d)(\d{4})(?:-|/|年)(\d{1,2})(?:-|/|月)(\d{1,2})(?:日)?(?!\d)"),
    "paths": re.compile(
        r"(?<![\w~.-])(?:[\w~.-]++/){1,40}[\w.-]+"
        r"|(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,4}(?!\w|\.\w)"
        r"|(?<![\w-])[\w-]++\.[A-Za-z][A-Za-z0-9]{0,4}(?!\w|\.\w)"
    ),
    "numbers": re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)"),
    "names": re.compile(r"(?<=[a-z,] )[A-Z]\w+(?: [A-Z]\w+)*"),
}
# Chinese writes no spaces: a verb before a name is not part of it.
_VERB: Final = re.compile("^(?:请|帮我|把|将|在|从|对|读取|读|打开|查看|看|统计|分析|写入|保存到)+")
_ENDING: Final = re.compile(
    r"(?<![\w*.])\.?(csv|tsv|json|md|txt|pdf|html|py|xml|yaml|log|svg|png)[ -]?(?:files?\b|文件)",
    re.IGNORECASE,
)


def read_values(text: str) -> Values:
    """Reads the values of a text by kind; part of a longer value does not count again."""
    values: Values = {kind: [] for kind in _KINDS}
    rest = text
    for kind, pattern in _KINDS.items():
        for found in pattern.finditer(rest):
            value = next(filter(None, found.groups()), found[0])
            if kind == "quoted":
                exact = (each for each in ("urls", "mails", "patterns", "paths"))
                values[next((e for e in exact if _KINDS[e].fullmatch(value)), kind)].append(value)
            elif kind == "dates":
                values[kind].append(f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d}")
            else:
                plain = _VERB.sub("", found[0]) if kind == "paths" else found[0]
                values[kind].append(plain.replace(",", "") if kind == "numbers" else plain)
        rest = pattern.sub(lambda found: " " * len(found[0]), rest)
    values["patterns"] += [f"*.{found[1].lower()}" for found in _ENDING.finditer(text)]
    return values


# The arguments that take values of a kind, by their names.
_ARGUMENTS: Final = {
    "urls": re.compile(r"ur[il]|link|page|site|address", re.IGNORECASE),
    "mails": re.compile(r"mail|recipient|^(?:to|cc|bcc)$", re.IGNORECASE),
    "patterns": re.compile(r"pattern|glob", re.IGNORECASE),
    "dates": re.compile(r"date|day|time|when|start|end|since|until", re.IGNORECASE),
    "paths": re.compile(
        r"path|file|table|document|image|source|target|input|output|^to$", re.IGNORECASE
    ),
}
_FOLDERS: Final = re.compile(r"folder|dir", re.IGNORECASE)
_WORDS: Final = re.compile(r"query|text|term|word|search|question|topic|^q$", re.IGNORECASE)
_FILE_NAME: Final = re.compile(r"^path$|_path$|file_?name", re.IGNORECASE)  # no words of a text


class _Filled(NamedTuple):
    tool: Offered
    args: Mapping[str, Json]
    score: float

    def covers(self, clause: str) -> bool:
        """Whether every word of a clause has a place: in the tool's own text or a value."""
        values = [str(value) for value in self.args.values()]
        for value in sorted(values, key=len, reverse=True):
            clause = clause.replace(value, " ")
        # The words in which the tool tells what it does; not the examples of its arguments.
        choices = [str(each) for some in self.tool.fields.values() for each in some.get("enum", ())]
        about = " ".join([self.tool.name, self.tool.about, *self.tool.fields, *choices])
        own, used = _terms(about), _terms(" ".join(values))
        left = [term for word, term in terms(clause) if word not in FILLER and term not in used]
        return not own.isdisjoint(left) and own.issuperset(left)


def _terms(text: str) -> set[str]:
    return {term for _, term in terms(text)}


def calls_for(request: str, tools: Sequence[Offered]) -> list[dict[str, Any]]:
    """Returns the call that fits the words of a request; none if it leaves out one of them."""
    known = {tool.name: tool for tool in tools if not tool.is_agent}
    entries = {
        name: {"description": tool.about, "input_schema": tool.inputs}
        for name, tool in known.items()
    }
    text = request[:READ_BY_RULES]
    picks = shortlist(text, entries, k=len(entries)) if entries else []
    filled = [_fill(known[each.name], text, each.score) for each in picks if each.score > 0]
    best = max(filled, key=lambda each: each.score, default=None)
    if best is None or best.score < 0.2 or not best.covers(text):
        return []
    return [{"tool": best.tool.name, "args": best.args}]


def _fill(tool: Offered, clause: str, score: float) -> _Filled:
    """Gives a tool the values of a clause; what finds no place or no value speaks against it."""
    values = read_values(clause)
    named = sum(len(values[kind]) for kind in _ARGUMENTS)
    args: dict[str, Json] = {}
    for name, schema in tool.fields.items():
        value = _value(name, schema, values, clause, tool.required)
        if value is None and name in tool.required:
            value = _substitute(name, tool, values, clause)
        if value is not None:
            args[name] = value
    left = sum(len(values[kind]) for kind in _ARGUMENTS)
    asked = sum(value == ASK for value in args.values())
    fit = score + 0.4 * (named - left) - 0.3 * left - 0.4 * asked
    # So does a change that nobody asked for.
    wanted = tool.only_reads or not _terms(clause).isdisjoint(_terms(tool.name))
    return _Filled(tool, args, fit if wanted else fit - 0.6)


def _value(name: str, schema: Schema, values: Values, clause: str, required: Sequence[str]) -> Json:
    """Returns the request's value for an argument by its name and type; None if there is none."""
    kind, paths = schema.get("type"), values["paths"]
    if schema.get("enum"):
        words = re.findall(r"\w+", clause.casefold())
        return next((each for each in schema["enum"] if str(each).casefold() in words), None)
    if kind in ("integer", "number"):
        return _number(values, whole=kind == "integer") if name in required else None
    if kind is not None and "string" not in kind:
        return None
    if _FOLDERS.search(name):
        inner = [each for each in paths if "." not in each.rpartition("/")[2]]
        return _take(paths, inner)
    for known, pattern in _ARGUMENTS.items():
        if values[known] and (pattern.search(name) or schema.get("format") == known.rstrip("s")):
            return values[known].pop(0)
    return None


def _take(found: list[str], wished: Sequence[str]) -> str | None:
    first = next(iter(wished), None)
    if first is not None:
        found.remove(first)
    return first


def _number(values: Values, *, whole: bool) -> Json:
    fitting = [each for each in values["numbers"] if not whole or float(each).is_integer()]
    text = _take(values["numbers"], fitting)
    if text is None:
        return None
    return int(float(text)) if float(text).is_integer() else float(text)


def _substitute(name: str, tool: Offered, values: Values, clause: str) -> Json:
    schema = tool.fields[name]
    is_text = schema.get("type") in (None, "string")
    if "default" in schema:
        return cast("Json", schema["default"])
    if schema.get("format") == "sql":
        return ASK  # a query is no value: somebody has to think of it
    if _FOLDERS.search(name) and tool.only_reads:
        return "."
    text = None
    if is_text and not _FILE_NAME.search(name):
        # A quoted text; for a searching tool the most notable word.
        word = keyword(clause) if tool.only_reads and _WORDS.search(name) else ""
        text = _take(values["quoted"], values["quoted"]) or ("" if word.isdecimal() else word)
    if not text and is_text and tool.only_reads:
        text = _take(values["names"], values["names"])
    return text or ASK


_QUOTED: Final = re.compile(r"[\"“「'‘](.{2,60}?)[\"”」'’]")
_HAN_CUE: Final = re.compile(
    "(?:提到|包含|含有|提及|关于|出现|找到|查找|搜索)+了?([\u4e00-\u9fff]{1,8})"
)
_HAN_ENDS: Final = re.compile("(?:的文件|的内容|吗|呢|的){1,9}$")
_COMMON: Final = word_list("unsearched")


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


_NOTHING: Final = {
    "en": "Rules plan here, without a language model, and by its words alone the request fits no "
    "tool. "
    "`{plansmith} model pull` gets a model, `--model` names one.",
    "zh": "这里没有用语言模型，由规则制定计划；只按词语看，没有适合这个请求的工具。"
    "`{plansmith} model pull` 获取模型，`--model` 指定模型。",
}


def _hint() -> str:
    return Sentence("{plansmith} model pull gets a model, --model names one", plansmith=program())


class RulesModel:
    """Answers without a language model, and says so in the plan."""

    name = "rules"

    async def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        """Yields a decision, a plan or a reply; anything else needs a language model."""
        yield ports.TextDelta(_answer_text(prompt))
        yield ports.ModelDone(ports.Usage(), self.name)


def _answer_text(prompt: ports.Prompt) -> str:
    match prompt.brief:
        case ports.PlanBrief() as brief:
            return json.dumps(_plan(brief), ensure_ascii=False)
        case ports.TriageBrief():
            return json.dumps({"decision": "plan", "reason": "", "query": "", "answer": ""})
        case ports.ReplyBrief(style="results") as brief:
            return worded(Task.of(brief), "")
        case _:
            message = Sentence("it takes a language model to word it; rules cannot")
            if prompt.schema is not None:
                message = Sentence("this needs a language model; rules cannot do it")
            raise ModelRefused(message, hint=_hint())


def _plan(brief: ports.PlanBrief) -> dict[str, Json]:
    task = DraftTask.of(brief)
    if task.remark:
        hint = Sentence(
            "{plansmith} runs edit changes a plan by hand; {hint}",
            plansmith=program(),
            hint=_hint(),
        )
        raise ModelRefused(Sentence("rules cannot make another plan"), hint=hint)
    language = language_of(brief.locale)
    tools = task.enabled or task.tools
    calls = calls_for(task.request, tools)
    if not calls:
        why = _NOTHING[language].format(plansmith=program())
        return plan_of_reply(why, task.request) | {"degraded": why}
    why = in_language(Sentence("show.by_rules"), language)
    known = {tool.name: tool for tool in tools}
    return plan_of_calls(calls, known, task.request) | {"degraded": why}


def rules_model(name: str) -> RulesModel:
    """Returns the rules as a model; there is one only, without a name."""
    if name:
        hint = Sentence("auto, local, rules, recorded:FILE, or provider:name such as openai:gpt-5")
        what = Sentence("'{name}' is not the name of a model", name=f"rules:{name}")
        raise Misconfigured(what, hint=hint)
    return RulesModel()
