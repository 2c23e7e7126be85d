"""The OpenAPI document: it covers every route, and no request it allows breaks the server."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from tests.unit.server.house import House, Silent, plan, serving, tool_step

from plansmith.testing import ScriptedModel
from plansmith_server.app import ROUTES
from plansmith_server.openapi import openapi
from plansmith_server.ops.metrics import Spans

EXAMPLES = 200 if os.environ.get("PLANSMITH_LONG") else 2  # every second is of no run
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# The stream has no end to wait for: tests of its own ask for it.
ENDLESS = "/v1/events"
# No test fetches a model.
DOWNLOADS = "/v1/models/pull"


PROTOCOLS = {("POST", "/mcp"), ("POST", "/a2a"), ("GET", "/.well-known/agent-card.json")}


def test_the_document_is_valid_and_covers_every_route() -> None:
    document = openapi(ROUTES)
    assert document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(document).validate()
    documented = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    routes = {(each.method, re.sub(r":path\}", "}", each.path)) for each in ROUTES}
    assert documented == routes | PROTOCOLS
    names = [item["operationId"] for _, item in _operations(document)]
    assert len(names) == len(set(names))
    found = set(re.findall(r"#/components/schemas/([\w-]+)", str(document)))
    assert found <= set(document["components"]["schemas"])
    for path, operation in _operations(document):
        named = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, item in document["paths"].items():
        for operation in item.values():
            yield path, operation


async def test_no_request_that_the_document_allows_breaks_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files are put into the working folder, and models are downloaded.
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PLANSMITH_OFFLINE", "1")
    monkeypatch.setenv("PLANSMITH_MODELS", str(tmp_path / "models"))
    async with serving(tmp_path, store="sqlite") as house:
        run = await house.finish(tool_step("a"))
        waiting = await house.begin(tool_step("a", "mail"))
        document = await house.get("/openapi.json")
        ids = [run["id"], waiting["id"]]
        await asyncio.to_thread(_try_all, document, house, ids)
        assert (await house.get("/readyz"))["status"] == "ok"
        assert '"level": "error"' not in house.log.getvalue()


def _try_all(document: dict[str, Any], house: House, ids: list[str]) -> None:
    schema = schemathesis.openapi.from_dict(document)
    for found in schema.get_all_operations():
        operation: Any = cast("Any", found).ok()
        if operation.path not in (ENDLESS, DOWNLOADS):
            _try(operation, house, ids)


def _try(operation: Any, house: House, ids: list[str]) -> None:
    headers = {"Authorization": f"Bearer {house.token}"}
    runs = itertools.cycle([ids[len(operation.path) % 2], "", ids[len(operation.path) % 2 - 1], ""])

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES if "{id}" in operation.path else EXAMPLES // 2,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.filter_too_much,
            HealthCheck.data_too_large,
        ],
    )
    def ask(case: Any) -> None:
        if (run := next(runs)) and "id" in case.path_parameters:
            case.path_parameters["id"] = run
        response = case.call(base_url=house.url, headers=headers, timeout=20)
        own = (operation.method.upper(), operation.path) not in PROTOCOLS
        case.validate_response(response, checks=CHECKS if own else [not_a_server_error])

    ask()


# Probes, waiting and the page of the API


PLAN = plan(tool_step("oslo"), goal="Weather in Oslo")
DECIDED = {"decision": "plan", "reason": "", "query": "the weather in Oslo", "answer": ""}


async def test_a_probe_without_a_token_learns_that_the_server_lives(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, httpx.AsyncClient(base_url=house.url) as probe:
        for headers in ({}, {"Host": "10.1.2.3:8080"}, {"Host": "evil.example"}):
            answer = await probe.get("/healthz", headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            assert "set-cookie" not in answer.headers
        assert (await probe.head("/healthz")).status_code == 200
        probed = await probe.get("/readyz", headers={"Host": "10.1.2.3:8080"})
        assert (probed.status_code, probed.json()) == (200, {"status": "ok"})
        assert (await house.get("/readyz"))["open_runs"] == 0
        house.server_state.ready = False
        probed = await probe.get("/readyz")
        assert (probed.status_code, probed.json()) == (503, {"status": "not ready"})
        assert "resum" in (await house.client.get("/readyz")).text
        wrong = {"Authorization": "Bearer x"}
        assert (await probe.get("/readyz", headers=wrong)).status_code == 401
        for path in (
            "/readyz/",
            "/metrics",
            "/healthz/",
            "/healthz/x",
            "/version",
            "/docs",
            "/openapi.json",
        ):
            assert (await probe.get(path)).status_code == 401, path
        assert (await probe.post("/healthz")).status_code == 401


async def test_who_waits_gets_the_run_when_it_needs_a_person_or_is_over(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, PLAN, DECIDED, PLAN)
    async with serving(tmp_path, model=model) as house:
        waits: dict[str, Any] = {"params": {"wait": 60}}
        made = await house.post("/v1/runs", {"request": "the weather in Oslo"}, 202, **waits)
        assert made["status"] == "reviewing"
        body = {"plan": plan(tool_step("a")), "mode": "read_only"}
        assert (await house.post("/v1/runs", body, 202, **waits))["status"] == "done"
        slow = await house.begin(tool_step("a", "slow"), tool_step("b", after=["a"]))
        await house.approve(slow)
        await house.tools.began["slow"].wait()
        await house.post(f"/v1/runs/{slow['id']}/pause")
        house.tools.gate.set()
        await house.until(slow["id"], "paused")
        path = f"/v1/runs/{slow['id']}/resume"
        assert (await house.post(path, **waits))["status"] == "done"
        talk = {"request": "the weather in Oslo", "conversation": "new"}
        turn = await house.post("/v1/runs", talk, 202, **waits)
        assert (turn["status"], turn["message"]["kind"]) == ("reviewing", "request")


async def test_a_wait_ends_when_its_time_is_up_or_the_server_stops(tmp_path: Path) -> None:
    model = Silent()
    async with serving(tmp_path, model=model) as house:
        asked = {"request": "what nobody answers"}
        short = await house.post("/v1/runs", asked, 202, params={"wait": 0.01})
        assert short["status"] in ("triaging", "planning")
        for wrong in ("61", "-1", "soon"):
            answer = await house.client.post("/v1/runs", params={"wait": wrong}, json=asked)
            assert answer.status_code == 422
        model.began.clear()
        waiting = asyncio.create_task(house.post("/v1/runs", asked, 202, params={"wait": 60}))
        await model.began.wait()
        house.server_state.closing.set()
        assert (await waiting)["status"] in ("triaging", "planning")


async def test_the_page_of_the_api_shows_every_route_and_runs_no_script(house: House) -> None:
    answer = await house.client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; style-src 'sha256-")
    assert "unsafe" not in policy
    text = answer.text
    assert "<script" not in text
    assert "://" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    for each in ROUTES:
        assert f'id="{each.name}"' in text, each.name
    assert "Which files mention invoices?" in text


# Spans


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
    attributes = " ".join(
        str(dict(each.attributes or {})) for each in exporter.get_finished_spans()
    )
    assert SECRET not in attributes
