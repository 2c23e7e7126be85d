"""Plans by rules without a language model: matches words to tools and copies values."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

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
from plansmith_desk.model.calls_to_plan import no_plan, plan_of_calls
from plansmith_desk.model.demo import keyword, refuse_name
from plansmith_desk.model.grounding import ASK
from plansmith_desk.model.prompt import DraftTask
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


Values = dict[str, list[str]]
# The kinds of values in the order in which they are read.
_KINDS_READ: Final = {
    "urls": _URL,
    "mails": _MAIL,
    "patterns": _GLOB,
    "dates": _DATE,
    "paths": _FILE,
    "numbers": _NUMBER,
    "names": _NAME,
}


def read_values(text: str) -> Values:
    """Reads the values of a text by kind; part of a longer value does not count again."""
    values: Values = {kind: [] for kind in ("quoted", "folders", *_KINDS_READ)}
    for found in _QUOTED.finditer(text):
        quoted = next(filter(None, found.groups()))
        kinds = ("urls", "mails", "patterns", "paths")
        kind = next((each for each in kinds if _KINDS_READ[each].fullmatch(quoted)), "quoted")
        values[kind].append(quoted)
    rest = _QUOTED.sub(_blank, text)
    for kind, pattern in _KINDS_READ.items():
        values[kind] += [_read(kind, found) for found in pattern.finditer(rest)]
        rest = pattern.sub(_blank, rest)
    named = [found[1].lower() for found in _KIND.finditer(text)]
    values["patterns"] += [f"*.{each}" for each in named if each in _KINDS]
    if not values["paths"] and not values["quoted"] and (pair := _PAIR.search(text)):
        values["paths"] += [each for each in pair.groups() if each]
    folders = [found[1] or found[2] for found in _FOLDER.finditer(text)]
    values["folders"] += [each for each in folders if each.lower() not in _PLAIN]
    return values


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _read(kind: str, found: re.Match[str]) -> str:
    if kind == "dates":
        return f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d}"
    if kind == "numbers":
        return found[0].replace(",", "")
    return _VERB.sub("", found[0]) or found[0] if kind == "paths" else found[0]


MOST_STEPS: Final = 4
_LEAST_SCORE: Final = 0.2
_DEEDS: Final = "write|save|append|add|put|draw|plot|send|e?mail|post|replace|create|book"
# Splits a request into actions; "and" only before an action word.
_TURN: Final = re.compile(
    rf"[;；]\s*|,?(?<!\s)\s++(?:(?:and\s++)?then\s+|and\s+(?=(?:{_DEEDS})\b))"
    "|，?(?:然后|接着|随后|并且|再)|，?并(?=[把将写画发存])",
    re.IGNORECASE,
)
# The arguments that take values of a kind, by their names.
_FILL_KINDS: Final = {
    "urls": re.compile(r"ur[il]|link|page|site|address", re.IGNORECASE),
    "mails": re.compile(r"mail|recipient|^(?:to|cc|bcc)$", re.IGNORECASE),
    "patterns": re.compile(r"pattern|glob", re.IGNORECASE),
    "dates": re.compile(r"date|day|time|when|start|end|since|until", re.IGNORECASE),
    "paths": re.compile(
        r"path|file|table|document|image|source|target|input|output", re.IGNORECASE
    ),
}
_FILL_FOLDER: Final = re.compile(r"folder|dir", re.IGNORECASE)
_WORDS: Final = re.compile(r"query|text|term|word|search|question|topic|^q$", re.IGNORECASE)
_FILE_NAME: Final = re.compile(r"^path$|_path$|file_?name", re.IGNORECASE)  # no words of a text
_RESULT: Final = re.compile(r"text|body|content|message|note|rows|data|items", re.IGNORECASE)


def calls_for(request: str, tools: Sequence[Offered]) -> list[dict[str, Any]]:
    """Returns the calls that fit the words of a request; none if they leave out one of them."""
    calls: list[dict[str, Any]] = []
    parts = [part.strip() for part in _TURN.split(request[:READ_BY_RULES]) if part.strip()]
    for clause in parts or [request[:READ_BY_RULES]]:
        best = _best(clause, tools, len(calls))
        if best is None or not _covers(best, clause):
            return []
        calls.append({"tool": best.tool.name, "args": best.args})
    return calls if len(calls) <= MOST_STEPS else []


class _Filled(NamedTuple):
    tool: Offered
    args: Mapping[str, Json]
    score: float


def _covers(filled: _Filled, clause: str) -> bool:
    """Whether a call has a place for every word of a clause: in its tool's own text or a value."""
    values = [str(value) for value in filled.args.values()]
    for value in sorted(values, key=len, reverse=True):
        clause = clause.replace(value, " ")
    # The words in which the tool tells what it does; not the examples of its arguments.
    tool = filled.tool
    choices = [str(each) for field in tool.fields.values() for each in field.get("enum") or ()]
    own = {term for _, term in terms(" ".join([tool.name, tool.about, *tool.fields, *choices]))}
    used = {term for value in values for _, term in terms(value)}
    left = [term for word, term in terms(clause) if word not in FILLER and term not in used]
    return not own.isdisjoint(left) and own.issuperset(left)


