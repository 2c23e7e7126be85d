"""Calls models: fills prompt files, reads whole answers, records the exchanges."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from plansmith.errors import Misconfigured, ModelFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import ArgumentsDelta, ChatModel, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith_planner.dialect import dialect, dialect_names
from plansmith_planner.models.wrappers import Wrapper, closing

_PLACE = re.compile(r"<<([a-z_]+)>>")


def render(name: str, *, folder: Path | None = None, **values: str) -> str:
    """Returns a prompt with its values filled in; braces inside values are left alone."""
    text = prompt_text(name, folder)
    wanted = places(text)
    if wanted != values.keys():
        missing, unused = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
        raise Misconfigured(
            Sentence(
                "the prompt '{name}' does not fit its values: missing {missing}, unused {unused}",
                name=name,
                missing=missing or Sentence("none"),
                unused=unused or Sentence("none"),
            ),
            hint=Sentence("your prompt file must use exactly the names that the original uses"),
        )
    return _PLACE.sub(lambda place: values[place.group(1)], text)


def places(text: str) -> set[str]:
    """Returns the names of the values that a prompt needs."""
    return set(_PLACE.findall(text))


def prompt_text(name: str, folder: Path | None = None) -> str:
    """Returns the text of a prompt: from the user's folder if it is there, else our own."""
    own = folder / f"{name}.md" if folder else None
    if own is not None and own.is_file():
        return own.read_text(encoding="utf-8")
    return _shipped(name)


@cache
def _shipped(name: str) -> str:
    if name not in prompt_names():
        raise Misconfigured(
            Sentence("there is no prompt called '{name}'", name=name),
            hint=Sentence("known: {names}", names=prompt_names()),
        )
    own = files("plansmith_planner") / "prompts" / f"{name}.md"
    return (own if own.is_file() else dialect(name).prompt).read_text(encoding="utf-8")


def prompt_names() -> list[str]:
    """Returns the names of all prompts: our own, and of each dialect one that has its name."""
    entries = (files("plansmith_planner") / "prompts").iterdir()
    own = {each.name.removesuffix(".md") for each in entries if each.name.endswith(".md")}
    return sorted(own | {*dialect_names()})


def text_fields(**choices: Sequence[str]) -> dict[str, Json]:
    """Returns the schema of an object of texts, all required, each free or one of the choices."""
    fields: dict[str, Json] = {name: {"type": "string"} for name in choices}
    fields |= {name: {"type": "string", "enum": [*of]} for name, of in choices.items() if of}
    closed: dict[str, Json] = {"required": [*choices], "additionalProperties": False}
    return {"type": "object", "properties": fields, **closed}


class ModelAnswer(NamedTuple):
    """A model's whole answer."""

    text: str
    usage: Usage


async def read_answer(
    stream: AsyncIterator[Delta],
    on_text: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ModelAnswer:
    """Reads a model's whole answer; calls `on_text` with each piece, `on_progress` between."""
    pieces: list[str] = []
    usage = Usage()
    async with closing(stream):
        async for delta in stream:
            match delta:
                case TextDelta("", progress) if progress:
                    on_progress(progress)
                case TextDelta(text) | ArgumentsDelta(text=text):
                    pieces.append(text)
                    on_text(text)
                case ModelDone(usage=spent):
                    usage = spent
    return ModelAnswer("".join(pieces), usage)


class CallingAnswer(NamedTuple):
    """What a model answered: text, and its calls, each a tool with its arguments as JSON text."""

    text: str
    calls: list[tuple[str, str]]
    usage: Usage


async def read_calls(stream: AsyncIterator[Delta]) -> CallingAnswer:
    """Reads the whole answer of a model that may call tools."""
    text, usage, given = "", Usage(), list[tuple[str, str]]()
    async with closing(stream):
        async for delta in stream:
            match delta:
                case TextDelta(piece):
                    text += piece
                case ArgumentsDelta(tool, piece) if given and given[-1][0] == tool:
                    given[-1] = tool, given[-1][1] + piece
                case ArgumentsDelta(tool, piece):
                    given.append((tool, piece))
                case ModelDone(usage=usage):
                    pass
    calls = [(tool, each) for tool, values in given for each in values_in(values)]
    return CallingAnswer(text, calls, usage)


def values_in(text: str) -> Iterator[str]:
    """Splits JSON values that follow each other, as of several calls; no JSON stays one text."""
    text, at = text.strip() or "{}", 0
    while at < len(text):
        try:
            _, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)
        yield text[at:end]
        at = next((each for each in range(end, len(text)) if not text[each].isspace()), len(text))


class TranscribedModel(Wrapper):
    """Adds each exchange with a model to a list."""

    def __init__(self, model: ChatModel, exchanges: list[dict[str, Json]]) -> None:
        super().__init__(model)
        self._exchanges = exchanges

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        exchange: dict[str, Json] = {
            "model": self.name,
            "prompt": [{"role": each.role, "text": each.text} for each in prompt.messages],
            "text": "",
        }
        self._exchanges.append(exchange)
        pieces: list[str] = []
        try:
            async for delta in self._model.stream(prompt):
                match delta:
                    case TextDelta(text) | ArgumentsDelta(_, text):
                        pieces.append(text)
                    case ModelDone(usage, model):
                        exchange["tokens"] = usage.input_tokens + usage.output_tokens
                        # A model that is chosen at the first call gets its name only now.
                        exchange["model"] = model or self.name
                yield delta
        except ModelFailed as failure:
            exchange["failure"] = failure.message
            raise
        finally:
            exchange["text"] = "".join(pieces)
