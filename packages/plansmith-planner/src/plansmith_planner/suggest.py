"""Finds templates that fit a request, by its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.problem import has_errors
from plansmith.plan.refs import value_text
from plansmith.runs.template_book import TemplateBook
from plansmith.templates.template import Template
from plansmith_planner.language.words import synonyms, terms
from plansmith_planner.ranking.lexical import read_request

# Half of the words of both must be the same; with less it is a different task.
MIN_SIMILARITY: Final = 0.5
MOST: Final = 3
_FORMATS: Final = {
    "email": r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}",
    "uri": r"https?://[^\s<>\"'，。、）)]{1,500}",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
}
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_NUMBER: Final = re.compile(r"(?<![\w.-])-?\d{1,15}(?:\.\d{1,15})?(?![\w-]|\.\d)")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A template that fits a request: its score, the inputs found, and those missing."""

    template: Template
    score: float
    inputs: Mapping[str, Json]
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        return {
            "template": self.template.full_name,
            "goal": self.template.plan.goal,
            "score": self.score,
            "inputs": dict(self.inputs),
            "missing": list(self.missing),
        }


async def suggest(request: str, book: TemplateBook, *, most: int = MOST) -> list[Suggestion]:
    """Returns the templates without errors that resemble a request, best first.

    They are shown to the person; none is used automatically.
    """
    known = [each for name, each in (await book.all()).items() if "@" not in name]
    scored = [(_similarity(request, each), each) for each in known]
    found: list[Suggestion] = []
    for score, template in sorted(scored, key=lambda pair: -pair[0]):
        if score < MIN_SIMILARITY or len(found) == most:
            break
        if not has_errors(await book.problems(template)):
            inputs = found_inputs(request, template)
            missing = tuple(name for name in template.needed if name not in inputs)
            found.append(Suggestion(template, round(score, 3), inputs, missing))
    return found


def _similarity(request: str, template: Template) -> float:
    """Returns how much both texts have in common; values of parameters do not count."""
    given = [*map(value_text, found_inputs(request, template).values())]
    before = [value for form in template.properties.values() for value in _saved_values(form)]
    values, old = ({term for text in each for _, term in terms(text)} for each in (given, before))
    asked, earlier = read_request(request), read_request(template.request or template.plan.goal)
    words = {term: asked.terms.get(term, 0.0) for term in asked.surface.keys() - values}
    template_words = earlier.surface.keys() - old
    if not any(words.values()) or not template_words:
        return 0.0
    known = {term for _, term in terms(f"{template.request} {template.plan.goal}")}
    same = [term for term in words if not known.isdisjoint((term, *synonyms(term)))]
    fit = sum(words[term] for term in same) / sum(words.values())
    covered = len(template_words & words.keys()) / len(template_words)
    return 2 * fit * covered / (fit + covered) if fit + covered else 0.0


def found_inputs(request: str, template: Template) -> dict[str, Json]:
    """Returns the parameters whose value is found in the request, word for word."""
    found: dict[str, Json] = {}
    for name, form in template.properties.items():
        values = {value_text(each): each for each in _candidates(request, form, template)}
        if len(values) == 1:
            [found[name]] = values.values()
    return found


def _candidates(request: str, form: Mapping[str, Json], template: Template) -> Iterator[Json]:
    """Yields what in the request can be the value of a parameter, in the parameter's type."""
    options, kind = form.get("enum"), form.get("type")
    if isinstance(options, list):
        yield from (each for each in options if _occurs_in(value_text(each), request))
    elif str(form.get("format")) in _FORMATS:
        yield from re.findall(_FORMATS[str(form["format"])], request)
    elif kind == "integer":
        yield from (int(each) for each in _NUMBER.findall(request) if "." not in each)
    elif kind == "number":
        yield from map(float, _NUMBER.findall(request))
    elif kind == "string":
        for value in _saved_values(form):
            yield from _value_at_same_place(request, value, template.request)


def _saved_values(form: Mapping[str, Json]) -> list[str]:
    examples = form.get("examples")
    given = examples[:1] if isinstance(examples, list) else []
    return [value_text(each) for each in (form.get("default"), *given) if each is not None]


def _value_at_same_place(request: str, default: str, before: str) -> Iterator[str]:
    """Yields the text between the words that surrounded the value in the earlier request."""
    if _occurs_in(default, request):
        yield default
        return
    head, found, tail = before.partition(default)
    if not found or not default:
        return
    left, right = _WORD.findall(head)[-1:], _WORD.findall(tail)[:1]
    if not left and not right:
        return
    start = rf"(?:^|(?<![^\W_])){re.escape(left[0])}\s*" if left else r"^\s*"
    end = rf"\s*{re.escape(right[0])}" if right else r"[\s.?!。？！]*$"
    pattern = rf"{start}(?P<value>\S(?:[^\n]{{0,{80}}}?\S)?){end}"
    yield from (match["value"] for match in re.finditer(pattern, request, re.IGNORECASE))


def _occurs_in(word: str, request: str) -> bool:
    start = r"(?<!\w)" if word[:1].isascii() else ""
    end = r"(?!\w)" if word[-1:].isascii() else ""
    return bool(word) and bool(re.search(start + re.escape(word) + end, request, re.IGNORECASE))
