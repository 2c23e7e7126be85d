"""Requests that rules plan: no model is asked, and the answer is there at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.commands import typed

from plansmith import Plansmith
from plansmith.plan.events import PlanProposed
from plansmith.plan.run import RunStatus
from plansmith.testing import FakeClock, ScriptedModel
from plansmith_desk.builtin import builtin_sources
from plansmith_planner.settings import PlannerSettings


def smith(
    folder: Path, model: ScriptedModel, told: list[str] | None = None, *, triage: bool = True
) -> Plansmith:
    clock = FakeClock(datetime(2026, 11, 16, 9, 12, tzinfo=UTC))
    return Plansmith(
        model=model,
        tools=builtin_sources(folder, clock=clock),
        clock=clock,
        settings=PlannerSettings(triage=triage),
        tell=(list[str]() if told is None else told).append,
    )


@pytest.mark.parametrize(
    ("text", "answer", "why"),
    [
        ("what is 17.5 % of 2,340", "17.5 % of 2,340 is 409.5.", "by rules: arithmetic"),
        ("2,340 的 17.5% 是多少", "2,340 的 17.5%是 409.5。", "按规则：算术"),
        ("72°F in Celsius", "72 °F = 22.222 °C.", "by rules: units of measure"),
        (
            "what time is it in Tokyo",
            "It is 18:12 on Monday, 16 November 2026 in Tokyo.",
            "by rules: time",
        ),
        ("距离圣诞节还有几天", "距离圣诞节还有 39 天（2026-12-25）。", "按规则：日期"),
    ],
)
async def test_an_instant_plan_is_made_and_answered_without_any_model(
    text: str, answer: str, why: str, tmp_path: Path
) -> None:
    told: list[str] = []
    async with smith(tmp_path, ScriptedModel(), told) as planner:
        run = await planner.run((await planner.plan(text)).id)
        events = await planner.store.events(run.id)
    assert run.status is RunStatus.DONE
    assert run.steps["answer"].result == answer
    assert run.plan is not None
    assert not run.plan.degraded
    assert run.plan.thought == why
    assert why in told
    made = [each.body for each in events if isinstance(each.body, PlanProposed)]
    assert [each.origin for each in made] == ["rules"]
    assert made[0].metrics is None or not made[0].metrics.degraded


async def test_no_instant_plan_is_made_where_triage_is_off(tmp_path: Path) -> None:
    steps: Sequence[object] = [
        {"id": "sum", "tool": "calculator.compute", "inputs": {"expression": "2+2"}},
        {"id": "say", "instruction": "{{sum.text}}", "style": "exact"},
    ]
    model = ScriptedModel({"goal": "x", "steps": steps})
    async with smith(tmp_path, model, triage=False) as planner:
        run = await planner.plan("2+2")
    assert run.plan is not None
    assert [step.id for step in run.plan.steps] == ["sum", "say"]


class Listener:
    """A server that counts who knocks."""

    def __init__(self) -> None:
        self.knocks = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                knock, _ = self._socket.accept()
            except OSError:
                return
            self.knocks += 1
            knock.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def listener() -> Generator[Listener]:
    found = Listener()
    yield found
    found.close()


def test_ask_looks_for_no_model_before_an_instant_plan(
    tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"HOME": str(tmp_path), "OLLAMA_HOST": listener.address, "PATH": ""}
    told = typed(
        "ask", "what is 2+2", "--yes", folder=tmp_path, environment=environment, capsys=capsys
    )
    assert told.code == 0
    assert "2+2 = 4" in told.out
    assert "by rules: arithmetic" in told.err
    assert listener.knocks == 0
