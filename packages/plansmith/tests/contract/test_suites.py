"""The suites for ports pass what keeps the promise of its port, and fail what breaks it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from plansmith.clock import SystemClock
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event, RunFinished, StepDone
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned
from plansmith.secrets import SecretBox
from plansmith.testing import FakeTool, FakeTools, MemoryStore
from plansmith.testing.claim_contracts import ClaimsContract
from plansmith.testing.contracts import (
    ClockContract,
    JournalStoreContract,
    PlannerContract,
    SecretsContract,
    ToolSourceContract,
)


class TestFakeTools(ToolSourceContract):
    good_call = ("echo", {"x": 1})

    def make_source(self) -> FakeTools:
        return FakeTools(FakeTool("echo", [{"x": 1}]), FakeTool("other"))


class TestSystemClock(ClockContract):
    def make_clock(self) -> SystemClock:
        return SystemClock()


class TestSecretBox(SecretsContract):
    box: type[SecretBox] = SecretBox

    def make_secrets(self, name: str, value: str, tool: str) -> SecretBox:
        return self.box({name: {"env": "KEY", "tools": [tool]}}, environment={"KEY": value})


class CallsWhatNobodyHas(PlannerContract):
    name = "bold"

    async def make(self, *_: object, **__: object) -> Planned:
        plan = Plan.model_validate({"goal": "g", "steps": [{"id": "a", "tool": "rm"}]})
        return Planned(Decision.PLAN, plan=plan)

    def make_planner(self) -> CallsWhatNobodyHas:
        return self


class Telling(SecretBox):
    def hide(self, value: Json) -> Json:
        return value


class Unfenced(MemoryStore):
    async def append(self, *given: Any, term: int = 0, **options: Any) -> None:
        await super().append(*given, **options)


class DamagesEnds(MemoryStore):
    """Takes every event, and forgets the last one of each run that is over."""

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        found = list(await super().events(run, after=after))
        over = bool(found) and isinstance(found[-1].body, RunFinished)
        return found[:-1] if over and found[-1].number > 4 else found


class AltersResults(MemoryStore):
    """Writes another result than it was given into the journal."""

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        altered = [
            each.replace(body=each.body.replace(size=7))
            if isinstance(each.body, StepDone)
            else each
            for each in events
        ]
        await super().append(altered, values, **options)


def failing(suite: Any, **given: Any) -> list[str]:
    """The tests of a suite that fail where it is given these parts."""
    failed: list[str] = []
    contract = type("Suite", (suite,), given)
    for name, test in inspect.getmembers(contract, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        try:
            test(contract())
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however it fails, it fails
            failed.append(name)
    return failed


def of(store: Callable[[], MemoryStore]) -> dict[str, Any]:
    return {"make_store": lambda _: store()}


def test_a_plan_for_a_tool_that_nobody_has_fails_the_suite() -> None:
    assert "test_a_request_leads_to_a_plan_for_the_tools_there_are_or_to_words" in failing(
        CallsWhatNobodyHas
    )


def test_a_secret_that_comes_back_fails_the_suite() -> None:
    told = failing(TestSecretBox, box=Telling)
    assert told == ["test_what_comes_back_from_a_tool_has_no_secret_in_it"]


def test_a_store_that_takes_events_of_a_lost_claim_fails_the_suite() -> None:
    failed = failing(ClaimsContract, **of(Unfenced))
    assert "test_an_append_under_an_old_term_is_refused_and_stores_nothing" in failed
    assert "test_of_two_claims_one_wins_and_only_the_owner_lets_go" not in failed


@pytest.mark.parametrize("kind", [DamagesEnds, AltersResults])
def test_a_store_whose_runs_end_damaged_fails_the_suite(kind: type[MemoryStore]) -> None:
    failed = failing(JournalStoreContract, **of(kind))
    assert "test_a_run_that_was_run_is_whole_folds_and_has_all_its_results" in failed


def test_a_good_store_passes_the_suite() -> None:
    assert failing(JournalStoreContract, **of(MemoryStore)) == []
