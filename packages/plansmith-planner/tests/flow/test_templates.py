"""Good runs kept as templates, used again with parameters, offered for requests like theirs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.smiths import plan_of

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import PlanInvalid, Refused, ToolFailed
from plansmith.plan.data import Json
from plansmith.runs.template_book import TemplateBook
from plansmith.templates.stored import KIND
from plansmith.templates.template import Template, template_problems, with_fixed_templates
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore
from plansmith_planner.suggest import found_inputs, suggest

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = FakeTool("weather", [lambda given: {"seen": dict(given)}], input_schema=CITY)
MAIL = FakeTool(
    "mail",
    ["sent"],
    effect=Effect.FINAL,
    input_schema={"type": "object", "properties": {"to": {"type": "string", "format": "email"}}},
)


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "Weather in Oslo", "steps": list(steps)} | fields)


WANTED = plan(
    {"id": "w", "tool": "weather", "inputs": {"city": "Oslo", "days": 3}},
    {"id": "r", "instruction": "The weather in Oslo: {{w}}"},
)
CHOSEN = {"city": ["w.inputs.city", "r.instruction", "goal"], "days": ["w.inputs.days"]}
REQUEST = "Show me the weather in Oslo for the next 3 days"


def smith(*tools: FakeTool, **options: Any) -> Plansmith:
    return Plansmith(tools=[FakeTools(*(tools or (WEATHER, MAIL)))], clock=FakeClock(), **options)


async def saved(app: Plansmith, name: str = "weather") -> Template:
    run = await app.submit(WANTED, request=REQUEST)
    run = await app.run(run.id)
    book = TemplateBook(app.runs)
    return await book.save(run, name, parameters=CHOSEN, required=["city"], by="ada")


async def shelf() -> tuple[Plansmith, TemplateBook]:
    app = smith()
    await saved(app)
    return app, TemplateBook(app.runs)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({}, "PS202 'city' is missing|PS202.*city"),
        ({"city": "Rome", "town": 1}, "PS203.*town"),
        ({"city": 7}, "PS201.*city"),
        ({"city": "Rome", "days": 0}, "PS204.*days"),
    ],
)
async def test_a_missing_unknown_or_wrong_parameter_is_an_error_that_names_it(
    inputs: dict[str, Json], reason: str
) -> None:
    app, book = await shelf()
    with pytest.raises(PlanInvalid, match=reason):
        await book.use("weather", inputs)
    assert len(await app.store.runs()) == 1


async def test_versions_never_change_and_the_newest_is_meant_unless_one_is_named() -> None:
    app = smith()
    first = await saved(app)
    assert await saved(app) == first
    book = TemplateBook(app.runs)
    other = plan({"id": "w", "tool": "weather", "inputs": {"city": "Bergen"}})
    assert (await book.save(other, "weather", by="bob")).version == 2
    assert (await book.get("weather")).version == 2
    assert await book.get("weather@1") == first
    with pytest.raises(Refused, match="weather@3"):
        await book.get("weather@3")
    with pytest.raises(Refused, match="no template 'wether'") as caught:
        await book.get("wether")
    assert "weather" in caught.value.hint


async def test_removed_versions_are_kept_for_runs_and_their_numbers_are_not_used_again() -> None:
    app, book = await shelf()
    await book.save(WANTED, "weather", by="bob")
    assert [await book.remove("weather@2"), (await book.get("weather")).version] == [1, 1]
    assert await book.remove("weather") == 1
    with pytest.raises(Refused, match="no template"):
        await book.remove("weather")
    assert (await book.save(WANTED, "weather", by="bob")).version == 3
    kept = {each.name for each in await app.store.documents(KIND)}
    assert {"weather@1", "weather@2", "weather@3"} <= kept


async def test_only_a_run_that_was_done_makes_a_template() -> None:
    app = smith(FakeTool("weather", [ToolFailed("closed")], input_schema=CITY))
    run = await app.submit(WANTED)
    with pytest.raises(Refused, match="is planning"):
        await TemplateBook(app.runs).save(run, "weather")
    run = await app.run(run.id)
    with pytest.raises(Refused, match="is failed"):
        await TemplateBook(app.runs).save(run, "weather")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", PlanInvalid),
        ("[1]", Refused),
        ('{"name": "x"}', Refused),
        ('{"name": "a b", "plan": {"goal": "", "steps": []}}', Refused),
        ('{"name": "x", "plan": {"goal": "", "steps": []}}', PlanInvalid),
    ],
)
async def test_a_file_that_is_no_template_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await TemplateBook(smith().runs).take_in(text)


async def test_a_template_is_checked_against_the_tools_of_today() -> None:
    store = MemoryStore()
    await saved(smith(store=store))
    changed = FakeTool("weather", input_schema={"type": "object", "required": ["town"]})
    today = smith(changed, store=store)
    with pytest.raises(PlanInvalid, match=r"PS202.*town"):
        await TemplateBook(today.runs).use("weather", {"city": "Rome"})
    gone = smith(MAIL, store=store)
    with pytest.raises(PlanInvalid, match="PS101"):
        await TemplateBook(gone.runs).use("weather", {"city": "Rome"})
    assert await suggest(REQUEST, TemplateBook(gone.runs)) == []


async def test_a_parameter_that_no_step_uses_is_an_error() -> None:
    text = """
