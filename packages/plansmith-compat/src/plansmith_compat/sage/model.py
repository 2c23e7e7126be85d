"""Adapts SAGE's generators to models: an object with `execute`, a function, or a model."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

from plansmith.errors import ModelFailed, PlansmithError
from plansmith.ports import ChatModel, Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith_compat.calling import awaited, in_own_loop, in_thread
from plansmith_compat.sage.drafting import coerce_json_array
from plansmith_planner.model_calls import read_answer


class Generator(Protocol):
    """A generator of SAGE: gets a query and messages, returns the query and a text."""

    def execute(self, data: Any) -> Any:
        """Returns a pair of query and text, or the text alone; may be async."""
        ...


GeneratorLike: TypeAlias = Generator | ChatModel | Callable[[Any], Any]
_TEXT_KEYS: Final = ("text", "content", "generated", "answer", "output")


def is_model(given: object) -> bool:
    """Whether this is a model of ours; whatever has `execute` is a generator of SAGE."""
    return hasattr(given, "stream") and not callable(getattr(given, "execute", None))


def need_generator(given: object) -> None:
    """Refuses what is neither a generator nor a model."""
    if (
        not is_model(given)
        and not callable(getattr(given, "execute", None))
        and not callable(given)
    ):
        raise TypeError(
            "give a generator with execute([query, messages]), a function of such a list, "
            "or a model such as plansmith_planner.model('openai:gpt-5')"
        )


def ask(generator: GeneratorLike, data: Sequence[Any]) -> str:
    """Asks a generator and returns its text; `data` is the query and a list of messages."""
    if is_model(generator):
        messages = [Message(each["role"], each["content"]) for each in data[1]]
        model = cast("ChatModel", generator)
        return in_own_loop(read_answer(model.stream(Prompt(messages)))).text
    given: Any = generator
    call = given.execute if callable(getattr(given, "execute", None)) else given
    answer = call(data)
    return answer_text(in_own_loop(awaited(answer)) if inspect.isawaitable(answer) else answer)


def answer_text(answer: object) -> str:
    """Returns the text of a generator's answer: a text, a pair, a table, or a plan as data."""
    if isinstance(answer, tuple):
        parts = cast("tuple[object, ...]", answer)
        return answer_text(parts[-1]) if parts else ""
    if isinstance(answer, list):
        items = cast("list[object]", answer)
        if any(isinstance(each, dict) for each in items) or not items:
            return json.dumps(items, ensure_ascii=False, default=str)
        return answer_text(items[-1])
    if isinstance(answer, Mapping):
        table = cast("Mapping[str, object]", answer)
        found = next((table[key] for key in _TEXT_KEYS if isinstance(table.get(key), str)), None)
        return answer_text(found) if found else json.dumps(table, ensure_ascii=False, default=str)
    if isinstance(answer, str):
        return answer
    raise ModelFailed(f"the generator returned {type(answer).__name__}, not a text")


class AskingModel:
    """A model made of a blocking function; turns whatever it raises into `ModelFailed`."""

    def __init__(self, name: str, ask: Callable[[Prompt], str]) -> None:
        self._name = name
        self._ask = ask

    @property
    def name(self) -> str:
        """The name of the generator's class."""
        return self._name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer in one piece."""
        try:
            text = await in_thread(self._ask, prompt)
        except PlansmithError:
            raise
        except Exception as error:  # noqa: BLE001 - a generator may raise anything
            raise ModelFailed(f"the generator failed: {type(error).__name__}: {error}") from None
        yield TextDelta(text)
        yield ModelDone(Usage(), self.name)


def wording_model(generator: GeneratorLike, query: str | None, profile: str) -> ChatModel:
    """Returns the model that words answers; as in SAGE, a summarizer gets None for the query."""
    if is_model(generator):
        return cast("ChatModel", generator)

    def word(prompt: Prompt) -> str:
        system = {"role": "system", "content": profile}
        text = ask(generator, [query, [system, {"role": "user", "content": prompt.text}]])
        return _said(text)

    return AskingModel(type(generator).__name__, word)


def _said(text: str) -> str:
    """Returns a text; of a generator that answers with the plan again, what its reply says."""
    steps = coerce_json_array(text) or []
    replies = [
        str(cast("dict[str, Any]", each).get("text") or "")
        for each in steps
        if isinstance(each, dict) and cast("dict[str, Any]", each).get("type") == "reply"
    ]
    return replies[-1] if replies else text
