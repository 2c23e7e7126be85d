"""Words the answer to a request: by rules where they can, else by a sentence that is checked."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from plansmith.errors import ModelFailed
from plansmith.plan.refs import Ref, pieces, value_text
from plansmith.ports import Delta, Message, ModelDone, Prompt, ReplyBrief, TextDelta, Usage
from plansmith.report.result_text import Language, facts
from plansmith.text import HAN, clip
from plansmith_desk.model.answer_prompt import (
    answer_messages,
    answer_start,
    best_blocks,
    file_texts,
    is_summary,
    material,
)
from plansmith_desk.model.answer_rules import MOST_NAMES, Answer, notes_of, rule_answer
from plansmith_planner.language.words import terms
from plansmith_planner.models.fact_checked import strange_names, unfounded

_NOTHING: Final = re.compile(
    r"\b(?:no|none|not|nothing|neither|cannot|unable)\b|n't\b|没有|无法|未|不(?:存在|能|包含|含)",
    re.IGNORECASE,
)
# What a model says of texts that do not hold the answer.
_UNSAID: Final = re.compile(
    r"\b(?:do|does|did)(?: not|n't) (?:say|mention|tell|state|contain|hold|give|specify|provide)\b"
    r"|\bno (?:information|mention|answer)\b|\bnot (?:mentioned|stated|given|said|specified)\b"
    r"|没有(?:提到|提及|说明|说|写|相关)|未(?:提到|提及|说明)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[A-Za-z]{2,}")
_FEW: Final = 4  # words that may be names
_CHINESE: Final = re.compile(f"{HAN.pattern}|[，。、；]")
# A person who asks for a text itself, not for what it says about something.
_SHOW: Final = re.compile(
    r"\s*(?:please |can you |could you )?(?:show|read|print|display|open|cat|view|output)\b"
    r"(?!.*\b(?:who|whom|when|how|why|which|where|what|whether)\b)"
    r"|(?:请|帮我)?(?:显示|读取|打开|查看|展示|读一下|看一下)[^？?谁几哪何]*(?:内容|文件|原文|全文|\.\w+)",
    re.IGNORECASE,
)
# A person who wants to know something, besides what is to be done.
_ASKS: Final = re.compile(
    r"\b(?:who|whom|whose|when|where|why|which|what|how|tell me)\b|[?？]"
    r"|谁|什么|哪|几|多少|怎么|告诉我",
    re.IGNORECASE,
)
_KINDS: Final = {"files": "文件", "tables": "表", "columns": "列", "folders": "文件夹"}
_QUOTED: Final = 400  # letters of a passage that is shown
_MOST_QUOTED: Final = 3
_SHOWN_TEXT: Final = 600  # letters of a text beside the file that it was written to


def language_of(locale: str) -> Literal["en", "zh"]:
    """Returns the language of our sentences that is nearest to a locale."""
    return "zh" if locale.startswith("zh") else "en"


class Task(NamedTuple):
    """A request to be answered, and the results by step; without a request they are quoted.

    `writes` if the request says what text to write: that text alone is wanted.
    """

    request: str
    results: Mapping[str, str]
    language: Language = "en"
    writes: bool = False

    @classmethod
    def of(cls, brief: ReplyBrief) -> Task:
        """Makes the task of an instruction and the results that it refers to."""
        writes = brief.style == "worded"
        words: list[str] = []
        texts: dict[str, str] = {}
        for each in pieces(brief.instruction):
            if isinstance(each, str):
                words.append(each)
                continue
            value = brief.results.get(str(each))
            text = value_text(value)
            # A number keeps its place; a text might read as an order there.
            if writes and isinstance(value, int | float):
                words.append(text)
            _add(texts, each, text)
        request = " ".join("".join(words).split())
        return cls(request, texts, language_of(brief.locale), writes)

    @property
    def source(self) -> str:
        """What an answer may take its numbers and names from."""
        # Line ends and quotation marks within JSON are written in two signs.
        plain = [re.sub(r"\\[nt]", " ", each).replace('\\"', '"') for each in self.results.values()]
        return "\n".join([self.request, *plain])


def _add(texts: dict[str, str], ref: Ref, text: str) -> None:
    before = texts.get(ref.step)
    if before is None:
        texts[ref.step] = text
    elif text not in before.split("\n"):
        texts[ref.step] = f"{before}\n{text}"


class _Part(NamedTuple):
    """A result: its step, what rules make of it, and the texts of files in it."""

    step: str
    result: str
    told: Answer | None
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a model has to say what it means."""
        return self.told is None


