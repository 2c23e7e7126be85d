"""Finds templates that fit a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.problem import has_errors
from plansmith.plan.refs import value_text
from plansmith.planner.shortlist.card import read_card, source
from plansmith.planner.shortlist.lexical import LexicalIndex, Request, read_request
from plansmith.planner.shortlist.words import terms
from plansmith.templates.book import Template, TemplateBook

# Half of what both say must be the same: less is a different task that shares a word or two.
ENOUGH: Final = 0.5
MOST: Final = 3
_LONGEST_VALUE: Final = 80
_FORMATS: Final = {
    "email": r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}",
    "uri": r"https?://[^\s<>\"'，。、）)]{1,500}",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
}
_NUMBER: Final = re.compile(r"(?<![\w.-])-?\d{1,15}(?:\.\d{1,15})?(?![\w-]|\.\d)")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A template that fits a request: how well, what was found for it, and what is missing."""

    template: Template
    score: float
    inputs: Mapping[str, Json]
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The suggestion as plain JSON."""
        return {
            "template": self.template.full_name,
            "goal": self.template.plan.goal,
            "score": self.score,
            "inputs": dict(self.inputs),
            "missing": list(self.missing),
        }


async def suggest(request: str, book: TemplateBook, *, most: int = MOST) -> list[Suggestion]:
    """Templates that a request resembles, best first, only such as would pass check today.

    They are shown to the person; none is ever used by itself.
    """
    known = {name: each for name, each in (await book.all()).items() if "@" not in name}
    found: list[Suggestion] = []
    for template, score in ranked(request, list(known.values())):
        if len(found) == most:
            break
        if not has_errors(await book.problems(template)):
            inputs = found_inputs(request, template)
            missing = tuple(name for name in template.needed if name not in inputs)
            found.append(Suggestion(template, score, inputs, missing))
    return found


def ranked(request: str, templates: Sequence[Template]) -> list[tuple[Template, float]]:
    """The templates that are alike enough, the likest first."""
    asked = read_request(request)
    index = LexicalIndex()
    for slot, template in enumerate(templates):
        given = source(template.name, _described(template))
        if given is not None:
            index.add(slot, read_card(given))
    worth = index.worth(asked)
    scored: list[tuple[float, int]] = []
    for slot, template in enumerate(templates):
        shared = [term for term, _ in index.matches(slot, asked, worth)]
        scored.append((_likeness(request, asked, shared, template), slot))
    best = sorted((each for each in scored if each[0] >= ENOUGH), key=lambda x: (-x[0], x[1]))
    return [(templates[slot], round(score, 3)) for score, slot in best]


def _described(template: Template) -> ToolSpec:
    text = f"{template.request} . {template.plan.goal}"
    return ToolSpec(name=template.name, description=text)


def _likeness(request: str, asked: Request, shared: Sequence[str], template: Template) -> float:
    """The share of both texts that the other one also says; values of parameters count not."""
    values = _terms(map(value_text, found_inputs(request, template).values()))
    ours = {term: weight for term, weight in asked.terms.items() if term in asked.surface}
    ours = {term: weight for term, weight in ours.items() if term not in values}
    said = read_request(template.request or template.plan.goal)
    before = [value for form in template.properties.values() for value in _before(form)]
    theirs = (said.terms.keys() & said.surface.keys()) - _terms(before)
    if not ours or not theirs:
        return 0.0
    answered = sum(ours[term] for term in shared if term in ours) / sum(ours.values())
    covered = len(theirs & (ours.keys() | set(shared))) / len(theirs)
    return 2 * answered * covered / (answered + covered) if answered + covered else 0.0


def _terms(texts: Iterable[str]) -> set[str]:
    return {term for text in texts for _, term in terms(text)}


def found_inputs(request: str, template: Template) -> dict[str, Json]:
    """The parameters whose value stands in the request, word for word; all others are left out."""
    found: dict[str, Json] = {}
    for name, form in template.properties.items():
        values = list(dict.fromkeys(_candidates(request, form, template)))
        if len(values) == 1:
            found[name] = _typed(values[0], form)
    return found


def _candidates(request: str, form: Mapping[str, Json], template: Template) -> Iterator[str]:
    """Texts in the request that can be the value of a parameter."""
    options = form.get("enum")
    if isinstance(options, list):
        yield from (each for each in map(value_text, options) if _stands_in(each, request))
    elif str(form.get("format")) in _FORMATS:
        yield from re.findall(_FORMATS[str(form["format"])], request)
    elif form.get("type") in ("integer", "number"):
        whole = form["type"] == "integer"
        yield from (each for each in _NUMBER.findall(request) if not (whole and "." in each))
    elif form.get("type") == "string":
        for value in _before(form):
            yield from _in_the_same_place(request, value, template.request)


def _before(form: Mapping[str, Json]) -> list[str]:
    """The value that a parameter had when its template was saved."""
    examples = form.get("examples")
    given = examples[:1] if isinstance(examples, list) else []
    return [value_text(each) for each in (form.get("default"), *given) if each is not None]


def _in_the_same_place(request: str, default: str, before: str) -> Iterator[str]:
    """What stands between the words that stood around the value in the earlier request."""
    if _stands_in(default, request):
        yield default
        return
    head, found, tail = before.partition(default)
    if not found or not default:
        return
    left, right = _last_word(head), _first_word(tail)
    if not left and not right:
        return
    start = rf"(?:^|(?<![^\W_])){re.escape(left)}\s*" if left else r"^\s*"
    end = rf"\s*{re.escape(right)}" if right else r"[\s.?!。？！]*$"
    pattern = rf"{start}(?P<value>\S(?:[^\n]{{0,{_LONGEST_VALUE}}}?\S)?){end}"
    yield from (match["value"] for match in re.finditer(pattern, request, re.IGNORECASE))


def _last_word(text: str) -> str:
    found = re.findall(r"\w+|[^\w\s]", text)
    return found[-1] if found else ""


def _first_word(text: str) -> str:
    found = re.match(r"\s*(\w+|[^\w\s])", text)
    return found[1] if found else ""


def _stands_in(word: str, request: str) -> bool:
    start = r"(?<!\w)" if word[:1].isascii() else ""
    end = r"(?!\w)" if word[-1:].isascii() else ""
    return bool(word) and bool(re.search(start + re.escape(word) + end, request, re.IGNORECASE))


def _typed(text: str, form: Mapping[str, Json]) -> Json:
    """A text of the request as the value it stands for."""
    options = form.get("enum")
    if isinstance(options, list):
        return next(each for each in options if value_text(each) == text)
    match form.get("type"):
        case "integer":
            return int(text)
        case "number":
            return float(text)
        case _:
            return text
