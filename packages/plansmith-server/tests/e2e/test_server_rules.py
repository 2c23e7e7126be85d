"""Rules of steps over HTTP: sentences, skipped steps, and taking back what a run did."""

from __future__ import annotations

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
