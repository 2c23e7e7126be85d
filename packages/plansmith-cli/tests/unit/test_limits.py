"""One set of limits: the same classes and defaults whichever door a run comes through."""

from __future__ import annotations

import inspect
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.server.house import serving

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import Misconfigured
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.review.settings import ReviewPolicy
from plansmith.testing import FakeTool, FakeTools
from plansmith_cli.config import Settings, load_settings
from plansmith_cli.wiring import make_smith
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.settings import BuiltinSettings
from plansmith_planner.models.provider import ProviderModel
from plansmith_planner.settings import ModelSettings
from plansmith_server.bodies import Behaviour, NewRun


def by_parameter(function: Any) -> dict[str, object]:
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def reading_and_mailing() -> tuple[FakeTools, Plan]:
    source = FakeTools(
        FakeTool("look", [{"to": "eve@example.org"}]),
        FakeTool("mail", ["sent"], effect=Effect.FINAL),
    )
    steps = [{"id": "a", "tool": "look"}, {"id": "m", "tool": "mail", "inputs": {"to": "{{a.to}}"}}]
    return source, Plan.model_validate({"goal": "mail", "steps": steps})


async def through(smith: Plansmith, plan: Plan) -> Any:
    run = await smith.submit(plan)
    await smith.decide(run.id, approve=plan.hash, by="ada")
    return await smith.run(run.id)


def by_field(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).model_fields}


def _rules(smith: Plansmith) -> tuple[Limits, BudgetLimits, ReviewPolicy]:
    runs = smith.runs
    return runs.execution.limits, runs.budgets.limits, runs.intake.policy


async def test_every_default_is_the_same_through_every_door(tmp_path: Path) -> None:
    library = Plansmith()
    wired = make_smith(Settings(store="memory"), model=None)
    loaded = load_settings(folder=tmp_path, environment={"HOME": str(tmp_path)})
    async with serving(tmp_path) as house:
        served = house.server_state.smith
        doors = {
            "library": _rules(library),
            "settings": (Settings().run, Settings().budget, Settings().review),
            "files": (loaded.run, loaded.budget, loaded.review),
            "from settings": _rules(wired),
            "server": _rules(served),
        }
    for door, found in doors.items():
        for one, usual in zip(found, (Limits(), BudgetLimits(), ReviewPolicy()), strict=True):
            # The server of these tests plays the demo, which has no other plan to offer.
            known = {"max_replans"} if door == "server" else set[str]()
            assert {name for name, each in by_field(one).items() if name not in known} == {
                name for name in by_field(usual) if name not in known
            }
            for name, each in by_field(usual).items():
                assert name in known or by_field(one)[name] == each, (door, name)
    assert Behaviour().settings() == {}
    assert NewRun(request="x").budget is None
    assert library.runs.planning.early_start is Limits().early_start is True


def test_money_keeps_its_digits_on_every_way() -> None:
    for said in ("0.50", Decimal("0.50")):
        assert BudgetLimits(money=said).to_json() == {"money": "0.50"}  # type: ignore[arg-type]
    settings = Settings.model_validate({"budget": {"money": 0.5}})
    assert settings.budget.money == Decimal("0.5")


async def test_a_wrong_budget_is_told_in_the_same_words_through_every_door(tmp_path: Path) -> None:
    rule = "must be at least 1"
    (tmp_path / "plansmith.toml").write_text("[budget]\nsteps = 0\n", encoding="utf-8")
    with pytest.raises(Misconfigured, match=f"budget.steps {rule}"):
        load_settings(folder=tmp_path, environment={"HOME": str(tmp_path)})
    with pytest.raises(Misconfigured, match=f"budget.steps {rule}"):
        await Plansmith().plan("r", budget={"steps": 0})
    async with serving(tmp_path) as house:
        body = {"request": "r", "budget": {"steps": 0}}
        told = (await house.client.post("/v1/runs", json=body)).json()
        blank = (await house.client.post("/v1/runs", json={"request": "  "})).json()
    assert blank["detail"] == "the body (request): must not be blank"
    assert told["detail"] == f"the body (budget.steps): {rule}"
    assert told["problems"] == [{"path": ["budget", "steps"], "message": rule}]


def test_parts_that_programs_make_themselves_have_the_defaults_of_the_settings() -> None:
    model, built = by_parameter(ProviderModel), by_parameter(builtin_sources)
    for name in ("timeout_s", "output"):
        assert model[name] == getattr(ModelSettings(), name)
    for name in ("write", "hosts", "private", "writable", "databases"):
        assert built[name] == getattr(BuiltinSettings(), name)


async def test_a_program_is_asked_before_what_a_tool_said_reaches_an_approved_write() -> None:
    source, plan = reading_and_mailing()
    async with Plansmith(tools=[source]) as smith:
        run = await through(smith, plan)
        assert run.status is RunStatus.ASKING
        [question] = run.questions.values()
        assert (question.kind, question.callee, question.sources) == ("consent", "mail", ("a",))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Limits, {"width": 0}),
        (Limits, {"tries": True}),
        (Limits, {"width": 10.5}),
        (Limits, {"per_tool": {"x": 0}}),
        (Limits, {"data": "never"}),
        (Limits, {"grace_s": float("nan")}),
        (Limits, {"caps": 3}),
        (BudgetLimits, {"money": "-1"}),
        (BudgetLimits, {"money": "NaN"}),
        (BudgetLimits, {"money": "1e400"}),
        (BudgetLimits, {"steps": 0}),
        (BudgetLimits, {"seconds": float("inf")}),
    ],
)
def test_a_program_gives_no_limit_that_settings_would_refuse(kind: Any, given: Any) -> None:
    with pytest.raises(ValidationError):
        kind(**given)
