"""A model with scripted answers, for tests and demonstrations."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from plansmith.errors import ModelFailed, ScriptMismatch
from plansmith.ports import ArgumentsDelta, Delta, Message, ModelDone, Prompt, TextDelta, Usage

Expectation = str | Callable[[Sequence[Message]], bool]


@dataclass(frozen=True, slots=True)
class Answer:
    """One scripted answer of a `ScriptedModel`.

    Attributes:
        says: Text, a JSON value, or a failure to raise.
        expects: A text that the prompt must contain, or a function that must return True for it.
        tool: Makes the answer a call of this tool.
        chunk: How many characters a piece has.
        usage: The tokens that it is said to take.

    Examples:
        >>> from plansmith.testing import Answer
        >>> answer = Answer({"decision": "plan"}, expects="order bolts")
    """

    says: object
    expects: Expectation | None = None
    tool: str = ""
    chunk: int = 20
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """The text that is streamed."""
        return self.says if isinstance(self.says, str) else json.dumps(self.says)

    def fits(self, messages: Sequence[Message]) -> bool:
        """Whether the prompt is the expected one."""
        if self.expects is None:
            return True
        if isinstance(self.expects, str):
            return any(self.expects in message.text for message in messages)
        return self.expects(messages)


class ScriptedModel:
    """Gives its answers in order. An unexpected call, or an answer left over, is an error.

    Examples:
        >>> from plansmith import Plansmith
        >>> from plansmith.testing import ScriptedModel
        >>> plan = {"goal": "Greet", "steps": [{"id": "hello", "question": "Who are you?"}]}
        >>> model = ScriptedModel({"decision": "plan"}, plan)
        >>> run = await Plansmith(model).plan("Greet me")
        >>> run.plan.goal
        'Greet'
        >>> model.finish()  # every answer was asked for
    """

    def __init__(self, *answers: object, name: str = "scripted") -> None:
        self._name = name
        self._answers = [each if isinstance(each, Answer) else Answer(each) for each in answers]
        self.prompts: list[list[Message]] = []

    @property
    def name(self) -> str:
        """The given name."""
        return self._name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the next answer in pieces."""
        self.prompts.append(list(prompt.messages))
        answer = self._next(prompt.messages)
        if isinstance(answer.says, ModelFailed):
            raise answer.says
        text = answer.text
        for start in range(0, len(text), answer.chunk):
            piece = text[start : start + answer.chunk]
            yield ArgumentsDelta(answer.tool, piece) if answer.tool else TextDelta(piece)
        yield ModelDone(answer.usage, self._name)

    def _next(self, messages: Sequence[Message]) -> Answer:
        last = messages[-1].text[:200] if messages else ""
        if not self._answers:
            count = len(self.prompts)
            raise ScriptMismatch(f"call {count} of the scripted model has no answer: {last!r}")
        if not self._answers[0].fits(messages):
            wanted = self._answers[0].expects
            raise ScriptMismatch(f"the scripted model expected {wanted!r}, the prompt is {last!r}")
        return self._answers.pop(0)

    def finish(self) -> None:
        """Raises an error if answers were not used."""
        if self._answers:
            left = len(self._answers)
            raise ScriptMismatch(
                f"{left} scripted answers were never asked for, first: {self._answers[0].text!r}"
            )
