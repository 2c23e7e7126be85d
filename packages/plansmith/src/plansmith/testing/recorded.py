"""Records model calls, one JSON line each, and plays them back exactly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from plansmith import errors, ports
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.sentence import Sentence


@cache
def _deltas() -> TypeAdapter[ports.Delta]:
    """Returns what writes and reads a piece: each of the three has other fields."""
    return TypeAdapter(ports.Delta)


_FAILURES: Mapping[str, type[errors.ModelFailed]] = {
    failure.__name__: failure
    for failure in (errors.ModelFailed, errors.ModelBusy, errors.ModelRefused, errors.PromptTooLong)
}


class RecordingModel:
    """Passes calls to another model and appends each to a file when it ends.

    Examples:
        >>> from pathlib import Path
        >>> from plansmith.testing import RecordingModel, ScriptedModel
        >>> recording = RecordingModel(ScriptedModel("yes"), Path("calls.jsonl"))
    """

    def __init__(self, model: ports.ChatModel, path: Path) -> None:
        self._model = model
        self._path = path

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        """Yields what the wrapped model says and records it, failures too."""
        deltas: list[Json] = []
        line: dict[str, Json] = {"model": self.name, "request": _request(prompt), "deltas": deltas}
        pieces: Any = self._model.stream(prompt)
        closing = aclosing(pieces) if hasattr(pieces, "aclose") else nullcontext()
        try:
            async with closing:
                async for delta in pieces:
                    deltas.append(_deltas().dump_python(delta, mode="json"))
                    yield delta
        except errors.ModelFailed as failure:
            line["failure"] = {
                "kind": type(failure).__name__,
                "message": failure.message,
                "hint": failure.hint,
                "retry_after": getattr(failure, "retry_after", None),
            }
            raise
        finally:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


class RecordedModel:
    """Plays calls back from a file: the same request gets the same pieces, in order.

    Examples:
        >>> from pathlib import Path
        >>> from plansmith.testing import RecordedModel
        >>> calls = Path("calls.jsonl")
        >>> calls.touch()  # by RecordingModel
        >>> RecordedModel(calls).name
        'recorded'
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = list(_read(path))
        self._used = [False] * len(self._lines)

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        return str(self._lines[0]["model"]) if self._lines else "recorded"

    async def stream(self, prompt: ports.Prompt) -> AsyncIterator[ports.Delta]:
        """Yields the recorded answer to this request."""
        line = self._find(_request(prompt))
        for delta in line["deltas"]:
            yield _deltas().validate_python(delta)
        if failure := line.get("failure"):
            kind = _FAILURES.get(failure["kind"], errors.ModelFailed)
            more = {"retry_after": failure["retry_after"]} if kind is errors.ModelBusy else {}
            raise kind(failure["message"], hint=failure["hint"], **more)

    def _find(self, request: dict[str, Json]) -> dict[str, Any]:
        wanted = canonical_hash(request)
        for index, line in enumerate(self._lines):
            if not self._used[index] and canonical_hash(line["request"]) == wanted:
                self._used[index] = True
                return line
        last = str(cast("list[dict[str, Json]]", request["messages"])[-1]["text"])[:200]
        raise errors.ScriptMismatch(
            f"{self._path.name} has no unused record of this call: {last!r}",
            hint="record it again with the real model",
        )

    def finish(self) -> None:
        """Raises an error if records were not used."""
        left = self._used.count(False)
        if left:
            raise errors.ScriptMismatch(f"{left} recorded calls of {self._path.name} were not made")


def _read(path: Path) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            line = json.loads(text) if text.strip() else None
            if line is not None:
                yield {each: line[each] for each in ("model", "request", "deltas")} | line
        except (ValueError, KeyError, TypeError):
            message = f"line {number} of {path.name} is not a recorded call"
            raise errors.ScriptMismatch(
                message, hint="remove the line, or record it again"
            ) from None


def _request(prompt: ports.Prompt) -> dict[str, Json]:
    """Returns the key of a call; leaves out the brief, which repeats the messages."""
    return {
        "messages": [{"role": each.role, "text": each.text} for each in prompt.messages],
        "schema": None if prompt.schema is None else dict(prompt.schema),
        "tools": [each.to_json() for each in prompt.tools],
    }


def recorded_model(path: str) -> RecordedModel:
    """Returns the model `recorded:PATH`."""
    file = Path(path)
    if not file.is_file():
        raise errors.Misconfigured(
            Sentence("there is no recording {file}", file=file), hint=Sentence("check the path")
        )
    return RecordedModel(file)
