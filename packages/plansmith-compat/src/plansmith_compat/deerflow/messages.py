"""Messages of DeerFlow's graph, and the clarification of a topic in them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NoReturn, cast

from plansmith_planner.context.fence import fence

END: Final = "__end__"
_SPEAKERS: Final = frozenset({"coordinator", "planner"})
_MEMBERS: Final = frozenset(
    {"researcher", "coder", "analyst", "reporter", "background_investigator", "observation"}
)
_LANGGRAPH: Final = "langgraph.types"


class GraphMessage(dict[str, Any]):
    """A message as an object and as a dict, so that a graph of langgraph takes it too."""

    role: ClassVar[str] = "user"

    def __init__(
        self, content: str, name: str = "", tool_calls: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(role=self.role, content=content)
        if name:
            self["name"] = name
        self.tool_calls = list(tool_calls)

    @property
    def content(self) -> str:
        """What is said."""
        return str(self["content"])

    @property
    def name(self) -> str:
        """Who says it; empty for the person or the model itself."""
        return str(self.get("name", ""))


class HumanMessage(GraphMessage):
    """What a person says, or a node says to a model."""


class AIMessage(GraphMessage):
    """What a model says, and the tools it calls."""

    role: ClassVar[str] = "assistant"


@dataclass(frozen=True, slots=True)
class Command:
    """The next node, and what changes in the state."""

    goto: str = ""
    update: Mapping[str, Any] = field(default_factory=dict[str, Any])


class GraphInterrupt(Exception):
    """A node waits for a person: call it again with `interrupt_feedback` in the state."""

    def __init__(self, value: object) -> None:
        super().__init__(str(value))
        self.value = value


def command(goto: str, update: Mapping[str, Any]) -> Any:
    """Makes a command; langgraph's own in a program that has loaded langgraph."""
    loaded = sys.modules.get(_LANGGRAPH)
    kind: Any = getattr(loaded, "Command", Command)
    return kind(goto=goto, update=dict(update))


def interrupt(value: object) -> Any:
    """Waits for a person: langgraph's own interrupt in such a graph, else an exception."""
    loaded = sys.modules.get(_LANGGRAPH)
    if loaded is not None:
        return cast("Any", loaded).interrupt(value)
    return _raise(value)


def _raise(value: object) -> NoReturn:
    raise GraphInterrupt(value)


def get_message_content(message: object) -> str:
    """Returns the text of a message, an object or a dict, with the text of all its blocks."""
    if isinstance(message, dict):
        content = cast("dict[str, Any]", message).get("content")
    else:
        content = getattr(message, "content", "")
    return str(text_of_blocks(content) or content or "")


def text_of_blocks(content: object) -> str:
    """Returns the text of a content that is a list of blocks; empty if it is anything else."""
    blocks = cast("Sequence[Any]", content) if isinstance(content, list) else ()
    texts = [each if isinstance(each, str) else _field(each, "text") for each in blocks]
    return "".join(texts)


def role_of(message: object) -> str:
    """Returns the role of a message: `user`, `system`, …, or langchain's `human`, `ai`, `tool`."""
    return (_field(message, "role") or _field(message, "type")).lower()


def is_user_message(message: object) -> bool:
    """Whether a person wrote a message; what a node says in a person's role is not theirs."""
    named = _field(message, "name").lower()
    if named in _SPEAKERS | _MEMBERS:
        return False
    return role_of(message) in ("user", "human")


def spoken(messages: Sequence[object]) -> list[dict[str, str]]:
    """Returns messages for a model; what the team found is fenced as data."""
    found: list[dict[str, str]] = []
    for message in messages:
        text, named = get_message_content(message), _field(message, "name").lower()
        if not text:
            continue
        if is_user_message(message):
            found.append({"role": "user", "content": text})
        elif named in _MEMBERS or role_of(message) == "tool":
            found.append({"role": "user", "content": fence(named or "tool", text)})
        else:
            found.append({"role": "assistant", "content": text})
    return found


def _field(message: object, name: str) -> str:
    if isinstance(message, dict):
        return str(cast("dict[str, Any]", message).get(name) or "")
    return str(getattr(message, name, "") or "")


ROUNDS = 3


def needs_clarification(state: Mapping[str, Any]) -> bool:
    """Whether a question to the person is still open; the last one may be answered too."""
    rounds = state.get("clarification_rounds", 0)
    asked = 0 < rounds <= state.get("max_clarification_rounds", ROUNDS)
    done = state.get("is_clarification_complete", False)
    return bool(state.get("enable_clarification", False) and asked and not done)


def reconstruct_clarification_history(
    messages: Sequence[object], fallback_history: Sequence[str] = (), base_topic: str = ""
) -> list[str]:
    """Returns what the person said, in order; what was kept before, if the messages are gone."""
    found: list[str] = []
    for message in messages:
        text = get_message_content(message) if is_user_message(message) else ""
        if text and found[-1:] != [text]:
            found.append(text)
    return (
        found
        or [each for each in fallback_history if each]
        or [each for each in [base_topic] if each]
    )


def build_clarified_topic_from_history(history: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the topic with everything that was said to make it clear."""
    said = [each for each in history if each]
    if len(said) < 2:
        return "".join(said), said
    return f"{said[0]} - {', '.join(said[1:])}", said
