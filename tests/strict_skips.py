"""A pytest plugin: with --strict-skips, a skip that tests/allowed_skips.toml does not list fails.

A listed skip has to say what the list expects, so that a test cannot be skipped for another
reason.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

LIST = Path(__file__).with_name("allowed_skips.toml")
Report = pytest.TestReport | pytest.CollectReport
R = TypeVar("R", pytest.TestReport, pytest.CollectReport)


@dataclass(frozen=True, kw_only=True)
class AllowedSkip:
    """Tests that may be skipped when their skip says the words of `says`."""

    test: str  # a test id; `*` stands for anything
    says: str
    reason: str

    def covers(self, report: Report) -> bool:
        pattern = re.escape(self.test).replace(r"\*", ".*")
        return bool(re.fullmatch(pattern, report.nodeid)) and self.says in why(report)


def why(report: Report) -> str:
    """The reason that a skip gives."""
    text = report.longrepr
    return str(text[2] if isinstance(text, tuple) else text).removeprefix("Skipped: ")


def read_list(path: Path) -> list[AllowedSkip]:
    """The entries of a list of allowed skips."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return [AllowedSkip(**entry) for entry in found.get("allowed", [])]


class StrictSkips:
    """Fails skips that are not allowed, and counts those that are."""

    def __init__(self, allowed: list[AllowedSkip]) -> None:
        self._allowed = allowed
        self._used: Counter[AllowedSkip] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        return self._judge((yield))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        return self._judge((yield))

    def _judge(self, report: R) -> R:
        if report.skipped and not hasattr(report, "wasxfail") and self._entry(report) is None:
            report.outcome = "failed"
            report.longrepr = (
                f"{report.nodeid} was skipped, and {LIST.name} does not allow it.\n"
                f"The skip says: {why(report)}\n"
                "Let the test run here, or list it with a reason."
            )
        return report

    def _entry(self, report: Report) -> AllowedSkip | None:
        return next((entry for entry in self._allowed if entry.covers(report)), None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and (entry := self._entry(report)):
            self._used[entry] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for entry, count in self._used.items():
            terminalreporter.write_line(f"allowed: {count} x {entry.test}: {entry.reason}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help=f"fail tests that are skipped and not listed in tests/{LIST.name}",
    )
    parser.addoption(
        "--allowed-skips", type=Path, default=LIST, help="the list that --strict-skips reads"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--strict-skips"):
        allowed = read_list(Path(str(config.getoption("--allowed-skips"))))
        config.pluginmanager.register(StrictSkips(allowed), "strict-skips-running")
