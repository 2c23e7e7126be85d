"""Plans by rules without a language model: matches words to tools and copies values."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from plansmith.errors import ModelRefused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, in_language
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
from plansmith.text import READ_BY_RULES
from plansmith_desk.model.brief import DraftTask
from plansmith_desk.model.calls_to_plan import no_plan, plan_of_calls
from plansmith_desk.model.demo import keyword, refuse_name
from plansmith_desk.model.grounding import ASK
from plansmith_desk.model.signatures import Offered
from plansmith_desk.model.wording import Task, language_of, worded
from plansmith_planner.language.words import FILLER, terms
from plansmith_planner.ranking.pick import shortlist

_QUOTED: Final = re.compile(
    r"\"([^\"\n]{1,500})\"|“([^”\n]{1,500})”|「([^」\n]{1,500})」|《([^》\n]{1,500})》"
    r"|`([^`\n]{1,500})`|(?<!\w)'([^'\n]{1,500})'(?!\w)|‘([^’\n]{1,500})’"
)
_URL: Final = re.compile(r"https?://[^\s\"'<>，。；）]+[^\s\"'<>，。；）.,;:!?)]")
_MAIL: Final = re.compile(r"(?<![\w.%+-])[\w.%+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", re.ASCII)
_GLOB: Final = re.compile(r"(?<![\w./*?-])(?=[\w/*?-]*[./])[\w./?-]*\*[\w./*?-]*")
_FILE: Final = re.compile(
    r"(?<![\w~.-])(?:[\w~.-]++/){1,40}[\w.-]+"
    r"|(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,4}(?!\w|\.\w)"
    r"|(?<![\w-])[\w-]++\.[A-Za-z][A-Za-z0-9]{0,4}(?!\w|\.\w)"
)
# Chinese writes no spaces: a verb before a name is not part of it.
_VERB: Final = re.compile("^(?:请|帮我|把|将|在|从|对|读取|读|打开|查看|看|统计|分析|写入|保存到)+")
_DATE: Final = re.compile(r"(?<!\d)(\d{4})(?:-|/|年)(\d{1,2})(?:-|/|月)(\d{1,2})(?:日)?(?!\d)")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)")
_KIND: Final = re.compile(r"(?<![\w*.])\.?([A-Za-z]{2,4})(?: |-)?(?:files?\b|文件)")
_KINDS: Final = frozenset(
    ("csv", "tsv", "json", "md", "txt", "pdf", "html", "py", "xml", "yaml", "log", "svg", "png")
)
_FOLDER: Final = re.compile(
    r"\b(?:folder|directory) ([\w./-]*\w)|(?<![\w./-])([\w./-]*\w) (?:folder|directory)\b"
)
_PLAIN: Final = frozenset({"this", "the", "current", "that", "my", "a", "working", "same", "here"})
# Two names without an extension are files where one is copied or moved to the other.
_PAIR: Final = re.compile(
    r"\b(?:copy|duplicate|move|rename)\s+(?:(?:the\s+)?(?:file|folder)\s+)?([\w./~-]+)\s+"
    r"(?:to|as|into)\s+([\w./~-]*\w)|[把将]\s*([\w./~-]+?)\s*(?:复制|拷贝|移动|重命名|改名)[到为成至]\s*([\w./~-]*\w)",
    re.IGNORECASE | re.ASCII,
)
_TARGET: Final = re.compile(r"^to$|dest|target|new_?(?:name|path)", re.IGNORECASE)
_BEFORE_TARGET: Final = re.compile(
    r"(?:\b(?:to|as|into)\s+|[到为成至]\s*)[\"'“‘`]?$", re.IGNORECASE
)
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z]\w+(?: [A-Z]\w+)*")


@dataclass(slots=True)
class Values:
    """The values in a request by kind, in their order."""

    quoted: list[str] = field(default_factory=list[str])
    urls: list[str] = field(default_factory=list[str])
    mails: list[str] = field(default_factory=list[str])
    patterns: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    folders: list[str] = field(default_factory=list[str])
    dates: list[str] = field(default_factory=list[str])
    numbers: list[float] = field(default_factory=list[float])
    names: list[str] = field(default_factory=list[str])
    keyword: str = ""


def read_values(text: str) -> Values:
    """Reads the values of a text; part of a longer value does not count again."""
    rest = _RemainingText(text)
    word = keyword(text)
    values = Values(keyword="" if word.isdecimal() else word)
    for quoted in rest.take(_QUOTED, lambda found: next(filter(None, found.groups()))):
        _add_quoted(quoted, values)
    values.urls += rest.take(_URL)
    values.mails += rest.take(_MAIL)
    values.patterns += rest.take(_GLOB)
    kinds = [found[1].lower() for found in _KIND.finditer(text)]
    values.patterns += [f"*.{kind}" for kind in kinds if kind in _KINDS]
    values.dates += rest.take(_DATE, _iso)
    values.paths += rest.take(_FILE, lambda found: _VERB.sub("", found[0]) or found[0])
    if not values.paths and not values.quoted and (pair := _PAIR.search(text)):
        values.paths += [each for each in pair.groups() if each]
    folders = [found[1] or found[2] for found in _FOLDER.finditer(text)]
    values.folders += [each for each in folders if each.lower() not in _PLAIN]
    values.numbers += [float(each.replace(",", "")) for each in rest.take(_NUMBER)]
    values.names += rest.take(_NAME)
    return values


def _add_quoted(quoted: str, values: Values) -> None:
    """Files a quoted path or address under its kind."""
    for pattern, kind in (
        (_URL, values.urls),
        (_MAIL, values.mails),
        (_GLOB, values.patterns),
        (_FILE, values.paths),
    ):
        if pattern.fullmatch(quoted):
            kind.append(quoted)
            return
    values.quoted.append(quoted)


def _iso(found: re.Match[str]) -> str:
    return f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d}"


class _RemainingText:
    """A text from which values are removed kind by kind."""

    def __init__(self, text: str) -> None:
        self._text = text

    def take(
        self,
        pattern: re.Pattern[str],
        read: Callable[[re.Match[str]], str] = lambda found: found[0],
    ) -> list[str]:
        found = [read(each) for each in pattern.finditer(self._text)]
        self._text = pattern.sub(lambda each: " " * len(each[0]), self._text)
        return found


MOST_STEPS: Final = 4
_LEAST_SCORE: Final = 0.2
_DEEDS: Final = "write|save|append|add|put|draw|plot|send|e?mail|post|replace|create|book"
# Splits a request into actions; "and" only before an action word.
_TURN: Final = re.compile(
    rf"[;；]\s*|,?(?<!\s)\s++(?:(?:and\s++)?then\s+|and\s+(?=(?:{_DEEDS})\b))"
    "|，?(?:然后|接着|随后|并且|再)|，?并(?=[把将写画发存])",
    re.IGNORECASE,
)
_FILL_KINDS: Final = (
    ("urls", re.compile(r"ur[il]|link|page|site|address", re.IGNORECASE)),
    ("mails", re.compile(r"mail|recipient|^(?:to|cc|bcc)$", re.IGNORECASE)),
    ("patterns", re.compile(r"pattern|glob", re.IGNORECASE)),
    ("dates", re.compile(r"date|day|time|when|start|end|since|until", re.IGNORECASE)),
    (
        "paths",
        re.compile(r"path|file|table|document|image|source|target|input|output", re.IGNORECASE),
    ),
)
_FILL_FOLDER: Final = re.compile(r"folder|dir", re.IGNORECASE)
_WORDS: Final = re.compile(r"query|text|term|word|search|question|topic|^q$", re.IGNORECASE)
_FILE_NAME: Final = re.compile(r"^path$|_path$|file_?name", re.IGNORECASE)  # no words of a text
_RESULT: Final = re.compile(r"text|body|content|message|note|rows|data|items", re.IGNORECASE)


def calls_for(request: str, tools: Sequence[Offered]) -> list[dict[str, Any]]:
    """Returns the calls that fit the words of a request; none if they leave out one of them."""
    calls: list[dict[str, Any]] = []
    clauses = _clauses(request[:READ_BY_RULES])
    for clause in clauses:
        best = _best(clause, tools, len(calls))
        if best is None or not _covers(best, clause):
            return []
        calls.append({"tool": best.tool.name, "args": best.args})
    return calls if len(calls) <= MOST_STEPS else []


def _covers(filled: _Filled, clause: str) -> bool:
    """Whether a call has a place for every word of a clause: in its tool's own text or a value."""
    values = [str(value) for value in filled.args.values()]
    for value in sorted(values, key=len, reverse=True):
        clause = clause.replace(value, " ")
    used, own = {term for value in values for _, term in terms(value)}, _terms_of(filled.tool)
    left = [term for word, term in terms(clause) if word not in FILLER and term not in used]
    return not own.isdisjoint(left) and own.issuperset(left)


