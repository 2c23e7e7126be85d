"""Rules of steps over HTTP: sentences, skipped steps, and taking back what a run did."""

from __future__ import annotations

import asyncio

from tests.unit.server.house import House, tool_step


async def test_a_run_tells_its_rules_and_is_taken_back_if_approved(house: House) -> None:
    undo = {"tool": "mail", "inputs": {"city": "Oslo"}}
    never = {"equals": ["{{a}}", None]}
    run = await house.begin(
        tool_step("a"),
        tool_step("m", "mail", after=["a"], undo_with=undo),
        tool_step("n", after=["a"], when=never),
    )
    assert run["rules"]["n"] == ["only if a is null"]
    refused = await house.client.post(f"/v1/runs/{run['id']}/take-back", json={})
    assert refused.status_code == 409
    await house.approve(run)
    run = await house.until(run["id"], "done")
    assert (run["steps"]["n"]["status"], run["steps"]["n"]["rule"]) == ("skipped", "when")
    back = await house.post(f"/v1/runs/{run['id']}/take-back", status=202)
    assert (back["status"], back["origin"]["kind"]) == ("reviewing", "undo")
    assert [name for name, _ in house.tools.calls].count("mail") == 1


async def test_of_two_clients_who_take_a_run_back_at_once_one_gets_a_plan(house: House) -> None:
    undo = {"tool": "mail", "inputs": {"city": "Oslo"}}
    run = await house.begin(tool_step("m", "mail", undo_with=undo))
    assert run["can_be_undone"] is False
    await house.approve(run)
    run = await house.until(run["id"], "done")
    assert run["can_be_undone"] is True
    path = f"/v1/runs/{run['id']}/take-back"
    async with (
        house.with_token("first", "propose") as first,
        house.with_token("second", "propose") as second,
    ):
        answers = await asyncio.gather(*(each.post(path, json={}) for each in (first, second)))
        assert sorted(each.status_code for each in answers) == [202, 409]
        [made] = [each.json() for each in answers if each.status_code == 202]
    await house.approve(made)
    await house.until(made["id"], "done")
    assert [name for name, _ in house.tools.calls].count("mail") == 2
    again = await house.client.post(path, json={})
    assert again.status_code == 409
