"""Where a run came from: a request of its own, another run, a template, a schedule, a program."""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from pydantic import (
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from plansmith.plan.data import Flag, Json, Record, Whole

OriginKind = Literal[
    "request", "run", "undo", "template", "schedule", "a2a", "conversation", "notes"
]
_PREFIXES: Final = ("schedule", "template", "a2a")


class Origin(Record):
    """What a run was made from: the kind of thing and its `id`.

    `request`: a person or a program asked for it. `run`: it repeats or continues the run `id`, or
    begins as that run stood after `event`. `undo`: it takes back what the run `id` did. `template`
    and `schedule`: `id` names which one. `a2a`: `id` is the context of the A2A client.
    `conversation`: `id`, `thread`, `user` and `handed_over` say where a chat application keeps it.
    `notes`: an agent marks the steps of its own plan.
    """

    kind: OriginKind = "request"
    id: str = ""
    event: Whole = 0
    thread: str = ""
    user: str = ""
    handed_over: Flag = False
    # The text that an earlier release wrote; written back unchanged, because of the hash.
    _text: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Returns the fields as JSON, also for an origin that an earlier release wrote as text."""
        fields: dict[str, Json] = {name: getattr(self, name) for name in Origin.model_fields}
        return {name: value for name, value in fields.items() if name == "kind" or value}

    def written_as(self, text: str) -> Self:
        """Sets the text that is written instead of the fields; returns the origin."""
        self._text = text
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, str):
            return handler(value)
        return handler(_fields(value)).written_as(value)

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> str | dict[str, Json]:
        written: dict[str, Json] = handler(self)
        return written if self._text is None else self._text


OWN_REQUEST: Final = Origin.with_defaults()


def _fields(text: str) -> dict[str, Json]:
    """Reads an origin as release 0.1 wrote it, such as `schedule:ID` or `RUN@EVENT`."""
    kind, found, rest = text.partition(":")
    if found and kind in _PREFIXES:
        return {"kind": kind, "id": rest}
    if not text or text == "planning":
        return {"kind": "notes"} if text else {}
    parts = text.split(" ")
    if len(parts) == 5 and parts[0] == "valuecell":
        _, how, place, thread, user = parts
        names: dict[str, Json] = {"id": place, "thread": thread, "user": user}
        return {"kind": "conversation", "handed_over": how == "handoff", **names}
    run, _, number = text.rpartition("@")
    if run and number.isdecimal():
        return {"kind": "run", "id": run, "event": int(number)}
    return {"kind": "run", "id": text}
