"""Questions of agents: what a person is asked, and what is never asked."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.data import flaws
from plansmith_connect.a2a.messages import add, need_of, question_of, result_of


def asking(*parts: Any, state: str = "INPUT_REQUIRED", **message: Any) -> dict[str, Any]:
    said = {"message": {**message, "parts": list(parts)}} if parts else {}
    return {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **said}}


def need(task: Any, *links: str) -> Any:
    return need_of(task, who="desk", times=0, links=links)


def test_a_question_without_words_still_says_who_waits() -> None:
    assert need(asking()).message.startswith("desk waits for an answer")
    assert need(asking(state="AUTH_REQUIRED")).message == "desk wants you to sign in"


def test_values_in_a_question_that_are_no_form_are_shown() -> None:
    asked = need(asking({"text": "Which?"}, {"data": {"rows": [1]}}))
    assert asked.message == 'Which?\n{"rows": [1]}'


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
    assert need(asking({"text": "?"}, {"data": {"schema": schema}})).schema is None


@pytest.mark.parametrize("options", [[], ["a", 1], ["a", ""], ["x"] * 51, ["x" * 300], "ab"])
def test_options_that_are_no_list_of_words_are_left_out(options: Any) -> None:
    assert need(asking({"text": "?"}, {"data": {"options": options}})).options == ()


@pytest.mark.parametrize(
    ("parts", "link"),
    [
        ([{"text": "go to https://in.example/a?b=c."}], "https://in.example/a?b=c"),
        ([{"text": "sign in"}, {"url": "https://in.example"}], "https://in.example"),
        ([{"text": "sign in"}, {"data": {"to": "https://in.example"}}], "https://in.example"),
        ([{"text": "sign in"}], "https://card.example"),
        ([{"text": "javascript:alert(1) file:///etc/passwd"}], "https://card.example"),
        ([{"text": "https://me:pw@in.example"}], "https://card.example"),
    ],
)
def test_a_sign_in_has_the_first_address_that_a_person_may_follow(parts: Any, link: str) -> None:
    assert need(asking(*parts, state="AUTH_REQUIRED"), "https://card.example").link == link


def test_a_question_is_told_from_another_by_its_id_or_its_words() -> None:
    assert question_of(asking({"text": "a"})) != question_of(asking({"text": "b"}))
    assert question_of(asking({"text": "a"}, messageId="m")) == "m"


TEXTS = st.text(max_size=5)
PARTS = st.one_of(
    st.builds(lambda text: {"text": text}, TEXTS),
    st.builds(lambda text: {"data": {text: text}}, TEXTS),
    st.builds(
        lambda raw, name, kind: {
            "raw": base64.b64encode(raw).decode(),
            "filename": name,
            "mediaType": kind,
        },
        st.binary(max_size=20),
        TEXTS,
        st.sampled_from(["text/csv", "x"]),
    ),
    st.builds(lambda text: {"url": f"https://{text}"}, TEXTS),
)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(PARTS, max_size=3), st.booleans())))
def test_whatever_an_agent_makes_its_result_has_the_one_shape_and_loses_nothing_unsaid(
    made: list[tuple[str, list[Any], bool]],
) -> None:
    task: Any = {}
    for name, parts, append in made:
        add(
            task,
            {"taskId": "t", "artifact": {"artifactId": name, "parts": parts}, "append": append},
        )
    add(task, {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}})
    result: Any = result_of(task, binary_bytes=30)
    assert list(result) == ["text", "message", "data", "files", "citations", "notes"]
    assert not list(flaws(result))
    kept = [part for each in task.get("artifacts", []) for part in each["parts"]]
    assert len(result["files"]) == len([part for part in kept if "raw" in part or "url" in part])
    dropped = [each for each in result["files"] if "note" in each]
    assert len(result["notes"]) == len(dropped)
    whole = [each["size"] for each in result["files"] if "base64" in each or "text" in each]
    assert sum(whole) <= 30
    assert len(whole) + len(dropped) == len([part for part in kept if "raw" in part])
