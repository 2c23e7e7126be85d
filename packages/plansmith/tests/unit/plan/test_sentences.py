"""Sentences: every code has a text in every language, and nothing else is in the table."""

from __future__ import annotations

import ast
import copy
import functools
import json
import pickle
import re
from pathlib import Path

import pytest

import plansmith
from plansmith import errors
from plansmith.plan.events import ReviewAsked, RunFinished
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import (
    LANGUAGES,
    Sentence,
    check_sentence,
    in_language,
    joined,
    language_of,
    read_sentence,
    sentence_texts,
)

SOURCE = Path(plansmith.__file__).parent
TEXTS = sentence_texts()


def places(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@functools.cache  # and not at import: every run of tests would wait for it
def calls() -> list[tuple[str, ast.Call]]:
    """Every place of the source that makes a sentence."""
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in SOURCE.rglob("*.py")
        if re.search("Sentence|own_text", text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and name_of(node.func) in ("Sentence", "own_text")
    ]


def codes_of(node: ast.expr) -> list[str] | None:
    """The codes an expression can be; those of an f-string are all that begin alike."""
    match node:
        case ast.Constant(value=str(code)):
            return [code]
        case ast.IfExp(body=body, orelse=other):
            return [*(codes_of(body) or []), *(codes_of(other) or [])]
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), _]):
            return [code for code in TEXTS if code.startswith(start)]
        case _:
            return None


def test_every_code_has_a_text_in_every_language_with_the_same_fields() -> None:
    for code, texts in TEXTS.items():
        assert set(texts) == set(LANGUAGES), code
        assert all(each.strip() or code == "text.empty" for each in texts.values()), code
        assert len({frozenset(places(each)) for each in texts.values()}) == 1, code


def test_every_sentence_of_the_source_has_a_text_and_gives_its_fields() -> None:
    for where, node in calls():
        for code in codes_of(node.args[0]) or ():
            assert code in TEXTS, f"{where}: {code}"
            given = {each.arg for each in node.keywords}
            if None not in given:  # `**fields` are looked at where they are used
                assert given == places(TEXTS[code]["en"]), f"{where}: {code}"


# Said by earlier releases only; their journals hold the codes.
OLD = {"shape.read_as_once"}


def test_no_text_is_without_a_use() -> None:
    used = {code for _, node in calls() for code in codes_of(node.args[0]) or ()}
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    # The command line, shown plans and reports take the rest of a code as the key of a text.
    own = {code for code in TEXTS if code.startswith(("cli.", "report.", "show."))}
    rest = {code for code in TEXTS.keys() - used - own - OLD if f'"{code}"' not in source}
    assert not rest


# Errors that programmers read, or that stand where no sentence can be made.
FOR_PROGRAMS = (
    *("compat/", "testing/", "programs/parts/", "arguments.py", "files.py"),
    *("runs/callbacks.py", "runs/service.py", "engine/executor.py"),
    *("plan/asking.py", "plan/fold.py", "plan/value_types.py"),
    *("adapters/models/recorded.py", "adapters/models/scripted.py"),
)


def test_what_an_error_tells_people_is_a_sentence() -> None:
    names = {name for name, each in vars(errors).items() if isinstance(each, type)}
    words = re.compile(r"(?!pip |plansmith )[A-Za-z']+,? [a-z']+,? [a-z']+")
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {part.value}"
        for path in SOURCE.rglob("*.py")
        if not str(path.relative_to(SOURCE)).startswith(FOR_PROGRAMS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and name_of(node.func) in names
        for given in [*node.args, *(each.value for each in node.keywords)]
        for part in getattr(given, "values", [given])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        if words.match(part.value.strip())
    ]
    assert not found, "\n".join(found)


def test_a_sentence_is_its_english_text_and_can_be_said_in_chinese() -> None:
    said = Sentence("end.failed", steps=["a", "b"])
    assert said == "failed: a, b"
    assert in_language(said, "zh-CN") == "失败：a、b"
    assert in_language(said, "de-AT") == "failed: a, b"
    assert in_language("as somebody wrote it", "zh") == "as somebody wrote it"


def test_sentences_are_made_of_sentences() -> None:
    why = Sentence("cause.advice")
    said = joined([why, "", Sentence("end.same_plan")])
    assert said == "a step asks for another plan; planning again gave the same plan"
    assert in_language(said, "zh") == "有步骤要求换一个计划；重新计划得到同样的计划"
    assert joined([]) == ""
    assert joined([why]) is why


def test_very_many_texts_become_one_that_can_be_shown_and_stored() -> None:
    parts = [Sentence("end.failed", steps=[str(number)]) for number in range(3_000)]
    ended = RunFinished(status="failed", reason=joined(parts))
    assert ended.reason == "; ".join(parts)
    assert RunFinished.from_json(ended.to_json()) == ended
    assert in_language(ended.reason, "zh").count("；") == 2_999


def test_numbers_are_grouped_and_braces_in_a_value_stay_as_they_are() -> None:
    assert Sentence("ps.more_problems", count=12000) == "and 12,000 more problems"
    assert Sentence("end.no_plan", reason="{reason} {steps}").endswith(": {reason} {steps}")


