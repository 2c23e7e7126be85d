"""The suites fail planners, secrets and stores that break the promise of their port."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned
from plansmith.secrets import SecretBox
from plansmith.testing import MemoryStore
from plansmith.testing.claim_contracts import ClaimsContract
from plansmith.testing.contracts import PlannerContract, SecretsContract


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


class Tells(SecretsContract):
    def make_secrets(self, name: str, value: str, tool: str) -> SecretBox:
        return Telling({name: {"env": "KEY", "tools": [tool]}}, environment={"KEY": value})


class Unfenced(MemoryStore):
    async def append(self, *given: Any, term: int = 0, **options: Any) -> None:
        await super().append(*given, **options)


class WritesWithoutClaim(ClaimsContract):
    def make_store(self) -> MemoryStore:
        return Unfenced()


def test_a_plan_for_a_tool_that_nobody_has_fails_the_suite() -> None:
    with pytest.raises(AssertionError):
        CallsWhatNobodyHas().test_a_request_leads_to_a_plan_for_the_tools_there_are_or_to_words()


def test_a_secret_that_comes_back_fails_the_suite() -> None:
    Tells().test_a_secret_is_revealed_to_its_tool_and_to_no_other()
    with pytest.raises(AssertionError):
        Tells().test_what_comes_back_from_a_tool_has_no_secret_in_it()


def test_a_store_that_takes_events_of_a_lost_claim_fails_the_suite() -> None:
    store = WritesWithoutClaim()
    store.test_of_two_claims_one_wins_and_only_the_owner_lets_go()
    with pytest.raises(pytest.fail.Exception):
        store.test_an_append_under_an_old_term_is_refused_and_stores_nothing()
