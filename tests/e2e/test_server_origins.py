"""Who made each argument, over HTTP: rules, templates and their parameters, programs, persons."""

from __future__ import annotations

from pathlib import Path

from tests.unit.server.house import plan, serving, tool_step

from plansmith.adapters.models.rules import RulesModel
from plansmith.plan import events as e
from plansmith.server.protocols.programs import ProgramAccess


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


async def test_a_templates_words_and_its_parameters_are_told_apart(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
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


async def test_a_plan_of_a_program_is_a_programs_and_one_of_a_person_was_submitted(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as house:
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