def _terms_of(tool: Offered) -> set[str]:
    """Returns the words in which a tool tells what it does; not the examples of its arguments."""
    fields = [
        cast("Mapping[str, Any]", each)
        for each in tool.fields.values()
        if isinstance(each, Mapping)
    ]
    choices = [str(each) for field in fields for each in field.get("enum") or ()]
    return {term for _, term in terms(" ".join([tool.name, tool.about, *tool.fields, *choices]))}


def _clauses(request: str) -> list[str]:
    parts = [part.strip() for part in _TURN.split(request) if part.strip()]
    return parts or [request]


@dataclass(frozen=True, slots=True)
class _Filled:
    tool: Offered
    args: Mapping[str, Json]
    score: float


def _best(clause: str, tools: Sequence[Offered], place: int) -> _Filled | None:
    """Returns the best fitting tool whose required arguments can be filled."""
    known = {tool.name: tool for tool in tools if not tool.is_agent}
    entries = {
        name: {"description": tool.about, "input_schema": tool.inputs}
        for name, tool in known.items()
    }
    if not entries:
        return None
    picks = [pick for pick in shortlist(clause, entries, k=len(entries)) if pick.score > 0]
    filled = [_fill(known[pick.name], clause, place, pick.score) for pick in picks]
    best = max(filled, key=lambda each: each.score, default=None)
    return best if best is not None and best.score >= _LEAST_SCORE else None


