"""Schedules over HTTP: made under an approval, fired by the server, paused and removed."""

from __future__ import annotations

from pathlib import Path

from tests.unit.server.house import House, plan, serving, tool_step

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


async def test_a_run_with_several_times_becomes_a_schedule_for_each(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        other = tool_step("b", inputs={"city": "Rome"})
        timed = plan(tool_step("a"), other) | {
            "schedules": {"a": DAILY, "b": {"every_minutes": 60, "timezone": "UTC"}}
        }
        alone = await house.post("/v1/schedules", {"plan": timed, "timing": DAILY}, 409)
        assert "different times" in alone["detail"]
        run = await house.post("/v1/runs", {"plan": timed, "mode": "review"}, 202)
        waiting = await house.until(run["id"], "reviewing")
        body = {"run": run["id"]}
        await house.post("/v1/schedules", body, 409)
        made = await house.post("/v1/schedules", {**body, "approve": waiting["hash"]}, 201)
        assert [each["words"] for each in made["items"]] == [
            "daily at 07:15 Europe/Oslo",
            "every hour",
        ]
        assert len((await house.get("/v1/schedules"))["items"]) == 2
        assert house.tools.calls == []


async def test_the_next_fires_are_computed_by_the_server(house: House) -> None:
    timing = {"cron": "30 1 * * *", "timezone": "Europe/London"}
    body = {**timing, "count": 3, "after": "2026-10-24T12:00:00Z"}
    found = await house.post("/v1/schedules/preview", body)
    assert found["fires"] == [
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
        "2026-10-27T01:30:00Z",
    ]
    mars = {**timing, "timezone": "Mars/Base"}
    bad = await house.post("/v1/schedules/preview", mars, 422)
    assert "Mars/Base" in bad["detail"]
    await house.post("/v1/schedules/preview", {"count": 3}, 422)


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