def test_a_sentence_is_stored_as_its_code_and_fields_and_read_back() -> None:
    body = RunFinished(
        status="failed", reason=Sentence("end.no_plan", reason=Sentence("ps.no_plan"))
    )
    stored = json.loads(json.dumps(body.to_json()))
    assert stored["reason"] == {"code": "end.no_plan", "fields": {"reason": {"code": "ps.no_plan"}}}
    read = RunFinished.from_json(stored)
    assert read == body
    assert in_language(read.reason, "zh") == "没有得到计划：没有计划"
    assert body.shown_json()["reason"] == "no plan could be made: no plan"
    assert body.shown_json("zh")["reason"] == "没有得到计划：没有计划"


def test_the_plain_sentence_of_an_earlier_release_stays_as_it_is() -> None:
    stored = {"hash": "h", "reasons": ["n changes something with note"]}
    read = ReviewAsked.from_json(stored)
    assert read.to_json() == stored
    assert in_language(read.reasons[0], "zh") == "n changes something with note"


def test_a_sentence_of_a_newer_release_is_shown_by_its_code_and_kept_as_it_is() -> None:
    stored = {"status": "done", "reason": {"code": "end.later", "fields": {"n": 3, "who": "ada"}}}
    read = RunFinished.from_json(stored)
    assert read.to_json() == stored
    assert read.reason == "end.later (3, ada)"
    fewer = RunFinished.from_json({"status": "done", "reason": {"code": "end.failed"}})
    assert fewer.reason == "failed: "


@pytest.mark.parametrize(
    "reason",
    [
        {"fields": {}},
        {"code": 3},
        {"code": "end.failed", "fields": []},
        {"code": "end.failed", "fields": {"steps": {"a": 1}}},
        {"code": "end.failed", "more": 1},
        {"code": "end.failed", "fields": {"steps": [{"code": "x", "fields": {"y": {}}}]}},
        ["end.failed"],
        None,
        7,
    ],
)
def test_whatever_else_stands_in_the_place_of_a_text_is_refused(reason: object) -> None:
    with pytest.raises(ValueError, match=r"text|code|str"):
        RunFinished.from_json({"status": "done", "reason": reason})


def test_a_field_cannot_bring_in_a_field_of_the_sentence_around_it() -> None:
    hostile = Sentence("step.denied", step="{code} {fields} %s \u202e")
    assert hostile == "{code} {fields} %s \u202e was denied"


def test_a_sentence_survives_copies() -> None:
    said = Sentence("end.failed", steps=["a"])
    for again in (copy.deepcopy(said), pickle.loads(pickle.dumps(said))):
        assert isinstance(again, Sentence)
        assert (again, again.code, again.fields) == (said, said.code, said.fields)
    assert isinstance(str(said), Sentence)


def test_a_problem_is_told_in_the_language_of_the_reader() -> None:
    message, hint = Sentence("unknown.tool", name="seach"), Sentence("hint.upgrade")
    found = problem("PS101", message, hint=hint, step="a")
    assert found.message == "there is no tool called 'seach'"
    assert found.line("zh") == ("错误 PS101：a：没有名为“seach”的工具（请升级 Plansmith）")
    assert Problem.model_validate(found.to_json()) == found
    assert found.to_json()["message"] == {"code": "unknown.tool", "fields": {"name": "seach"}}


@pytest.mark.parametrize(
    ("locale", "language"), [("zh-CN", "zh"), ("ZH_TW", "zh"), ("en-GB", "en"), ("", "en")]
)
def test_a_locale_without_texts_reads_english(locale: str, language: str) -> None:
    assert language_of(locale) == language


def test_sentences_that_are_very_deep_in_one_another_are_refused() -> None:
    reason: dict[str, object] = {"code": "end.same_plan"}
    for _ in range(500):
        reason = {"code": "text.both", "fields": {"first": reason, "then": "x"}}
    with pytest.raises(ValueError, match="too deep"):
        RunFinished.from_json({"status": "failed", "reason": reason})


def _deep(levels: int) -> object:
    value: object = {"code": "hint.none_known"}
    for _ in range(levels):
        value = {"code": "ps.quoted", "fields": {"text": value}}
    return value


@pytest.mark.parametrize(
    "value",
    [
        7,
        None,
        ["hint.none_known"],
        {},
        {"code": 1},
        {"code": "ps.quoted", "fields": None},
        {"code": "ps.quoted", "fields": ["a"]},
        {"code": "ps.quoted", "fields": {"text": {"no": "code"}}},
        {"code": "ps.quoted", "fields": {}, "more": 1},
        _deep(60),
    ],
)
def test_a_stored_sentence_is_refused_when_it_is_checked_as_when_it_is_read(value: object) -> None:
    for read in (read_sentence, check_sentence):
        with pytest.raises(ValueError, match=r"text|deep"):
            read(value)


@pytest.mark.parametrize(
    "value", ["words", {"code": "hint.none_known"}, {"code": "of.later", "fields": {"n": [1, "a"]}}]
)
def test_a_stored_sentence_that_is_read_passes_the_check(value: object) -> None:
    assert read_sentence(value)
    assert check_sentence(value)