name: t
parameters: {type: object, properties: {city: {type: string}}}
plan: {goal: x, steps: [{id: w, tool: weather, inputs: {city: Oslo}}]}
"""
    with pytest.raises(PlanInvalid, match="no step uses the parameter 'city'"):
        await TemplateBook(smith().runs).take_in(text)


def calls(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"run_{name}", "template": name} | fields


async def test_a_ring_of_templates_and_too_many_levels_are_told_before_anything_runs() -> None:
    given = {"a": plan(calls("b")), "b": plan(calls("a"))}
    known = await TemplateBook(smith(templates=given).runs).all()
    found = template_problems(plan(calls("a")), known)
    assert [each.code for each in found] == ["PS301"]
    assert "a > b > a" in found[0].message
    leaf = plan({"id": "w", "tool": "weather", "inputs": {"city": "Oslo"}})
    chain = {f"t{n}": plan(calls(f"t{n + 1}")) for n in range(5)} | {"t5": leaf}
    known = await TemplateBook(smith(templates=chain).runs).all()
    assert template_problems(plan(calls("t1")), known) == []
    deep = template_problems(plan(calls("t0")), known)
    assert [each.code for each in deep] == ["PS007"]
    mapped = plan({"id": "m", "over": [1], "each": {"template": "t1"}})
    assert [each.code for each in template_problems(mapped, known)] == ["PS007"]


async def test_a_template_that_would_run_itself_is_not_kept() -> None:
    book = TemplateBook(smith().runs)
    await book.save(WANTED, "weather")
    with pytest.raises(PlanInvalid, match="PS301"):
        await book.save(plan(calls("weather")), "weather")


async def test_the_parameters_of_plan_steps_are_checked_and_written_down() -> None:
    _, book = await shelf()
    known = await book.all()
    lacking = template_problems(plan(calls("weather")), known)
    assert [(each.code, each.step) for each in lacking] == [("PS202", "run_weather")]
    unknown = template_problems(plan(calls("weather", version=7)), known)
    assert [each.code for each in unknown] == ["PS103"]
    assert "newest is 1" in unknown[0].hint
    fixed = with_fixed_templates(plan(calls("weather", inputs={"city": "{{q}}"})), known)
    assert fixed.steps[0].to_json() == {
        "id": "run_weather",
        "kind": "plan",
        "template": "weather@1",
        "version": 1,
        "content": known["weather"].plan.hash,
        "inputs": {"days": 3, "city": "{{q}}"},
    }
    assert template_problems(fixed, known) == []
    mapped = with_fixed_templates(
        plan({"id": "m", "over": [1], "each": {"template": "weather"}}), known
    )
    assert '"version": 1' in str(mapped.to_json()).replace("'", '"')


async def test_a_plan_that_a_program_gives_is_a_template_whose_references_are_its_parameters() -> (
    None
):
    given = plan({"id": "w", "tool": "weather", "inputs": {"city": "{{params.city}}"}})
    app = smith(templates={"given": given})
    book = TemplateBook(app.runs)
    assert (await book.get("given")).needed == ["city"]
    run = await app.run((await book.use("given", {"city": "Rome"})).id)
    assert run.steps["w"].result == {"seen": {"city": "Rome"}}
    with pytest.raises(PlanInvalid, match="PS202"):
        await book.use("given")
    with pytest.raises(Refused, match="the program passes in"):
        await book.remove("given")
    with pytest.raises(Refused, match="the program passes in"):
        await book.save(WANTED, "given")


async def test_a_similar_request_is_offered_the_template_with_what_stands_in_it() -> None:
    app, book = await shelf()
    offered = await suggest("Show me the weather in Bergen for the next 5 days", book)
    assert [each.template.full_name for each in offered] == ["weather@1"]
    assert offered[0].inputs == {"city": "Bergen", "days": 5}
    assert offered[0].missing == ()
    vague = await suggest("show weather of the next days", book)
    assert [(each.inputs, each.missing) for each in vague] == [({}, ("city",))]
    # Offered is not used: no run was begun.
    assert len(await app.store.runs()) == 1


@pytest.mark.parametrize(
    "request_",
    [
        "Translate this letter into French",
        "Delete all files in the folder",
        "",
        "Book a flight from Oslo to Rome for 3 people and mail the invoice to accounting",
        "把这份文件翻译成英文",
    ],
)
async def test_a_request_for_something_else_is_offered_nothing(request_: str) -> None:
    _, book = await shelf()
    assert await suggest(request_, book) == []


async def test_a_chinese_request_finds_a_chinese_template() -> None:
    app = smith()
    wanted = plan({"id": "w", "tool": "weather", "inputs": {"city": "奥斯陆"}}, goal="查询天气")
    run = await app.submit(wanted, request="查询奥斯陆的天气")
    run = await app.run(run.id)
    book = TemplateBook(app.runs)
    await book.save(run, "天气", parameters={"city": ["w.inputs.city"]})
    offered = await suggest("查询卑尔根的天气", book)
    assert [(each.template.name, each.inputs) for each in offered] == [("天气", {"city": "卑尔根"})]


@pytest.mark.parametrize(
    ("form", "request_", "found"),
    [
        ({"enum": ["C", "F"]}, "in F please", {"x": "F"}),
        ({"enum": ["C", "F"]}, "in F or C", {}),
        ({"enum": [1, 2]}, "take 2", {"x": 2}),
        ({"type": "string", "format": "email"}, "to bob@b.example now", {"x": "bob@b.example"}),
        ({"type": "string", "format": "email"}, "a@b.example or c@d.example", {}),
        (
            {"type": "string", "format": "uri"},
            "read https://a.example/x",
            {"x": "https://a.example/x"},
        ),
        ({"type": "string", "format": "date"}, "on 2026-02-01", {"x": "2026-02-01"}),
        ({"type": "integer"}, "for 3 days", {"x": 3}),
        ({"type": "integer"}, "for 3.5 days", {}),
        ({"type": "number"}, "for 3.5 days", {"x": 3.5}),
        ({"type": "integer"}, "v2 or 3-4", {}),
        ({"type": "string"}, "anything", {}),
        ({"type": "string", "default": "Oslo"}, "fly to Oslo", {"x": "Oslo"}),
        ({"type": "string", "default": "nowhere"}, "fly to Rome", {}),
        ({"type": "boolean", "default": True}, "true", {}),
    ],
)
def test_only_what_stands_in_the_request_is_proposed(
    form: dict[str, Any], request_: str, found: dict[str, Json]
) -> None:
    template = Template(
        name="t",
        request="fly to Oslo",
        parameters={"type": "object", "properties": {"x": form}},
        plan=plan({"id": "w", "tool": "weather", "inputs": {"city": "{{params.x}}"}}),
    )
    assert found_inputs(request_, template) == found


async def test_a_plan_runs_the_version_it_was_approved_with_whatever_is_saved_later() -> None:
    app, book = await shelf()
    run = await app.submit(plan(calls("weather", inputs={"city": "Rome"})))
    assert plan_of(run).steps[0].to_json()["template"] == "weather@1"
    await book.save(plan({"id": "w", "tool": "weather", "inputs": {"city": "B"}}), "weather")
    await book.remove("weather")
    run = await Plansmith(tools=[FakeTools(WEATHER, MAIL)], store=app.store).run(run.id)
    assert run.status is RunStatus.DONE
    assert run.steps["run_weather/w"].result == {"seen": {"city": "Rome", "days": 3}}
    with pytest.raises(PlanInvalid, match="PS103"):
        await app.submit(plan(calls("weather", inputs={"city": "Rome"})))
