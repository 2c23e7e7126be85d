"""One set of limits: the same classes and defaults whichever door a run comes through."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.house import serving

from plansmith import Plansmith
from plansmith.errors import Misconfigured
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.review.settings import ReviewPolicy
from plansmith_cli.config import Settings, load_settings
from plansmith_cli.wiring import make_smith
from plansmith_server.bodies import Behaviour, NewRun


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