def _fill(tool: Offered, clause: str, place: int, score: float) -> _Filled:
    values = read_values(clause)
    named = _count(values)
    args: dict[str, Json] = {}
    for name, schema in tool.fields.items():
        fields = cast("Mapping[str, Any]", schema if isinstance(schema, Mapping) else {})
        value = _value(name, fields, values, clause, tool.required)
        if value is None and name in tool.required:
            value = _substitute(name, fields, tool, values, place)
        if value is not None:
            args[name] = value
    left = _count(values)
    asked = sum(value == ASK for value in args.values())
    # A value that finds no place, and a place that finds no value, both speak against a tool;
    # so does a change that nobody asked for.
    fit = score + 0.4 * (named - left) - 0.3 * left - 0.4 * asked
    words = {term for _, term in terms(clause)}
    wanted = tool.only_reads or not words.isdisjoint(term for _, term in terms(tool.name))
    return _Filled(tool, args, fit if wanted else fit - 0.6)


def _count(values: Values) -> int:
    return len(values.folders) + sum(len(getattr(values, kind)) for kind, _ in _FILL_KINDS)


def _value(
    name: str, schema: Mapping[str, Any], values: Values, clause: str, required: Sequence[str]
) -> Json:
    """Returns the request's value for an argument by its name and type; None if there is none."""
    choices = cast("list[Any]", schema.get("enum") or [])
    if choices:
        return next((each for each in choices if _is_named(each, clause)), None)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _number(values, whole=kind == "integer") if name in required else None
    takes_text = kind in (None, "string") or (isinstance(kind, list) and "string" in kind)
    if not takes_text:
        return None
    if _FILL_FOLDER.search(name):
        inner = [each for each in values.paths if "." not in each.rpartition("/")[2]]
        return _take(values.paths, inner[0]) if inner else next(iter(_pop(values.folders)), None)
    if _TARGET.search(name) and not values.mails and (target := _target(values.paths, clause)):
        return _take(values.paths, target)
    for known, pattern in _FILL_KINDS:
        found: list[str] = getattr(values, known)
        if found and (pattern.search(name) or schema.get("format") == known.rstrip("s")):
            return found.pop(0)
    return None


