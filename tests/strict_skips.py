"""A pytest plugin: with --strict-skips, a skip that tests/allowed_skips.toml does not list fails.

A listed skip has to say what the list expects, so that a test cannot be skipped for another
reason. In a run of all tests an entry that was not needed fails too.
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
    sometimes: bool = False  # other machines run the tests: then it is enough that they exist

    def __post_init__(self) -> None:
        if not (self.says.strip() and self.reason.strip()):
            raise pytest.UsageError(f"{self.test}: an allowed skip needs `says` and `reason`")

    def names(self, report: Report) -> bool:
        pattern = re.escape(self.test).replace(r"\*", ".*")
        return bool(re.fullmatch(pattern, report.nodeid))

    def covers(self, report: Report) -> bool:
        return self.names(report) and self.says in why(report)


def why(report: Report) -> str:
    """The reason that a skip gives."""
    told = report.longrepr
    return str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")


def read_list(path: Path) -> list[AllowedSkip]:
    """The entries of a list of allowed skips."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        return [AllowedSkip(**entry) for entry in found.pop("allowed", [])]
    except (OSError, tomllib.TOMLDecodeError, TypeError) as error:
        raise pytest.UsageError(f"{path.name}: {error}") from error


class StrictSkips:
    """Fails skips that are not allowed, and counts those that are."""

    def __init__(self, config: pytest.Config, allowed: list[AllowedSkip]) -> None:
        self._config = config
        self._allowed = allowed
        self._used: Counter[AllowedSkip] = Counter()
        self._seen: set[AllowedSkip] = set()
        self._unneeded: list[AllowedSkip] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        return self._judge(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        return self._judge(report)

    def _judge(self, report: R) -> R:
        expected = hasattr(report, "wasxfail")
        if report.skipped and not expected and self._entry(report) is None:
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
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: Report) -> None:
        if report.skipped and (entry := self._entry(report)):
            self._used[entry] += 1
        self._seen.update(entry for entry in self._allowed if entry.names(report))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not _ran_everything(self._config):
            return
        self._unneeded = [
            entry
            for entry in self._allowed
            if not (entry in self._seen if entry.sometimes else self._used[entry])
        ]
        if self._unneeded and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._used or self._unneeded:
            terminalreporter.section("allowed skips")
        for entry, count in self._used.items():
            terminalreporter.write_line(f"{count} x {entry.test}: {entry.reason}")
        for entry in self._unneeded:
            terminalreporter.write_line(
                f"ERROR: {LIST.name} allows {entry.test} to be skipped"
                f" ({entry.says!r}), and no such test was: delete the entry",
                red=True,
            )


def _ran_everything(config: pytest.Config) -> bool:
    chosen = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    narrowed = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "maxfail")
    return (
        chosen
        and not hasattr(config, "workerinput")
        and not any(config.getoption(name, default=None) for name in narrowed)
    )


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
        config.pluginmanager.register(StrictSkips(config, allowed), "strict-skips-running")
