"""Whatever a plan holds, its program ends as the runner does."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.exported import loaded, plan_of, with_runner, without_reasons, written
from tests.property.strategies import JSON, TEXT

from plansmith import Plan
from plansmith.errors import PlanInvalid
from plansmith.plan.data import Json
from plansmith.plan.refs import literal


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Steps with rules that use each other's results, and hostile texts."""
    steps: list[dict[str, Any]] = []
    for place in range(draw(st.integers(1, 6))):
        names = [each["id"] for each in steps]
        step: dict[str, Any] = {"id": f"s{place}", "title": draw(TEXT)}
        value: Json = literal(draw(JSON))
        source = draw(st.sampled_from(names)) if names else ""
        if source and draw(st.booleans()):
            whole = "{{" + source + "}}"
            uses: list[Json] = [whole, {"in": [whole]}, f"a {whole} {{{{{source}.x[0]}}}}"]
            value = draw(st.sampled_from(uses))
        if bool(names) and draw(st.booleans()):
            step["after"] = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        if source and draw(st.booleans()):
            step["when"] = draw(
                st.sampled_from([{"empty": f"{{{{{source}}}}}"}, {"equals": [1, 1]}])
            )
        if draw(st.booleans()):
            step["otherwise"] = {"value": draw(JSON)}
        step["on_error"] = draw(st.sampled_from(["fail", "skip", "collect", {"value": 0}]))
        if draw(st.booleans()):
            step |= {"tool": "echo", "inputs": {"value": value}}
        else:
            step |= {"over": [value, 1], "each": {"tool": "echo", "inputs": {"value": "{{item}}"}}}
        steps.append(step)
    return plan_of(*steps, goal=draw(TEXT))


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_a_random_plan_ends_as_the_runner_does(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            ours = asyncio.run(with_runner(plan, Path(folder)))
        except PlanInvalid:
            assume(False)
        program = loaded(written(plan, Path(folder)).source)
        ends: dict[str, Any] = asyncio.run(program.run_steps("", "", {}))
    results = {name: end["value"] for name, end in ends.items() if "value" in end}
    assert without_reasons(results) == ours.results
    assert [name for name, end in ends.items() if "error" in end] == ours.failed
    assert [name for name, end in ends.items() if end["status"] == "skipped"] == ours.skipped
