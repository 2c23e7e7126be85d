"""The OpenAPI document: it covers every route, and no request it allows breaks the server."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from tests.unit.server.house import House, serving, tool_step

from plansmith_server.app import ROUTES
from plansmith_server.openapi import openapi

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
    told = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    routes = {(each.method, re.sub(r":path\}", "}", each.path)) for each in ROUTES}
    assert told == routes | PROTOCOLS
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
        max_examples=EXAMPLES,
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
