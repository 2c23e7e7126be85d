"""Who made each argument, over HTTP: rules, templates and their parameters, programs, persons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.unit.server.house import House, plan, serving, tool_step

from plansmith import Plan
from plansmith.plan import events as e
from plansmith.plan.earlier import EarlierResult, results_of
from plansmith.plan.run_options import RunOptions
from plansmith_desk.model.rules import RulesModel
from plansmith_server.protocols.programs import ProgramAccess


async def test_a_plan_by_rules_is_never_called_the_models(tmp_path: Path) -> None:
    async with serving(tmp_path, model=RulesModel()) as house:
        run = await house.post("/v1/runs", {"request": 'weather of the city "Oslo"'}, 202)
        run = await house.until(run["id"], "reviewing", "failed")
        assert run["status"] == "reviewing", run["reason"]
        marks = {mark for places in run["origins"].values() for mark in places.values()}
        assert "model" not in marks
        assert "request" in marks
        [made] = await house.get(f"/v1/runs/{run['id']}/plans")
        assert made["origin"] == "rules"


async def test_a_templates_words_and_its_parameters_are_told_apart(house: House) -> None:
    kept = plan(tool_step("a", inputs={"city": "Oslo", "unit": "celsius"}))
    body = {"name": "weather", "plan": kept, "parameters": {"city": ["a.inputs.city"]}}
    await house.post("/v1/templates", body, 201)
    given = {"parameters": {"city": "Rome"}}
    run = await house.post("/v1/templates/weather/runs", given, 202)
    assert run["origins"] == {"a": {"inputs.city": "parameter", "inputs.unit": "template"}}
    await house.approve(run)
    run = await house.until(run["id"], "done")
    again = await house.post(f"/v1/runs/{run['id']}/rerun", status=202)
    assert again["origins"] == run["origins"]


async def test_a_plan_is_a_programs_or_submitted_by_a_person(house: House) -> None:
    run = await house.begin(tool_step("a"))
    assert run["origins"] == {"a": {"inputs.city": "submitted"}}
    program = e.Actor(kind="program", name="mcp")
    smith = house.server_state.smith
    found = (await smith.get(run["id"])).plan
    assert found is not None
    made = await smith.submit(found, by=program)
    shown = await house.get(f"/v1/runs/{made.id}")
    assert shown["origins"] == {"a": {"inputs.city": "program"}}
    other = await ProgramAccess(house.server_state, program).submit(found)
    shown = await house.get(f"/v1/runs/{other}")
    assert shown["origins"] == {"a": {"inputs.city": "program"}}


async def test_an_earlier_result_reaches_a_plan_by_its_conversation_only(house: House) -> None:
    first = await house.begin(tool_step("found", inputs={"city": "Canary"}), mode="read_only")
    first = await house.until(first["id"], "done")
    ref = f"run:{first['id']}/found"
    steps = [tool_step("a", inputs={"city": {"$from": ref, "$path": ["city"]}})]
    refused = await house.post("/v1/runs", {"plan": plan(*steps)}, 422)
    assert [each["code"] for each in refused["problems"]] == ["PS316"]
    assert "Canary" not in str(refused)
    checked = await house.post("/v1/plans/check", {"plan": plan(*steps)})
    assert "PS316" in [each["code"] for each in checked["problems"]]

    smith = house.server_state.smith

    async def found(thread: str, _: int | None) -> Sequence[EarlierResult]:
        return results_of([await smith.get(first["id"])]) if thread == "talk" else ()

    smith.runs.intake.find_earlier = found
    options = RunOptions(thread="talk", message=2)
    given = Plan.model_validate(plan(*steps))
    journal = await smith.runs.create("next", plan=given, options=options, by="ann")
    path = f"/v1/runs/{journal.id}"
    run = await house.get(path)
    assert run["origins"] == {"a": {"inputs.city": f"step:{ref}"}}
    edited = await house.post(f"{path}/plan/check", {"plan": plan(*steps)})
    assert [each["code"] for each in edited["problems"]] == ["PS407", "PS317"]
    await smith.runs.run(journal.id)
    run = await house.get(path)
    assert run["steps"]["a"]["inputs"] == {"city": "Canary"}
