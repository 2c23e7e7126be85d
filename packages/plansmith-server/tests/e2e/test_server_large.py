"""What keeps large runs cheap over HTTP: compressed responses, counts, and only what changed."""

from __future__ import annotations

import asyncio
import gzip
import json

import httpx
from tests.unit.server.house import House, tool_step

PACKED = {"Accept-Encoding": "gzip"}


async def raw(house: House, path: str, headers: dict[str, str]) -> tuple[httpx.Response, bytes]:
    """A response, and its body as it came over the wire."""
    async with house.client.stream("GET", path, headers=headers) as response:
        return response, b"".join([part async for part in response.aiter_raw()])


async def test_large_responses_are_compressed_and_streams_are_not(house: House) -> None:
    run = await house.begin(*[tool_step(f"s{number}") for number in range(60)])
    path = f"/v1/runs/{run['id']}"
    packed, body = await raw(house, path, PACKED)
    plain, whole = await raw(house, path, {"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in packed.headers["vary"].lower()
    assert "content-encoding" not in plain.headers
    assert json.loads(gzip.decompress(body)) == json.loads(whole)
    assert len(body) * 5 < len(whole)
    small, counted = await raw(house, "/v1/inbox?count=true", PACKED)
    assert "content-encoding" not in small.headers
    assert json.loads(counted) == {"count": 1}
    # Whoever has no token gets nothing that could be compared.
    async with httpx.AsyncClient(base_url=house.url) as stranger:
        refused = await stranger.get(path, headers=PACKED)
    assert refused.status_code == 401
    assert "content-encoding" not in refused.headers
    for brief in (False, True):
        path = f"/v1/events?brief={str(brief).lower()}"
        async with asyncio.timeout(60), house.client.stream("GET", path, headers=PACKED) as got:
            assert "content-encoding" not in got.headers
            lines = got.aiter_lines()
            data = [await anext(lines) for _ in range(5)][-1]
        told = json.loads(data.removeprefix("data: "))
        assert ("runs" in told) is not brief
        assert told["position"] >= 0


async def test_values_after_an_event_are_those_that_the_whole_run_shows(house: House) -> None:
    run = await house.begin(
        tool_step("a"),
        tool_step("b", after=["a"]),
        tool_step("late", "slow", inputs={"city": "Rome"}, after=["b"]),
    )
    await house.approve(run)
    await house.tools.began["slow"].wait()
    path = f"/v1/runs/{run['id']}"
    before = await house.get(f"{path}/values")
    house.tools.gate.set()
    whole = await house.until(run["id"], "done")
    after = await house.get(f"{path}/values?after={before['last']}")
    assert set(after["steps"]) <= {"late", "b"}
    assert after["steps"]["late"]["result"] == whole["steps"]["late"]["result"]
    assert after["last"] == whole["last"]
    every = await house.get(f"{path}/values")
    for name, told in every["steps"].items():
        shown = whole["steps"][name]
        assert told == {field: shown[field] for field in told}, name
        assert {"inputs", "result", "result_hash", "result_size", "clipped"} == set(told)
    assert await house.get(f"{path}/values?after=9999") == {"last": 9999, "steps": {}}
    unknown = await house.client.get("/v1/runs/none/values")
    assert unknown.status_code == 404
