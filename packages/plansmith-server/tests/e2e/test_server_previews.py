"""Previews over HTTP: seen whole, approved by their hash, refused once they are old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest_asyncio
from tests.crash.test_several_servers import serving as process_of
from tests.unit.server.house import House, Tools, plan, serving, tool_step

from plansmith import CallPreview
from plansmith.plan.data import Json
from plansmith.plan.preview import FilePreview

SVG = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


class Showing(Tools):
    """`mail` says what it would send, with a picture."""

    told = "Dear"

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        if tool != "mail":
            return None
        picture = FilePreview(path="map.svg", change="new", text=SVG)
        return CallPreview(text=f"{self.told} {inputs['city']}", files=(picture,), seen=self.told)


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[House]:
    async with serving(tmp_path, tools=Showing()) as house:
        yield house


async def previewed(house: House, *steps: dict[str, Any], **body: Any) -> tuple[str, Any]:
    """A run whose preview is made, and the preview."""
    run = str((await house.begin(*steps))["id"])
    view = await house.post(f"/v1/runs/{run}/preview", body, 202, params={"wait": 60})
    found = await house.get(f"/v1/runs/{run}/preview")
    counts = {"hash": found["hash"], "calls": found["count"], "open": len(found["open"])}
    assert (view["status"], view["preview"]) == ("reviewing", counts)
    return run, found


def mails(house: House) -> list[Json]:
    return [given["city"] for tool, given in house.tools.calls if tool == "mail"]


async def decide(house: House, run: str, status: int = 200, **body: Any) -> Any:
    return await house.post(f"/v1/runs/{run}/decision", body, status)


READ, SEND = tool_step("read"), tool_step("send", "mail", inputs={"city": "{{read.city}}"})


async def test_a_preview_is_approved_by_its_hash_with_calls_left_out_and_changed(
    shop: House,
) -> None:
    run, seen = await previewed(shop, READ, SEND, tool_step("b", "mail"), tool_step("c", "mail"))
    texts = {each["step"]: each["shown"]["text"] for each in seen["calls"]}
    assert texts == dict.fromkeys(("send", "b", "c"), "Dear Oslo")
    assert (mails(shop), (await shop.get(f"/v1/runs/{run}"))["steps"]["read"]["status"]) == (
        [],
        "done",
    )
    picture = await shop.client.get(f"/v1/runs/{run}/preview/send?path=map.svg")
    assert picture.text == SVG
    assert picture.headers["content-security-policy"].startswith("sandbox;")
    await shop.get(f"/v1/runs/{run}/preview/send?path=other", 404)
    await decide(shop, run, 409, approve=seen["hash"], leave_out=["nobody"])
    await decide(shop, run, 409, approve=seen["hash"], change={"b": {"town": "Rome"}})
    await decide(shop, run, 422, reject=True, leave_out=["b"])
    changed = {"c": {"city": "Rome"}}
    await decide(shop, run, approve=seen["hash"], leave_out=["b"], change=changed)
    over = await shop.until(run, "done")
    assert sorted(map(str, mails(shop))) == ["Oslo", "Rome"]
    assert (over["steps"]["b"]["rule"], over["steps"]["read"]["attempts"]) == ("left_out", 1)
    await shop.post(f"/v1/runs/{run}/preview", {}, 409)


async def test_a_preview_is_old_once_there_is_another_or_the_plan_was_edited(shop: House) -> None:
    run, old = await previewed(shop, READ, SEND)
    body = {"given": {"read": {"city": "Bergen"}}}
    view = await shop.post(f"/v1/runs/{run}/preview", body, 202, params={"wait": 60})
    new = await shop.get(f"/v1/runs/{run}/preview")
    assert (new["calls"][0]["inputs"], view["steps"]["read"]["given_by"]) == (
        {"city": "Bergen"},
        "ann",
    )
    await decide(shop, run, 409, approve=old["hash"])
    # In one tab the plan is edited, in another one what it was before is approved.
    edited = plan(READ, SEND, tool_step("more", "mail"))
    tag = {"If-Match": f'"{view["hash"]}"'}
    await shop.call("PUT", f"/v1/runs/{run}/plan", {"plan": edited}, headers=tag)
    await decide(shop, run, 409, approve=new["hash"])
    assert (await shop.get(f"/v1/runs/{run}"))["preview"] is None
    await shop.get(f"/v1/runs/{run}/preview", 404)
    await shop.post(f"/v1/runs/{run}/preview", {"given": {"send": 1}}, 409)
    assert mails(shop) == []


async def test_a_program_neither_previews_what_is_seen_first_nor_approves_what_it_saw(
    shop: House,
) -> None:
    run, seen = await previewed(shop, READ, SEND)
    async with shop.with_token("helper", "look", "answer", "propose") as program:
        refused = await program.post(f"/v1/runs/{run}/preview", json={})
        assert (refused.status_code, "wants to see" in refused.text) == (409, True)
        decision = {"approve": seen["hash"]}
        refused = await program.post(f"/v1/runs/{run}/decision", json=decision)
        assert refused.status_code == 403
        body = {"plan": plan(READ, SEND), "mode": "read_only"}
        own = (await program.post("/v1/runs", json=body)).json()
        made = await program.post(f"/v1/runs/{own['id']}/preview?wait=60", json={})
        assert (made.status_code, made.json()["preview"]["calls"]) == (202, 1)
        refused = await program.post(f"/v1/runs/{own['id']}/decision", json=decision)
        assert refused.status_code == 403
    async with shop.with_token("looker", "look") as looker:
        assert (await looker.post(f"/v1/runs/{run}/preview", json={})).status_code == 403
    assert mails(shop) == []


TOOLS = '''
import os, time
from pathlib import Path
from plansmith import tool

HERE = Path(os.environ["HERE"])

def note(text: str) -> str:
    with (HERE / "calls").open("a") as file:
        file.write(text + "\\n")
    return text

@tool(effect="read")
def look(name: str) -> str:
    """Wait for a file."""
    note(f"look {name}")
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return name

@tool(effect="final", preview=lambda to: f"To: {to}")
def send(to: str) -> str:
    """Send."""
    return note(f"send {to}")
'''


async def test_a_server_killed_in_and_after_a_preview_and_after_the_approval_loses_nothing(
    tmp_path: Path,
) -> None:
    steps = [
        {"id": "a", "kind": "tool", "tool": "look", "inputs": {"name": "ann"}},
        {"id": "s", "kind": "tool", "tool": "send", "inputs": {"to": "{{a}}"}},
        {"id": "t", "kind": "tool", "tool": "send", "inputs": {"to": "bob"}},
    ]
    (tmp_path / "tools.py").write_text(TOOLS)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with asyncio.timeout(200):
        async with process_of(tmp_path, url, "one") as server:
            run = str((await server.post("/v1/runs", {"plan": plan(*steps)}))["id"])
            await server.post(f"/v1/runs/{run}/preview", {})
            await server.follow(run, "step_started")
            server.process.kill()
            await server.process.wait()
        (tmp_path / "go").touch()
        async with process_of(tmp_path, url, "one") as server:  # goes on with the preview by itself
            await server.follow(run, "preview_made")
            server.process.kill()
            await server.process.wait()
        async with process_of(tmp_path, url, "one") as server:
            seen = (await server.client.get(f"/v1/runs/{run}/preview")).json()
            assert [each["inputs"]["to"] for each in seen["calls"]] == ["ann", "bob"]
            decision = {"approve": seen["hash"], "leave_out": ["t"]}
            await server.post(f"/v1/runs/{run}/decision", decision)
            server.process.kill()
            await server.process.wait()
        async with process_of(tmp_path, url, "one") as server:
            await server.follow(run, "run_finished")
            view = await server.run(run)
    assert (view["status"], view["steps"]["t"]["rule"]) == ("done", "left_out")
    # The read that was cut off is made again, and nothing else.
    assert (tmp_path / "calls").read_text().splitlines() == ["look ann", "look ann", "send ann"]
