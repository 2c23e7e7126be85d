from __future__ import annotations

from typing import Any

import pytest

from plansmith.plan.data import Json
from plansmith.ports import Message
from plansmith_planner.models.provider_output import (
    OutputMemory,
    is_closed,
    is_mode_refusal,
    opened,
    with_schema_text,
)


def test_a_memory_forgets_what_was_refused_last_of_all() -> None:
    memory = OutputMemory()
    for mode in memory.modes("m"):
        memory.refuse("m", mode)
    assert memory.modes("m") == ("text",)
    assert memory.modes("other") == ("json_schema", "tool", "text")


@pytest.mark.parametrize(
    ("status", "text", "mode", "expected"),
    [
        (400, "response_format is not supported", "json_schema", True),
        (400, "qwen does not support tools", "tool", True),
        (404, "No endpoints found that support tool use", "tool", True),
        (400, "`strict=False` on `output_type=NativeOutput(...)`", "json_schema", True),
        (400, "Invalid value for temperature", "json_schema", False),
        (503, "response_format", "json_schema", False),
        (None, "response_format", "json_schema", False),
        (400, "tools", "text", False),
    ],
)
def test_a_refusal_is_told_from_other_errors(
    status: int | None, text: str, mode: Any, expected: bool
) -> None:
    assert is_mode_refusal(status, text, mode) is expected


def test_objects_nothing_is_said_about_are_opened_and_the_given_schema_stays_as_it_is() -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {
            "free": {"type": "object"},
            "listed": {"type": "array", "items": {"anyOf": [{"type": "object"}, {"type": "null"}]}},
            "closed": {"type": "object", "additionalProperties": False},
            "data": {"const": {"type": "object"}},
        },
    }
    result: Any = opened(schema)
    properties = result["properties"]
    assert properties["free"] == {"type": "object", "additionalProperties": True}
    assert properties["listed"]["items"]["anyOf"][0]["additionalProperties"] is True
    assert properties["closed"]["additionalProperties"] is False
    assert properties["data"] == {"const": {"type": "object"}}
    assert "additionalProperties" not in result
    assert schema["properties"] != properties
    assert not is_closed(schema)


@pytest.mark.parametrize(
    ("messages", "roles"),
    [
        ([Message("system", "s"), Message("user", "u")], ["system", "user"]),
        ([Message("user", "u")], ["user"]),
        ([Message("assistant", "a"), Message("user", "u")], ["user", "assistant", "user"]),
        ([], ["user"]),
    ],
)
def test_a_schema_in_words_goes_to_the_front(messages: list[Message], roles: list[str]) -> None:
    told = with_schema_text(messages, {"type": "object"})
    assert [message.role for message in told] == roles
    assert '{"type":"object"}' in told[0].text
