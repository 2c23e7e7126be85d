"""Where a run came from: a request of its own, another run, a template, a schedule, a program."""

from __future__ import annotations

from typing import Final, Literal

from plansmith.plan.data import Flag, Json, Record, Whole

OriginKind = Literal[
    "request", "run", "undo", "template", "schedule", "a2a", "conversation", "notes"
]


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

    def to_json(self) -> dict[str, Json]:
        """Returns the fields as JSON, always with the kind."""
        return {"kind": self.kind, **super().to_json()}


OWN_REQUEST: Final = Origin.with_defaults()
