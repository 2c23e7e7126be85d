"""Schedules over HTTP: made under an approval, fired by the server, paused and removed."""

from __future__ import annotations

from pathlib import Path

from tests.unit.server.house import plan, serving, tool_step

DAILY = {"daily_at": "07:15", "timezone": "Europe/Oslo"}


async def test_a_schedule_is_made_only_with_the_hash_of_its_plan(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        body = {"timing": DAILY, "plan": plan(tool_step("a")), "name": "weather"}
        refused = await house.post("/v1/schedules", body, 409)
        digest = refused["hash"]
        assert digest in refused["hint"]
        made = await house.post("/v1/schedules", {**body, "approve": digest}, 201)
        assert made["approved_by"] == "ann"
        assert len(made["fires"]) == 5
        assert made["fires"][0].endswith("Z")
        path = f"/v1/schedules/{made['id']}"
        [listed] = (await house.get("/v1/schedules"))["items"]
        assert listed["words"] == "daily at 07:15 Europe/Oslo"
        paused = await house.post(f"{path}/pause", {"reason": "holidays"})
        assert (paused["state"], paused["reason"], paused["fires"]) == ("paused", "holidays", [])
        assert (await house.post(f"{path}/resume"))["state"] == "active"
        await house.post(f"{path}/resume", status=409)
        assert (await house.post(f"{path}/pause"))["reason"] == "paused by ann"
        await house.post(f"{path}/resume")
        changed = await house.client.patch(path, json={"overlap": "queue"})
        assert changed.json()["overlap"] == "queue"
        fire = await house.post(f"{path}/run-now", status=202)
        run = await house.until(fire["run"], "done")
        assert run["origin"]["kind"] == "schedule"
        assert house.tools.calls == [("weather", {"city": "Oslo"})]
        assert [each["run"] for each in (await house.get(f"{path}/history"))["items"]] == [
            fire["run"]
        ]
        assert (await house.client.delete(path)).status_code == 204
        assert (await house.client.get(path)).status_code == 404


async def test_a_schedule_that_gave_up_waits_in_the_inbox(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        body = {"timing": DAILY, "plan": plan(tool_step("a", "fail")), "max_failures": 1}
        digest = (await house.post("/v1/schedules", body, 409))["hash"]
        made = await house.post("/v1/schedules", {**body, "approve": digest}, 201)
        fire = await house.post(f"/v1/schedules/{made['id']}/run-now", status=202)
        await house.until(fire["run"], "failed")
        await house.server_state.smith.schedules.carried()
        [item] = (await house.get("/v1/inbox"))["items"]
        assert (item["kind"], item["schedule"]) == ("schedule", made["id"])
        assert item["reason"]
