"""Spans of requests, runs and steps, with the real SDK; without the flag there are none."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.unit.server.house import serving, tool_step

from plansmith_server.ops.metrics import Spans

SECRET = "Oslo"


async def test_runs_and_steps_become_spans_without_arguments_or_results(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(provider.get_tracer("test"))
    async with serving(tmp_path) as house:
        run = await house.begin(tool_step("a"), tool_step("b", "fail", after=["a"]))
        await house.approve(run)
        await house.until(run["id"], "partly_done")
        for event in await house.server_state.smith.store.events(run["id"]):
            spans.take(event)
    whole, *_ = [each for each in exporter.get_finished_spans() if each.name == "run"]
    steps = [each for each in exporter.get_finished_spans() if each.name.startswith("step ")]
    assert [each.name for each in steps] == ["step a", "step b"]
    assert whole.context is not None
    for each in steps:
        assert each.parent is not None
        assert each.parent.span_id == whole.context.span_id
        assert each.start_time is not None
        assert each.end_time is not None
        assert each.start_time <= each.end_time
    assert dict(whole.attributes or {})["plansmith.status"] == "partly_done"
    told = " ".join(str(dict(each.attributes or {})) for each in exporter.get_finished_spans())
    assert SECRET not in told


def test_a_request_is_a_span_of_its_route_not_of_its_path() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    scope = {"method": "GET", "path": "/v1/runs/secret", "plansmith_route": "/v1/runs/{id}"}
    with Spans(provider.get_tracer("test")).request(scope) as end:
        end(200)
    [span] = exporter.get_finished_spans()
    assert span.name == "GET /v1/runs/{id}"
    assert dict(span.attributes or {})["http.response.status_code"] == 200
    assert "secret" not in str(dict(span.attributes or {}))
