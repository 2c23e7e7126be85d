"""Batch: events that are written in one append, with the values they speak of."""

from __future__ import annotations

from collections.abc import Container, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from plansmith.errors import InputNeeded
from plansmith.plan.data import Content, Json, content_hash
from plansmith.plan.events import AnyBody, QuestionAsked, StepDone, StepStarted
from plansmith.plan.steps import LONGEST_TIMEOUT_S, AskStep
from plansmith.ports import Call, Usage
from plansmith.runner.units import Unit


class Ready(NamedTuple):
    """A call that may be made once its intent is durable."""

    unit: Unit
    inputs: dict[str, Json]
    call: Call


@dataclass(slots=True)
class Batch:
    """What a conductor writes next."""

    bodies: list[AnyBody] = field(default_factory=list[AnyBody])
    values: list[Json | Content] = field(default_factory=list["Json | Content"])

    def more(self, other: Batch) -> None:
        """Write what is in another batch, too."""
        self.bodies += other.bodies
        self.values += other.values

    def drop_starts(self, steps: Container[str]) -> None:
        """Do not start these steps after all."""
        self.bodies = [
            body
            for body in self.bodies
            if not (isinstance(body, StepStarted) and body.step in steps)
        ]

    @property
    def steps(self) -> set[str]:
        """The steps it speaks of."""
        return {str(step) for body in self.bodies if (step := getattr(body, "step", None))}

    def forget(self, steps: Container[str]) -> None:
        """Say nothing of these steps: somebody else has ended them meanwhile."""
        self.bodies = [
            body for body in self.bodies if (getattr(body, "step", "") or "") not in steps
        ]

    @contextmanager
    def whole(self) -> Generator[None]:
        """What is added here is added as a whole, or not at all if that fails half-way."""
        bodies, values = len(self.bodies), len(self.values)
        try:
            yield
        except BaseException:
            del self.bodies[bodies:], self.values[values:]
            raise

    def start(
        self, unit: Unit, *, attempt: int, key: str, inputs: Content, prefetched: str = ""
    ) -> None:
        """A call is intended; its inputs are kept for whoever looks later."""
        started = StepStarted(
            step=unit.name,
            attempt=attempt,
            key=key,
            inputs=inputs.digest,
            callee=unit.callee,
            item=unit.item,
            prefetched=prefetched,
        )
        self.bodies.append(started)
        self.values.append(inputs)

    def open(self, unit: Unit, *, key: str) -> None:
        """A map or plan step begins with its parts; it calls nothing itself."""
        self.bodies.append(StepStarted(step=unit.name, key=key, item=unit.item))

    def done(self, unit: Unit, content: Content, usage: Usage) -> None:
        """A step has a result."""
        told = {"step": unit.name, "result": content.digest, "size": len(content.text)}
        self.bodies.append(StepDone.model_validate(told | spending(usage)))
        self.values.append(content)

    def ask(self, unit: Unit, text: str, now: datetime) -> None:
        """A step asks the person; with a time limit the question ends unanswered after it."""
        step = unit.step
        options = step.options if isinstance(step, AskStep) else ()
        schema = step.answer_schema if isinstance(step, AskStep) else None
        limit = None if step.timeout_s is None else min(step.timeout_s, LONGEST_TIMEOUT_S)
        self.bodies.append(
            QuestionAsked(
                question=unit.name,
                text=text,
                options=options,
                answer_schema=schema,
                step=unit.name,
                expires_at=None if limit is None else now + timedelta(seconds=limit),
                kind="step",
            )
        )

    def ask_for(self, unit: Unit, need: InputNeeded, attempt: int) -> None:
        """A call asks the person; what it leaves behind is kept for when it is made again."""
        self.bodies.append(
            QuestionAsked(
                question=f"{unit.name}?{attempt}",
                text=need.message,
                options=need.options,
                answer_schema=need.schema,
                step=unit.name,
                state=content_hash(need.state),
                link=need.link,
                kind="call",
            )
        )
        self.values.append(need.state)


def spending(usage: Usage) -> dict[str, Json]:
    """What a call took, as events keep it; an unknown price stays out."""
    cost = "" if usage.cost is None else str(usage.cost)
    return {"tokens": usage.input_tokens + usage.output_tokens, "cost": cost}