def without_model(task: Task) -> str | None:
    """Returns the answer if rules can give it; None where a model has to read something."""
    if not task.request:
        return _quoted(task)
    if task.writes:
        return None
    parts = _parts(task)
    if any(each.is_open for each in parts) and _is_to_be_read(task, parts):
        return None
    return _assembled(task, parts, "")


def worded(task: Task, sentence: str) -> str:
    """Returns the answer: what rules tell, and a model's sentence if it agrees with the facts.

    A text that was to be written comes alone; what is not in its source is left out of it.
    """
    if not task.request:
        return _quoted(task)
    if task.writes:
        return _founded(sentence, task.source) or _quoted(task)
    return _assembled(task, _parts(task), sentence)


def _quoted(task: Task) -> str:
    quoted = (facts(each, language=task.language) for each in task.results.values())
    return "\n\n".join(filter(None, quoted))


def _founded(text: str, source: str) -> str:
    """Returns a text without the lines that hold facts of no source; empty if too few are left."""
    lines = text.strip().splitlines()
    kept = [line for line in lines if not unfounded(line, source)]
    said = [line for line in kept if line.strip()]
    wanted = [line for line in lines if line.strip()]
    return "\n".join(kept) if said and 2 * len(said) > len(wanted) else ""


def _parts(task: Task) -> list[_Part]:
    return [_part(step, text, task) for step, text in task.results.items()]


def _part(step: str, text: str, task: Task) -> _Part:
    try:
        value: Any = json.loads(text)
    except ValueError:
        # A text that was written or found for the request is its answer.
        short = len(text) <= _SHOWN_TEXT
        return _Part(step, text, Answer(text.strip()) if short and text.strip() else None)
    texts = tuple(file_texts(value))
    if texts:
        shown = len(texts) == 1 and _SHOW.match(task.request) and not is_summary(task.request)
        return _Part(
            step, text, Answer(facts(texts[0][1], language=task.language)) if shown else None, texts
        )
    if isinstance(value, dict) and cast("dict[str, Any]", value).get("passages") == []:
        notes = notes_of(value, task.language)  # such as files that could not be read
        return _Part(step, text, Answer("\n".join([_NOT_SAID[task.language], *notes])))
    return _Part(
        step, text, rule_answer(value, task.request, task.language) or _listed(value, text, task)
    )


_NOT_SAID: Final = {
    "en": "The documents here do not say anything about it.",
    "zh": "这里的文件没有提到相关内容。",
}


def _listed(value: Any, text: str, task: Task) -> Answer | None:
    """Tells the number and names of the items of a list, then the items themselves."""
    found = _list(value)
    if found is None or len(found.items) == 1:
        return None
    chinese = task.language == "zh"
    kind, items = found
    names = [_name(each) for each in items]
    if not names:
        return Answer("没有找到。" if chinese else "Nothing was found.")
    below = facts(text, language=task.language)
    if None in names or len(names) > MOST_NAMES:
        return Answer(below)
    called = ("、" if chinese else ", ").join(filter(None, names))
    said = f"{len(names)} 个{_KINDS.get(kind, '结果')}：{called}。"
    if not chinese:
        said = f"{len(names)} {kind or 'found'}: {called}."
    plain = all(isinstance(each, str) for each in items)
    return Answer(said if plain else f"{said}\n\n{below}")


