from __future__ import annotations

from plansmith.clock import SystemClock
from plansmith.testing import FakeTool, FakeTools
from plansmith.testing.contracts import ClockContract, ToolSourceContract


class TestFakeTools(ToolSourceContract):
    good_call = ("echo", {"x": 1})

    def make_source(self) -> FakeTools:
        return FakeTools(FakeTool("echo", [{"x": 1}]), FakeTool("other"))


class TestSystemClock(ClockContract):
    def make_clock(self) -> SystemClock:
        return SystemClock()