def _best(clause: str, tools: Sequence[Offered], place: int) -> _Filled | None:
    """Returns the best fitting tool whose required arguments can be filled."""
    known = {tool.name: tool for tool in tools if not tool.is_agent}
    entries = {
        name: {"description": tool.about, "input_schema": tool.inputs}
        for name, tool in known.items()
    }
    picks = shortlist(clause, entries, k=len(entries)) if entries else []
    filled = [
        _fill(known[each.name], clause, place, each.score) for each in picks if each.score > 0
    ]
    best = max(filled, key=lambda each: each.score, default=None)
    return best if best is not None and best.score >= _LEAST_SCORE else None


def _fill(tool: Offered, clause: str, place: int, score: float) -> _Filled:
    values = read_values(clause)
    named = _count(values)
    args: dict[str, Json] = {}
    for name, schema in tool.fields.items():
        value = _value(name, schema, values, clause, tool.required)
        if value is None and name in tool.required:
            value = _substitute(name, tool, values, clause, place)
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
    return sum(len(values[kind]) for kind in ("folders", *_FILL_KINDS))


def _value(
    name: str, schema: Mapping[str, Any], values: Values, clause: str, required: Sequence[str]
) -> Json:
    """Returns the request's value for an argument by its name and type; None if there is none."""
    kind = schema.get("type")
    if schema.get("enum"):
        return next((each for each in schema["enum"] if _is_named(each, clause)), None)
    if kind in ("integer", "number"):
        return _number(values, whole=kind == "integer") if name in required else None
    if not (kind in (None, "string") or (isinstance(kind, list) and "string" in kind)):
        return None
    paths = values["paths"]
    if _FILL_FOLDER.search(name):
        inner = [each for each in paths if "." not in each.rpartition("/")[2]]
        return _take(paths, inner[0]) if inner else _first(values["folders"])
    if _TARGET.search(name) and not values["mails"] and (target := _target(paths, clause)):
        return _take(paths, target)
    for known, pattern in _FILL_KINDS.items():
        if values[known] and (pattern.search(name) or schema.get("format") == known.rstrip("s")):
            return values[known].pop(0)
    return None


def _target(paths: Sequence[str], clause: str) -> str | None:
    """Returns the path that a request names as the place where something goes."""
    for path in reversed(paths):
        at = clause.rfind(path)
        if at > 0 and _BEFORE_TARGET.search(clause[:at]):
            return path
    return None


def _substitute(name: str, tool: Offered, values: Values, clause: str, place: int) -> Json:
    """Returns a substitute for a required value that has no value of its kind."""
    schema = tool.fields[name]
    is_text = schema.get("type") in (None, "string")
    if "default" in schema:
        return cast("Json", schema["default"])
    if schema.get("format") == "sql":
        return ASK  # a query is no value: somebody has to think of it
    if _FILL_FOLDER.search(name) and tool.only_reads:
        return "."
    text = None
    if is_text and not _FILE_NAME.search(name):
        # A quoted text; for a searching tool the most notable word.
        searches = tool.only_reads and _WORDS.search(name)
        word = keyword(clause) if searches else ""
        text = _first(values["quoted"]) or (None if word.isdecimal() else word)
    if not text and place and _RESULT.search(name):
        return f"${place}"
    if not text and is_text and tool.only_reads:
        text = _first(values["names"])
    return text or ASK


def _first(found: list[str]) -> str | None:
    return found.pop(0) if found else None


def _take(found: list[str], value: str) -> str:
    found.remove(value)
    return value


def _number(values: Values, *, whole: bool) -> Json:
    for text in values["numbers"]:
        number = float(text)
        if not whole or number.is_integer():
            values["numbers"].remove(text)
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