class _Items(NamedTuple):
    """The list in a result, and its name."""

    kind: str
    items: list[Any]


def _list(value: Any) -> _Items | None:
    """Returns the one list of a result that answers it."""
    if isinstance(value, list):
        return _Items("", value)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    lists: dict[str, list[Any]] = {
        key: each for key, each in fields.items() if isinstance(each, list)
    }
    for key in sorted(lists, key=lambda key: (not lists[key], key not in _KINDS)):
        return _Items(key, lists[key])
    return None


def _name(value: Any) -> str | None:
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    names = [fields[key] for key in ("path", "name", "title") if isinstance(fields.get(key), str)]
    return value if isinstance(value, str) else next(iter(names), None)


def _effects(parts: Sequence[_Part]) -> list[_Part]:
    return [each for each in parts if each.told is not None and each.told.effect]


def _assembled(task: Task, parts: Sequence[_Part], sentence: str) -> str:
    """Puts an answer together: what was done, what rules tell, what the model read."""
    effects = _effects(parts)
    others = [each for each in parts if each.told is not None and each not in effects]
    # What was worked out last from rows is what was asked for; the rows come below it.
    if len(others) > 1 and "|" not in (others[-1].told or Answer("")).text:
        others = [others[-1], *others[:-1]] if "|---" in _text_of(others[0]) else others
    done, told = ([cited(_text_of(each), each.step) for each in some] for some in (effects, others))
    still_open = [each for each in parts if each.is_open]
    if still_open and _is_to_be_read(task, parts):
        # What rules tell beside a sentence is mostly how its text was found.
        told = ["\n".join(_read(task, still_open, sentence)), *told]
    return "\n\n".join(filter(None, [*done, *told]))


def _is_to_be_read(task: Task, parts: Sequence[_Part]) -> bool:
    """Whether the texts of results are to be told: where something was done only if asked for."""
    return not _effects(parts) or bool(_ASKS.search(task.request))


def _text_of(part: _Part) -> str:
    return part.told.text if part.told is not None else ""


def _read(task: Task, parts: Sequence[_Part], sentence: str) -> Iterator[str]:
    """Yields what a model says of texts, with their files; the texts themselves if it is wrong."""
    steps = [each.step for each in parts]
    texts = [text for each in parts for text in each.texts]
    right = is_right(task, sentence)
    if right:
        yield cited(sentence.strip(), *steps)
        named = _sources(sentence, texts)
        if named and not _UNSAID.search(sentence):
            word = "来源：" if task.language == "zh" else "From: "
            yield cited(f"{word}{('、' if task.language == 'zh' else ', ').join(named)}", *steps)
    if texts and (not right or _UNSAID.search(sentence)):
        yield cited(
            "最相关的段落：" if task.language == "zh" else "These passages fit best:", *steps
        )
        for path, text in texts[:_MOST_QUOTED]:
            best = " ".join(best_blocks(task.request, text, _QUOTED).split())
            yield cited(f"- {path}: {clip(best, _QUOTED)}", *steps)
    for each in parts:
        if each.texts:
            notes = notes_of(_value(each.result), task.language)
            yield from (cited(note, each.step) for note in notes)
        else:
            yield from ("", facts(each.result, f" [step:{each.step}]", task.language))


def is_right(task: Task, sentence: str) -> bool:
    """Whether a sentence says something that agrees with the results."""
    said = " ".join(sentence.split())
    if not said or _repeats(said.casefold().strip(".。 ?？"), task.request.casefold()):
        return False
    if not _is_in(said, task.language):
        return False
    if _denies(said, task) and not any(each.texts for each in _parts(task)):
        return False
    return not unfounded(said, task.source) and not strange_names(said, task.source)


def _repeats(said: str, request: str) -> bool:
    """Whether a sentence is but a part of the request; `参加了` answers `参加了吗`."""
    return said in request and f"{said}吗" not in request


