"""Counts requests for Prometheus, and makes OpenTelemetry spans if they are turned on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any, Final

from plansmith.errors import Misconfigured, PlansmithError
from plansmith.plan import events as e
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock, Store
from plansmith_server.news import EventReader, follow_news

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_SECONDS: Final = "plansmith_http_request_seconds"


class Metrics:
    """Counts requests by route and status, their times, and open event streams."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.streams = 0
        self.events = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests[method, route, str(status)] += 1
        self._seconds[route] += seconds

    def text(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
        """Returns all metrics as text; `gauges` are current values by name and label."""
        return "\n".join([*self._lines(gauges), ""])

    def _lines(self, gauges: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
        yield from _head("plansmith_http_requests_total", "counter", "Requests answered.")
        for (method, route, status), count in sorted(self._requests.items()):
            labels = _labels(method=method, route=route, status=status)
            yield f"plansmith_http_requests_total{labels} {count}"
        yield from _head(_SECONDS, "summary", "Time until an answer was ready.")
        for name, seconds in sorted(self._seconds.items()):
            count = sum(each for (_, route, _), each in self._requests.items() if route == name)
            yield f"{_SECONDS}_sum{_labels(route=name)} {seconds:.6f}"
            yield f"{_SECONDS}_count{_labels(route=name)} {count}"
        yield from _head("plansmith_stream_events_total", "counter", "Events sent to streams.")
        yield f"plansmith_stream_events_total {self.events}"
        for name, values in gauges.items():
            yield f"# TYPE {name} gauge"
            for label, value in sorted(values.items()):
                yield f"{name}{_labels(status=label) if label else ''} {value:g}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    escaped = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(escaped) + "}"


def tracer() -> Any:
    """Returns the tracer of the OpenTelemetry provider of this process."""
    try:
        get_tracer = resolve_name("opentelemetry.trace:get_tracer")
    except ModuleNotFoundError:
        hint = "pip install packages/* 'plansmith[telemetry]'"
        raise Misconfigured(Sentence("spans need the OpenTelemetry API"), hint=hint) from None
    return get_tracer("plansmith", version("plansmith"))


class Spans:
    """Makes spans of requests, runs and steps; they hold no arguments or results."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._runs: dict[str, Any] = {}
        self._steps: dict[tuple[str, str], datetime] = {}

    @contextmanager
    def request(self, scope: Any) -> Generator[Callable[[int], None]]:
        """Makes a span for a request; call the yielded function with the status."""
        if self._tracer is None:
            yield lambda _: None
            return
        method = scope["method"]
        with self._tracer.start_as_current_span(method) as span:
            span.set_attribute("http.request.method", method)

            def end(status: int) -> None:
                route = scope.get("plansmith_route", "other")
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)

            yield end

    async def follow(self, store: Store, events: EventReader, clock: Clock) -> None:
        if self._tracer is not None:
            after = await store.wait_news(-1)
            async for news in follow_news(store, clock, after, limit=500):
                with suppress(PlansmithError):  # a damaged run has no more spans
                    for event in (await events.read(news)).values():
                        self.take(event)

    def take(self, event: e.Event) -> None:
        run, body = event.run, event.body
        match body:
            case e.RunStarted():
                if run not in self._runs:
                    self._runs[run] = self._start("run", event.at, {"plansmith.run": run})
            case e.StepStarted(step=step):
                self._steps[run, step] = event.at
            case e.StepDone(step=step) | e.StepFailed(step=step) | e.StepCancelled(step=step):
                began = self._steps.pop((run, step), None)
                if began is not None:
                    attributes = {
                        "plansmith.run": run,
                        "plansmith.step": step,
                        "plansmith.end": body.type,
                    }
                    span = self._start(
                        f"step {step}", began, attributes, parent=self._runs.get(run)
                    )
                    span.end(end_time=_nanoseconds(event.at))
            case e.RunFinished(status=status):
                span = self._runs.pop(run, None)
                if span is not None:
                    span.set_attribute("plansmith.status", status)
                    span.end(end_time=_nanoseconds(event.at))
            case _:
                pass

    def _start(
        self, name: str, at: datetime, attributes: dict[str, str], parent: Any = None
    ) -> Any:
        set_span_in_context = resolve_name("opentelemetry.trace:set_span_in_context")
        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(
            name, context=context, start_time=_nanoseconds(at), attributes=attributes
        )


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