def _target(paths: Sequence[str], clause: str) -> str | None:
    """Returns the path that a request names as the place where something goes."""
    for path in reversed(paths):
        at = clause.rfind(path)
        if at > 0 and _BEFORE_TARGET.search(clause[:at]):
            return path
    return None


def _substitute(
    name: str, schema: Mapping[str, Any], tool: Offered, values: Values, place: int
) -> Json:
    """Returns a substitute for a required value that has no value of its kind."""
    kind = schema.get("type")
    if "default" in schema:
        return cast("Json", schema["default"])
    if schema.get("format") == "sql":
        return ASK  # a query is no value: somebody has to think of it
    if _FILL_FOLDER.search(name) and tool.only_reads:
        return "."
    takes_text = kind in (None, "string") and not _FILE_NAME.search(name)
    text = _free_text(name, tool, values) if takes_text else None
    if text is None and place and _RESULT.search(name):
        return f"${place}"
    if text is None and kind in (None, "string") and tool.only_reads and values.names:
        return values.names.pop(0)
    return text or ASK


def _free_text(name: str, tool: Offered, values: Values) -> str | None:
    """Returns the quoted text; for a searching tool the most notable word."""
    if values.quoted:
        return values.quoted.pop(0)
    searches = tool.only_reads and _WORDS.search(name)
    return values.keyword or None if searches else None


def _pop(found: list[str]) -> list[str]:
    return [found.pop(0)] if found else []


def _take(found: list[str], value: str) -> str:
    found.remove(value)
    return value


def _number(values: Values, *, whole: bool) -> Json:
    for number in values.numbers:
        if not whole or number.is_integer():
            values.numbers.remove(number)
            return int(number) if number.is_integer() else number
    return None


def _is_named(choice: object, clause: str) -> bool:
    """Whether a choice occurs in the request as a whole word."""
    if not isinstance(choice, str) or not choice.strip():
        return False
    return bool(re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", clause, re.IGNORECASE))


_NOTHING: Final = {
    "en": "No language model is set up, and by its words alone the request fits no tool here. "
    "`plansmith model pull` gets a model, `--model` names one.",
    "zh": "还没有语言模型，而只按词语看，这里没有适合这个请求的工具。"
    "`plansmith model pull` 获取模型，`--model` 指定模型。",
}
_HINT: Final = Sentence("plansmith model pull gets a model, --model names one")


class RulesModel:
    """Answers without a language model, and says so in the plan."""

    @property
    def name(self) -> str:
        """The name that settings and reports use."""
        return "rules"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields a decision, a plan or a reply; anything else needs a language model."""
        yield TextDelta(_answer_text(prompt))
        yield ModelDone(Usage(), self.name)


def _answer_text(prompt: Prompt) -> str:
    match prompt.brief:
        case PlanBrief() as brief:
            return json.dumps(_plan(brief), ensure_ascii=False)
        case TriageBrief():
            return json.dumps({"decision": "plan", "reason": "", "query": "", "answer": ""})
        case ReplyBrief(style="results") as brief:
            return worded(Task.of(brief), "")
        case _ if prompt.schema is not None:
            raise ModelRefused(
                Sentence("this needs a language model, and none is set up"), hint=_HINT
            )
        case _:
            raise ModelRefused(Sentence("no language model is set up to word it"), hint=_HINT)


def _plan(brief: PlanBrief) -> dict[str, Json]:
    task = DraftTask.of(brief)
    if task.remark:
        hint = Sentence("plansmith runs edit changes a plan by hand; {hint}", hint=_HINT)
        raise ModelRefused(Sentence("rules cannot make another plan"), hint=hint)
    language = language_of(brief.locale)
    calls = calls_for(task.request, task.tools)
    tools = {tool.name: tool for tool in task.tools}
    if not calls:
        return no_plan(_NOTHING[language], task.request)
    why = in_language(Sentence("show.by_rules"), language)
    return plan_of_calls(calls, tools, task.request) | {"degraded": why}


def rules_model(name: str) -> RulesModel:
    """Returns the rules as a model; there is one only, without a name."""
    refuse_name("rules", name)
    return RulesModel()
