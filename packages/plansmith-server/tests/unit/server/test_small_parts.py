"""Meters and repeats: the small parts a server is made of."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import JSONResponse, Response

from plansmith_server.errors import HttpProblem
from plansmith_server.ops.idempotency import Idempotency
from plansmith_server.ops.metrics import Metrics


def test_meters_are_text_that_prometheus_reads() -> None:
    meters = Metrics()
    meters.count("GET", '/a"b', 200, 0.02)
    meters.count("GET", '/a"b', 200, 99)
    text = meters.text({"plansmith_open_runs": {"running": 2}, "plansmith_streams": {"": 1}})
    assert 'plansmith_http_requests_total{method="GET",route="/a\\"b",status="200"} 2' in text
    assert '_seconds_sum{route="/a\\"b"} 99.02' in text
    assert 'plansmith_open_runs{status="running"} 2' in text
    assert "plansmith_streams 1" in text
    assert text.endswith("\n")


async def test_repeats_wait_for_the_first_and_forget_after_a_day() -> None:
    now, count, gate = 0.0, 0, asyncio.Event()
    repeats = Idempotency(lambda: now)

    async def do() -> Response:
        nonlocal count
        count += 1
        await gate.wait()
        return JSONResponse({"count": count}, 202)

    both = [asyncio.create_task(repeats.once("k", "/p", b"1", do)) for _ in range(2)]
    await asyncio.sleep(0)
    gate.set()
    first, second = await asyncio.gather(*both)
    assert (first.body, first.status_code) == (second.body, second.status_code)
    assert second.headers["idempotency-replayed"] == "true"
    assert count == 1
    with pytest.raises(HttpProblem, match="another body"):
        await repeats.once("k", "/p", b"2", do)
    await repeats.once("k", "/other", b"2", do)
    now = 25 * 3600.0
    await repeats.once("k", "/p", b"2", do)
    assert count == 3
    with pytest.raises(HttpProblem, match="200"):
        await repeats.once("k" * 201, "/p", b"", do)
