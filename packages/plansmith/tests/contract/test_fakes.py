from __future__ import annotations

from plansmith.clock import SystemClock
from plansmith.secrets import SecretBox
from plansmith.testing import FakeTool, FakeTools
from plansmith.testing.contracts import ClockContract, SecretsContract, ToolSourceContract


class TestFakeTools(ToolSourceContract):
    good_call = ("echo", {"x": 1})

    def make_source(self) -> FakeTools:
        return FakeTools(FakeTool("echo", [{"x": 1}]), FakeTool("other"))


class TestSystemClock(ClockContract):
    def make_clock(self) -> SystemClock:
        return SystemClock()


class TestSecretBox(SecretsContract):
    def make_secrets(self, name: str, value: str, tool: str) -> SecretBox:
        return SecretBox({name: {"env": "KEY", "tools": [tool]}}, environment={"KEY": value})
