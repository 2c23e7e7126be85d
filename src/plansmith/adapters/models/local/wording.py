"""Words the answer to a request: by rules, or by a model whose sentence is checked."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, cast

from plansmith.adapters.models.local.answer_check import unfounded
from plansmith.adapters.models.local.result_text import facts
from plansmith.plan.refs import Ref, pieces, value_text
from plansmith.ports import ReplyBrief

_NOTHING: Final = re.compile(
    r"\b(?:no|none|not|nothing|neither|cannot|unable)\b|n't\b|没有|无法|未|不(?:存在|能|包含|含)",
    re.IGNORECASE,
)
# A list with something in it.
_FOUND: Final = re.compile(r":\s*\[\s*[^\s\]]")
_MOST_NAMES: Final = 12
_KINDS: Final = {"files": "文件", "tables": "表", "columns": "列", "folders": "文件夹"}


def language_of(locale: str) -> Literal["en", "zh"]:
    """Returns the language of our sentences that is nearest to a locale."""
    return "zh" if locale.startswith("zh") else "en"


class Task(NamedTuple):
    """A request to be answered, and the results by step; without a request they are quoted."""

    request: str
    results: Mapping[str, str]
    language: Literal["en", "zh"] = "en"

    @classmethod
    def of(cls, brief: ReplyBrief) -> Task:
        """Makes the task of an instruction and the results that it refers to."""
        parts = pieces(brief.instruction)
        words = " ".join("".join(each for each in parts if isinstance(each, str)).split())
        texts: dict[str, str] = {}
        for ref in dict.fromkeys(each for each in parts if isinstance(each, Ref)):
            text = value_text(brief.results.get(str(ref)))
            texts[ref.step] = f"{texts[ref.step]}\n{text}" if ref.step in texts else text
        return cls(words, texts, language_of(brief.locale))


def lead(task: Task) -> str | None:
    """Returns a sentence with number and names of the found items, without a model.

    Empty where a table needs no sentence; None where a single thing needs a model to describe it.
    """
    found = [each for each in map(_list, task.results.values()) if each is not None]
    if not found or len(found[-1].items) == 1:
        return None
    chinese = task.language == "zh"
    kind, items, rows = found[-1]
    names = [_name(each) for each in items]
    if not names:
        return "没有找到。" if chinese else "Nothing was found."
    if None in names or len(names) > _MOST_NAMES:
        return ""
    called = ("、" if chinese else ", ").join(filter(None, names))
    if chinese:
        before = f"{rows} 行；" if rows is not None else ""
        return f"{before}{len(names)} 个{_KINDS.get(kind, '结果')}：{called}。"
    before = f"{rows} rows; " if rows is not None else ""
    return f"{before}{len(names)} {kind or 'found'}: {called}."


class _Items(NamedTuple):
    """The list in a result: its name, and the number of rows that the result states."""

    kind: str
    items: list[Any]
    rows: int | None = None


def _list(text: str) -> _Items | None:
    """Returns the one list of a result that answers it: a table's rows, not its columns."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list):
        return _Items("", value)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    rows: Any = fields.get("rows")
    if isinstance(rows, list):
        return _Items("rows", rows)
    lists: dict[str, list[Any]] = {
        key: each for key, each in fields.items() if isinstance(each, list)
    }
    for key in sorted(lists, key=lambda key: (not lists[key], key not in _KINDS)):
        return _Items(key, lists[key], rows if isinstance(rows, int) else None)
    return None


def _name(value: Any) -> str | None:
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    names = [fields[key] for key in ("path", "name", "title") if isinstance(fields.get(key), str)]
    return value if isinstance(value, str) else next(iter(names), None)


def worded(task: Task, sentence: str) -> str:
    """Returns the answer: a sentence if it agrees with the facts, then the facts.

    Without a request it is the facts alone, for a file or a message.
    """
    if not task.request:
        return "\n\n".join(filter(None, map(facts, task.results.values())))
    source = "\n".join([task.request, *task.results.values()])
    idle = not sentence.strip() or _normalized(sentence).strip(".。 ") in _normalized(task.request)
    cited = "".join(f" [step:{step}]" for step in task.results)
    ours = sentence == lead(task)
    wrong = idle or (not ours and (unfounded(sentence, source) or _denies(sentence, task)))
    parts = [] if wrong else [f"{sentence.strip()}{cited}"]
    parts += [facts(text, f" [step:{step}]") for step, text in task.results.items()]
    return "\n\n".join(filter(None, parts))


def _denies(sentence: str, task: Task) -> bool:
    """Whether a sentence says that nothing was found although something was."""
    found = any(_FOUND.search(text) for text in task.results.values())
    return found and bool(_NOTHING.search(sentence)) and not _NOTHING.search(task.request)


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
