"""Reading JSON from any text: nothing else is raised, valid JSON stays itself, streams agree."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith_planner.parse.read import JsonStream, read_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [*"{}[]()\"'`:,+/\\#*-.<> \n", "：", "，", "“", "”", "```json\n", "```", "<think>", "</think>",
     "true", "None", "NaN", "1", "2.5e", "key", "\\u12", "\\ud800", "//", "/*", "*/", "...", "f("]
)  # fmt: skip
SLOPPY = st.lists(PIECES, max_size=40).map("".join)
WORDS = st.text("abc xyz查询,.:()", max_size=12)
STEPS = st.lists(
    st.fixed_dictionaries({"id": WORDS, "inputs": st.dictionaries(WORDS, VALUES, max_size=3)}),
    max_size=4,
)


GAPS = st.sampled_from(["", "", " ", "\n\t", "\r\n  "])
DIGITS = st.text("0123456789", min_size=1, max_size=6) | st.integers(1, 320).map("9".__mul__)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.just("0") | DIGITS.map(lambda digits: f"7{digits}"),
    st.just("") | DIGITS.map(".{}".format),
    st.just("") | st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "E-"]), DIGITS),
)
ESCAPES = st.sampled_from(
    ['\\"', "\\\\", "\\/", "\\n", "\\u0000", "\\u00E9", "\\ud83d\\ude00", "\\ud83d", "\\uDE00",
     "```", "1e999"]
)  # fmt: skip
STRINGS = st.lists(ESCAPES | st.text(st.characters(min_codepoint=32), max_size=5).map(
    lambda text: text.replace("\\", "").replace('"', "")
), max_size=4).map(lambda parts: f'"{"".join(parts)}"')  # fmt: skip


def _document(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(st.builds("{}{}{}".format, GAPS, inner, GAPS), max_size=4)
    keys = st.sampled_from(['"a"', '"b"']) | STRINGS
    fields = st.lists(st.builds("{}{}{}:{}{}".format, GAPS, keys, GAPS, GAPS, inner), max_size=4)
    return items.map(lambda all_: f"[{','.join(all_)}]") | fields.map(
        lambda all_: f"{{{','.join(all_)}}}"
    )


LITERALS = st.sampled_from(["true", "false", "null", "NaN", "Infinity", "-Infinity"])
DOCUMENTS = st.recursive(LITERALS | NUMBERS | STRINGS, _document, max_leaves=12)


def _standard(text: str) -> Json:
    """What the standard decoder reads, without what JSON and UTF-8 cannot hold."""

    def finite(word: str) -> Json:
        return float(word) if math.isfinite(float(word)) else word

    value: Json = json.loads(text, parse_constant=lambda _: None, parse_float=finite)
    return _encodable(value)


def _encodable(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {str(_encodable(key)): _encodable(item) for key, item in value.items()}
    return value


def _is_finite_utf8(value: Json) -> bool:
    return bool(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())


@given(SLOPPY | st.text(max_size=60))
def test_any_text_is_read_or_unreadable(text: str) -> None:
    with suppress(UnreadableText):
        assert _is_finite_utf8(read_json(text))


@given(st.builds("{}{}{}".format, GAPS, DOCUMENTS, GAPS))
def test_every_well_formed_text_reads_as_the_standard_decoder_reads_it(text: str) -> None:
    # `repr` tells 1 from 1.0, 0.0 from -0.0 and the order of fields.
    assert repr(read_json(text)) == repr(_standard(text))


@pytest.mark.parametrize("levels", [1, 199, 200, 201, 202, 203, 400, 900])
def test_a_well_formed_text_of_many_levels_reads_as_itself(levels: int) -> None:
    value = read_json(
        '[{"a":' * (levels // 2)
        + "[" * (levels % 2)
        + "1"
        + "]" * (levels % 2)
        + "}]" * (levels // 2)
    )

    depth = 0
    while isinstance(value, (list, dict)):
        value, depth = value[0] if isinstance(value, list) else value["a"], depth + 1
    assert (depth, value) == (levels, 1)


@given(STEPS, st.booleans(), st.data())
def test_a_stream_reports_each_step_of_a_text_that_is_written_to_its_end(
    steps: list[dict[str, Json]], is_fenced: bool, data: st.DataObject
) -> None:
    plan = {"title": "t", "steps": steps}
    text = json.dumps(plan, ensure_ascii=False)
    if is_fenced:
        text = f"See [1]:\n```json\n{json.dumps(plan, indent=1)}\n```"
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    stream = JsonStream()

    found = [step for a, b in pairwise([0, *cuts, len(text)]) for step in stream.feed(text[a:b])]

    whole = read_json(text)
    assert isinstance(whole, dict)
    assert found == whole["steps"]


@given(SLOPPY)
def test_a_stream_of_anything_raises_nothing(text: str) -> None:
    stream = JsonStream()
    for start in range(0, len(text), 7):
        stream.feed(text[start : start + 7])
