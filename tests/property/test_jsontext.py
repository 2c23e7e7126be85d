"""Reading JSON from any text: nothing else is raised, valid JSON stays itself, streams agree."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith.planner.parse.read import read_json
from plansmith.planner.parse.stream import JsonStream, steps_in

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


def _is_finite_utf8(value: Json) -> bool:
    return bool(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())


@given(SLOPPY | st.text(max_size=60))
def test_any_text_is_read_or_unreadable(text: str) -> None:
    with suppress(UnreadableText):
        assert _is_finite_utf8(read_json(text))


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_valid_json_reads_as_itself(value: Json, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    assert read_json(text) == json.loads(text)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_a_fenced_document_reads_as_itself(value: dict[str, Json]) -> None:
    assert read_json(f"Here:\n```json\n{json.dumps(value)}\n```\nDone [1].") == value


@given(STEPS, st.sampled_from(["json", "python", "fence", "commas"]), st.data())
def test_a_stream_reports_what_the_whole_text_holds(
    steps: list[dict[str, Json]], style: str, data: st.DataObject
) -> None:
    plan = {"title": "t", "steps": steps}
    text = {
        "json": json.dumps(plan, ensure_ascii=False),
        "python": repr(plan),
        "fence": f"See [1]:\n```json\n{json.dumps(plan, indent=1)}\n```",
        "commas": json.dumps(plan).replace("}", ",}").replace("{,}", "{}"),
    }[style]
    if style == "commas":
        assume(json.dumps(plan).count("}") == text.count(",}") + text.count("{}"))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    stream = JsonStream()

    items = [item for a, b in pairwise([0, *cuts, len(text)]) for item in stream.feed(text[a:b])]
    items.extend(stream.close())

    assert [item.value for item in items] == list(steps_in(read_json(text)))


@given(SLOPPY)
def test_a_stream_of_anything_raises_nothing(text: str) -> None:
    stream = JsonStream()
    for start in range(0, len(text), 7):
        stream.feed(text[start : start + 7])
    stream.close()
