"""Telemetry: OpenTelemetry spans of requests, runs and steps, when a person turned them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from typing import Any

from plansmith.errors import Misconfigured, PlansmithError
from plansmith.plan import events as e
from plansmith.ports import PlanStore
from plansmith.wiring import load


def tracer() -> Any:
    """The tracer of whatever provider the process was given."""
    try:
        get_tracer = load("opentelemetry.trace:get_tracer")
    except ModuleNotFoundError:
        hint = "pip install 'plansmith[telemetry]'"
        raise Misconfigured("spans need the OpenTelemetry API", hint=hint) from None
    return get_tracer("plansmith", version("plansmith"))


class Spans:
    """Makes spans with a tracer; without one it does nothing. No argument or result goes in."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._runs: dict[str, Any] = {}
        self._steps: dict[tuple[str, str], datetime] = {}

    @contextmanager
    def request(self, scope: Any) -> Generator[Callable[[int], None]]:
        """A span around one request; the status is told at its end."""
        if self._tracer is None:
            yield lambda _: None
            return
        with self._tracer.start_as_current_span(f"{scope['method']}") as span:
            span.set_attribute("http.request.method", scope["method"])

            def end(status: int) -> None:
                route = scope.get("plansmith_route", "other")
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)

            yield end

    async def follow(self, store: PlanStore) -> None:
        """Make spans of runs and steps from what happens from now on."""
        if self._tracer is None:
            return
        position = await store.wait_news(-1)
        while True:
            for each in await store.news(position):
                position = each.position
                for event in await store.events(each.run, after=each.number - 1):
                    if event.number == each.number:
                        self.take(event)
            with suppress(PlansmithError):
                await store.wait_news(position)
                continue
            await asyncio.sleep(1)

    def take(self, event: e.Event) -> None:
        """One event: a run or a step begins or ends."""
        body = event.body
        match body:
            case e.RunStarted():
                if event.run not in self._runs:
                    self._runs[event.run] = self._start(
                        "run", event.at, {"plansmith.run": event.run}
                    )
            case e.StepStarted(step=step):
                self._steps[event.run, step] = event.at
            case e.StepDone(step=step) | e.StepFailed(step=step) | e.StepCancelled(step=step):
                self._end_step(event, step, body.type)
            case e.RunFinished(status=status):
                span = self._runs.pop(event.run, None)
                if span is not None:
                    span.set_attribute("plansmith.status", status)
                    span.end(end_time=_nanoseconds(event.at))
            case _:
                pass

    def _end_step(self, event: e.Event, step: str, how: str) -> None:
        began = self._steps.pop((event.run, step), None)
        if began is None:
            return
        about = {"plansmith.run": event.run, "plansmith.step": step, "plansmith.end": how}
        span = self._start(f"step {step}", began, about, parent=self._runs.get(event.run))
        span.end(end_time=_nanoseconds(event.at))

    def _start(self, name: str, at: datetime, about: dict[str, str], parent: Any = None) -> Any:
        inside = load("opentelemetry.trace:set_span_in_context")
        context = inside(parent) if parent is not None else None
        return self._tracer.start_span(
            name, context=context, start_time=_nanoseconds(at), attributes=about
        )


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
