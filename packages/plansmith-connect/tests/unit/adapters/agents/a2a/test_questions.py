"""Questions of agents: what a person is asked, and what is never asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.data import flaws
from plansmith_connect.a2a.messages import (
    Artifact,
    ArtifactNews,
    Message,
    Part,
    State,
    StatusNews,
    Task,
    add,
    answer_parts,
    need_of,
    question_of,
    task_result,
)


def asking(*parts: Part, state: State = State.INPUT) -> Task:
    return Task("t", "c", state, Message("m", parts))


def need(task: Task, *links: str) -> Any:
    return need_of(task, who="desk", times=0, links=links)


def test_a_question_without_words_still_says_who_waits() -> None:
    assert need(Task("t", "c", State.INPUT)).message.startswith("desk waits for an answer")
    assert need(Task("t", "c", State.AUTH)).message == "desk wants you to sign in"


def test_values_in_a_question_that_are_no_form_are_shown() -> None:
    assert need(asking(Part(text="Which?"), Part(data={"rows": [1]}))).message == (
        'Which?\n{"rows": [1]}'
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://evil.example/schema"},
        {"properties": {"a": {"$ref": "#/x"}}},
        {"type": "no such type"},
        {"enum": ["x" * 5000]},
        {},
        "text",
    ],
)
def test_a_schema_that_would_be_fetched_or_is_none_is_left_out(schema: Any) -> None:
    assert need(asking(Part(text="?"), Part(data={"schema": schema}))).schema is None


@pytest.mark.parametrize("options", [[], ["a", 1], ["a", ""], ["x"] * 51, ["x" * 300], "ab"])
def test_options_that_are_no_list_of_words_are_left_out(options: Any) -> None:
    assert need(asking(Part(text="?"), Part(data={"options": options}))).options == ()


@pytest.mark.parametrize(
    ("parts", "link"),
    [
        ((Part(text="go to https://in.example/a?b=c."),), "https://in.example/a?b=c"),
        ((Part(text="sign in"), Part(url="https://in.example")), "https://in.example"),
        ((Part(text="sign in"), Part(data={"to": "https://in.example"})), "https://in.example"),
        ((Part(text="sign in"),), "https://card.example"),
        ((Part(text="javascript:alert(1) file:///etc/passwd"),), "https://card.example"),
        ((Part(text="https://me:pw@in.example"),), "https://card.example"),
    ],
)
def test_a_sign_in_has_the_first_address_that_a_person_may_follow(
    parts: tuple[Part, ...], link: str
) -> None:
    assert need(asking(*parts, state=State.AUTH), "https://card.example").link == link


def test_a_question_is_told_from_another_by_its_id_or_its_words() -> None:
    first, second = Task("t", "c", State.INPUT, Message("", (Part(text="a"),))), Task("t", "c")
    second.state, second.message = State.INPUT, Message("", (Part(text="b"),))
    assert question_of(first) != question_of(second)
    assert question_of(asking(Part(text="a"))) == "m"


def test_an_answer_goes_as_text_or_data_or_json() -> None:
    assert answer_parts("yes", as_data=True) == [Part(text="yes")]
    assert answer_parts({"n": 1}, as_data=True) == [Part(data={"n": 1})]
    [part] = answer_parts([2**60], as_data=False)
    assert json.loads(part.text or "") == [2**60]


TEXTS = st.text(max_size=5)
PARTS = st.one_of(
    st.builds(Part, text=TEXTS),
    st.builds(Part, data=st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS, max_size=2)),
    st.builds(
        Part, raw=st.binary(max_size=20), name=TEXTS, kind=st.sampled_from(["text/csv", "x"])
    ),
    st.builds(Part, url=TEXTS.map(lambda text: f"https://{text}")),
)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(PARTS, max_size=3), st.booleans())))
def test_whatever_an_agent_makes_its_result_has_the_one_shape_and_loses_nothing_unsaid(
    made: list[tuple[str, list[Part], bool]],
) -> None:
    task = Task("t", "c")
    for name, parts, append in made:
        add(task, ArtifactNews("t", "c", Artifact(name, parts=list(parts)), append))
    add(task, StatusNews("t", "c", State.COMPLETED))
    result: Any = task_result(task, binary_bytes=30)
    assert list(result) == ["text", "message", "data", "files", "citations", "notes"]
    assert not list(flaws(result))
    kept = [part for each in task.artifacts.values() for part in each.parts]
    raws = [part for part in kept if part.raw is not None]
    assert len(result["files"]) == len([part for part in kept if part.raw is not None or part.url])
    dropped = [each for each in result["files"] if "note" in each]
    assert len(result["notes"]) == len(dropped)
    whole = [each["size"] for each in result["files"] if "base64" in each or "text" in each]
    assert sum(whole) <= 30
    assert len(whole) + len(dropped) == len(raws)