def _is_in(sentence: str, language: Language) -> bool:
    """Whether a sentence is in a language, as far as its letters tell; names may be in another."""
    words, signs = len(_WORD.findall(sentence)), len(_CHINESE.findall(sentence))
    return signs > 0 or words <= _FEW if language == "zh" else words > 0 or signs <= 2 * _FEW


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _denies(sentence: str, task: Task) -> bool:
    """Whether a sentence says that nothing was found, which the request does not speak of."""
    return bool(_NOTHING.search(sentence)) and not _NOTHING.search(task.request)


def _sources(sentence: str, texts: Sequence[tuple[str, str]]) -> list[str]:
    """Returns the files that share most words with a sentence, the best first."""
    said = {term for _, term in terms(sentence)}
    shared = {path: 0.0 for path, _ in texts}
    for path, text in texts:
        held = {term for _, term in terms(text)}
        shared[path] = max(shared[path], len(said & held))
    most = max(shared.values(), default=0.0)
    best = [path for path, count in shared.items() if count == most]
    return best[:_MOST_QUOTED]


def cited(text: str, *steps: str) -> str:
    """Puts the steps that a text rests on behind each of its statements.

    A table is one statement, and so is a bullet with what is below it.
    """
    mark = "".join(f" [step:{step}]" for step in steps)
    lines: list[str] = []
    before = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith(" ") or (line[0] == "|" and before[:1] == "|"):
            lines.append(line)
        elif line.startswith("|"):
            lines.append(f"{line.removesuffix('|').rstrip()}{mark} |")
        else:
            lines.append(f"{line}{mark}")
        before = line
    return "\n".join(lines)


# Tokens and shape of an answer: one line, or several for a summary or a written text. The tokens
# bound its length: counted repetitions in a grammar are refused beyond a few hundred.
_SENTENCE: Final = (100, "root ::= [^\\n]+\n")
_SUMMARY: Final = (220, 'root ::= [^\\n]+ ("\\n" [^\\n]+)*\n')
_WRITTEN: Final = (320, 'root ::= [^\\n]+ ("\\n" "\\n"? [^\\n]+)*\n')
_END: Final = re.compile(r"[.!?。！？](?=\s|$|[^\x00-\x7f])|\n")


class Constrained(Protocol):
    """A model that answers in the form of a grammar."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def constrained(self, prompt: Prompt, *, grammar: str = "") -> AsyncGenerator[Delta]:
        """Yields the answer to a prompt, constrained by a GBNF grammar."""
        ...

    def prime(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta]:
        """Reads the start of later prompts, once for all processes."""
        ...


async def answer(task: Task, model: Constrained) -> AsyncIterator[Delta]:
    """Yields the answer by rules, or else with what the model says, at its end and checked."""
    ready, usage = without_model(task), Usage()
    if ready is not None:
        yield TextDelta(ready)
        yield ModelDone(usage, model.name)
        return
    limit, grammar = _WRITTEN if task.writes else _SENTENCE
    if is_summary(task.request) and not task.writes:
        limit, grammar = _SUMMARY
    results = material(task.request, list(task.results.values()))
    asked = answer_messages(task.request, results, writes=task.writes)
    said = ""
    try:
        async with aclosing(model.prime(answer_start())) as primed:
            async for _ in primed:
                yield TextDelta("")
        pieces = model.constrained(Prompt(asked, max_tokens=limit), grammar=grammar)
        async with aclosing(pieces):
            async for delta in pieces:
                yield TextDelta("")
                said += delta.text if isinstance(delta, TextDelta) else ""
                usage = delta.usage if isinstance(delta, ModelDone) else usage
    except ModelFailed:
        said = _whole_sentences(said)  # the rest has no end
    yield TextDelta(worded(task, said))
    yield ModelDone(usage, model.name)


def _whole_sentences(text: str) -> str:
    ends = [found.end() for found in _END.finditer(text)]
    return text[: ends[-1]] if ends else ""
