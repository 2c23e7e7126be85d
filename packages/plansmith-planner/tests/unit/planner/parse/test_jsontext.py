"""`read_json`: which text is the value, and what badly written JSON means."""

from __future__ import annotations

import contextlib
import json

import pytest

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith_planner.parse.read import JsonStream, read_json

READINGS: list[tuple[str, str, Json]] = [
    ("a whole document", '{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
    ("a byte order mark", '\ufeff{"a": 1}', {"a": 1}),
    ("a backtick fence", 'Sure!\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
    ("a tilde fence", '~~~\n{"a": 1}\n~~~', {"a": 1}),
    ("an unclosed fence", '```json\n{"a": 1}', {"a": 1}),
    ("a fence with an ill-formed value", "```\n{'a': None,}\n```", {"a": None}),
    ("a tuple in a fence", "the pair\n```python\n(1, 2)\n```", [1, 2]),
    ("prose around", 'As in [1], use {"a": 1} (see [2]).', {"a": 1}),
    ("a footnote beside the value", 'see [1] {"a": 1} [2]', {"a": 1}),
    ("a stray bracket in prose", '[note to self: {"a": 1}', {"a": 1}),
    ("a placeholder before the value", 'Fill {name}: {"a": {"b": [true]}}', {"a": {"b": [True]}}),
    ("a thought before the value", '<think>{"a": 0}?</think>{"a": 1}', {"a": 1}),
    ("a thought that never opened", 'try {"a": 0}</think>{"a": 1}', {"a": 1}),
    ("a thought that never ended", '<think>so {"a": 1}', {"a": 1}),
    ("the first of two fenced values", '```\n{"a": 1}\n```\nthen\n```\n{"a": 2}\n```', {"a": 1}),
    ("a fenced value after an example", 'like {"a": 0}:\n```json\n{"a": 1}\n```', {"a": 1}),
    ("lines of JSON", '{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
    ("concatenated objects", '{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
    ("a second attempt at an array", '[{"a": 1}][{"a": 2}]', [{"a": 2}]),
    ("fields without braces", '"a": 1, "b": [2]', {"a": 1, "b": [2]}),
    ("single quotes", "{'a': 'it\\'s', 'b': 'don't'}", {"a": "it's", "b": "don't"}),
    ("curly quotes", "{“a”: ‘b’}", {"a": "b"}),
    ("backticks", "{`a`: `b`}", {"a": "b"}),
    ("triple quotes", '{"a": """x "y" z"""}', {"a": 'x "y" z'}),
    ("doubled quotes", '{""a"": ""b""}', {"a": "b"}),
    ("unquoted keys and values", "{a: b c, d_e: [f, 2]}", {"a": "b c", "d_e": ["f", 2]}),
    ("an unquoted address", "{a: https://x.y/z?q=1}", {"a": "https://x.y/z?q=1"}),
    ("comments", '{"a": 1, // one\n# two\n"b": /* b */ 2}', {"a": 1, "b": 2}),
    ("a comment with a bracket", "[1, // no ]\n 2]", [1, 2]),
    ("trailing commas", '{"a": [1, 2,],}', {"a": [1, 2]}),
    ("double commas", '{"a": [1,, 2],, "b": 3}', {"a": [1, 2], "b": 3}),
    ("missing commas", '{"a": "x" "b": [1 2]\n"c": {}}', {"a": "x", "b": [1, 2], "c": {}}),
    ("a missing comma after a number", "{a: 3 b: 4}", {"a": 3, "b": 4}),
    ("a missing colon", '{"a" "b", "c" 1}', {"a": "b", "c": 1}),
    ("a missing colon before a word",
        '{"a" true, "b" None, "c" -1.5, "d" two words, "e"null}',
        {"a": True, "b": None, "c": -1.5, "d": "two words", "e": None}),
    ("a missing colon before a list", '{"a" {"b" true}, "c"[1]}', {"a": {"b": True}, "c": [1]}),
    ("a missing colon before an address", '{"a" https://x.y/z}', {"a": "https://x.y/z"}),
    ("a missing colon after single quotes", "{'a' true, 'b' x}", {"a": True, "b": "x"}),
    ("a missing colon after an unquoted key", "{a true, b {c 1}}", {"a": True, "b": {"c": 1}}),
    ("a missing colon in a text that was cut off", '{"a" tru', {"a": "tru"}),
    ("missing colons and commas",
        '{"a" true "b" "x" "c" 1 "d": y}', {"a": True, "b": "x", "c": 1, "d": "y"}),
    ("literals without commas", '["a" 1 true None "b"]', ["a", 1, True, None, "b"]),
    ("a quoted word in a key", '{"the "a" key": 1, "b": 2}', {'the "a" key': 1, "b": 2}),
    ("inches in a key", '{"6" pipe": 1, "8" pipe": 2}', {'6" pipe': 1, '8" pipe': 2}),
    ("an arrow for a colon", '{"a" => 1, b = 2}', {"a": 1, "b": 2}),
    ("a thin arrow for a colon", '{"a" -> 1, b -> 2}', {"a": 1, "b": 2}),
    ("an equals sign for a colon", '{"a"= 1, "b" = true}', {"a": 1, "b": True}),
    ("Python literals", "{'a': True, 'b': None, 'c': (1, 2)}", {"a": True, "b": None, "c": [1, 2]}),
    ("a Python set", "{'a', 'b'}", ["a", "b"]),
    ("a grouped scalar", '{"a": (1)}', {"a": 1}),
    ("JavaScript words", "{a: undefined, b: NaN, c: -Infinity}", {"a": None, "b": None, "c": None}),
    ("joined strings", '{"a": "x" + "y" +\n\'z\'}', {"a": "xyz"}),
    ("a regular expression", "{a: /x[1-9]+/}", {"a": "/x[1-9]+/"}),
    ("a database call", '{"a": ObjectId("1"), "b": NumberLong(2)}', {"a": "1", "b": 2}),
    ("a callback around", 'done({"a": [1]});', {"a": [1]}),
    ("an ellipsis", "[1, 2, ...]", [1, 2]),
    ("full-width punctuation", "｛“a”：［1，2］，“b”：“x，y”｝", {"a": [1, 2], "b": "x，y"}),
    ("Chinese text in strings", "{'a': '查询（城市：北京，上海）',}",
        {"a": "查询（城市：北京，上海）"}),
    ("missing closers", '{"a": [{"b": 1}, {"c": [2', {"a": [{"b": 1}, {"c": [2]}]}),
    ("extra closers", '{"a": [1]}]}}', {"a": [1]}),
    ("one closer too many inside", '[{"a": {"b": 1}}}, {"a": 2}]', [{"a": {"b": 1}}, {"a": 2}]),
    ("a lost closer between items", '[{"a": 1, {"a": 2}]', [{"a": 1}, {"a": 2}]),
    ("a lost bracket before a key", '{"a": [1, 2, "b": 3}', {"a": [1, 2], "b": 3}),
    ("mismatched closers", '{"a": [1, 2}, "b": [3]}', {"a": [1, 2], "b": [3]}),
    ("a premature closer", '{"a": 1}, "b": 2}', {"a": 1, "b": 2}),
    ("a lost opening brace", '["a": 1}]', [{"a": 1}]),
    ("a value that was left out", '{"a": , "b": 1}', {"a": "", "b": 1}),
    ("a value that was cut off", '{"b": 1, "a":', {"b": 1, "a": None}),
    ("a string that was cut off", '{"a": "x, y: z', {"a": "x, y: z"}),
    ("an escape that was cut off", '{"a": "x\\u26', {"a": "x"}),
    ("a number that was cut off", "[1, 2e", [1, 2]),
    ("raw line breaks", '{"a": "x\ny\tz",}', {"a": "x\ny\tz"}),
    ("LaTeX", r'{"a": "$\alpha \frac{1}{2} \{x\}$",}', {"a": r"$\alpha \frac{1}{2} \{x\}$"}),
    ("a pattern's classes", r'{"a": "\d+\.\w",}', {"a": r"\d+\.\w"}),
    ("inner quotes", '{"a": "he said "no" twice", "b": 1}', {"a": 'he said "no" twice', "b": 1}),
    ("inner quotes before a comma",
        '{"a": "the "x", not y", "b": 1}', {"a": 'the "x", not y', "b": 1}),
    ("an inner object",
        '{"a": "got {"b": 1}, sorry", "c": 2}', {"a": 'got {"b": 1}, sorry', "c": 2}),
    ("a lost closing quote", '{"a": "x, "b": "y"}', {"a": "x", "b": "y"}),
    ("a lost closing quote before a brace", '[{"a": "x}, {"a": "y"}]', [{"a": "x"}, {"a": "y"}]),
    ("a lost opening quote", '{"a": x, y", "b": 1}', {"a": "x, y", "b": 1}),
    ("a lost quote at a key's end", '{"a: 1, "b": 2}', {"a": 1, "b": 2}),
    ("a lost quote at a key's end before a bracket in a string",
        '{"a: "[1] x", "b": {"c: "{y}"}}', {"a": "[1] x", "b": {"c": "{y}"}}),
    ("a lost quote at a key's end before a list", '{"a: ["x", "y"]}', {"a": ["x", "y"]}),
    ("a colon inside a key's quotes", '{"a:" [1], "b:" {"c": 2}}', {"a:": [1], "b:": {"c": 2}}),
    ("a text escaped once more", r'{\"a\": \"b \\\"c\\\"\"}', {"a": 'b "c"'}),
    ("escaped quotes in prose",
        'use [\\"x\\"]\n```json\n{"a": "\\"b\\""}\n```', {"a": '"b"'}),
    ("odd numbers", "[.5, 1., 1_000, 007, 1.2.3]", [0.5, 1.0, 1000, "007", "1.2.3"]),
    ("grouped digits in a field", '{"a": 1,234.5, "b": 2}', {"a": 1234.5, "b": 2}),
    ("a lone surrogate", '{"a": "x\\ud800y"}', {"a": "x\ufffdy"}),
    ("a surrogate pair", "{'a': '\\ud83d\\ude00'}", {"a": "😀"}),
    ("a number beyond floats", "[1e999]", ["1e999"]),
    ("a number beyond floats in many digits", f"[{'1' * 250}e99]", ["1" * 250 + "e99"]),
    ("the largest number", "[1.7976931348623157e308]", [1.7976931348623157e308]),
    ("an integer of many digits", f"[{'1' * 400}]", [int("1" * 400)]),
    ("a field that is given twice", '{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
    ("words for numbers", "[NaN, Infinity, 1]", [None, None, 1]),
    ("a bare word", "hello", "hello"),
    ("a bare number", " -4,", -4),
    ("a list without brackets", "1, 2, 3", [1, 2, 3]),
    ("a lone opener", "{", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"), [row[1:] for row in READINGS], ids=[r[0] for r in READINGS]
)
def test_a_text_is_read_as_what_it_means(text: str, value: Json) -> None:
    assert json.dumps(read_json(text)) == json.dumps(value)


@pytest.mark.parametrize(
    "text",
    ["", " \n", "\ufeff", "]", "}", "*", "I cannot help with that.", "Sorry!\nNo plan today."],
)
def test_a_text_without_a_value_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableText):
        read_json(text)


def test_the_value_that_fits_best_is_chosen() -> None:
    text = 'First {"a": 1}, or rather {"steps": []}, or {"b": 2}.'

    assert read_json(text, fits=lambda value: isinstance(value, dict) and "steps" in value) == {
        "steps": []
    }


@pytest.mark.parametrize("piece", ["[", '{"a":', '{"a":[', "(["])
def test_endless_nesting_is_unreadable_and_does_not_overflow(piece: str) -> None:
    with pytest.raises(UnreadableText):
        read_json(piece * 100_000)


@pytest.mark.parametrize(
    "piece",
    [
        *('"', "'", '{"', '["', '"a" ', "\\", "`", "}", ",", "[1] ", '{"a":"b" c', '"a" x '),
        *("1 true ", "{a 1}", "```{ ", '{"a: ['),
    ],
)
def test_endless_repeats_come_to_an_end(piece: str) -> None:
    with contextlib.suppress(UnreadableText):
        read_json(piece * 2_000)


STEPS: list[dict[str, Json]] = [
    {"id": "a", "tool": "x", "inputs": {"q": "one } two"}},
    {"id": "b", "tool": "y", "inputs": {"list": [1, {"deep": []}]}},
]


def fed(text: str, size: int = 1) -> list[tuple[int, dict[str, Json]]]:
    """Each step with the number of characters that had arrived when it was reported."""
    stream = JsonStream()
    stops = range(size, len(text) + size, size)
    return [(end, step) for end in stops for step in stream.feed(text[end - size : end])]


@pytest.mark.parametrize("key", ["steps", "plan", "tasks", "execution_plan", "calls"])
def test_a_step_is_reported_with_its_last_brace(key: str) -> None:
    text = json.dumps({"sources": [{"id": 1}], key: STEPS, "note": "n"})

    assert fed(text) == [
        (text.index(json.dumps(step)) + len(json.dumps(step)), step) for step in STEPS
    ]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(STEPS),
        "Here is [1] the plan:\n```json\n" + json.dumps({"steps": STEPS}, indent=2) + "\n```",
        '<think>maybe {"steps": [{"id": "no"}]}</think>' + json.dumps({"steps": STEPS}),
        json.dumps({"plan": {"goal": "g", "steps": STEPS}}),
    ],
    ids=["array", "fence", "thought", "wrapper"],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_texts_as_models_write_them_stream(text: str, size: int) -> None:
    assert [step for _, step in fed(text, size)] == STEPS


@pytest.mark.parametrize(
    "text", ['{"answer": "hello {"}', "{steps: [{'id': 'a'}]}", '{"steps": [/* {"id": "a"} */]}']
)
def test_a_text_without_steps_in_exact_json_reports_nothing(text: str) -> None:
    assert fed(text) == []
