"""The rules that the suite keeps for itself: skips fail in CI, hanging tests are interrupted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.strict_skips import LIST, read_list
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TESTS = """
import asyncio
import pytest

def test_it_runs() -> None:
    pass

@pytest.mark.skipif(True, reason="no gadget here")
def test_it_needs_a_gadget() -> None:
    pass
"""
ALLOWED = """
[[allowed]]
test = "*test_it_needs_a_gadget"
says = "no gadget"
reason = "the gadget exists twice in the world"
"""
# Its plugin takes longer to load than these tests take.
QUICK = ("-p", "no:schemathesis")
PLUGINS = "pytest_plugins = ['tests.strict_skips', 'tests.time_limits']"


@pytest.fixture(autouse=True)
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLANSMITH_LONG", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(PLUGINS)
    pytester.makepyfile(TESTS)
    pytester.makeini(
        f"[pytest]\ntestpaths = .\npythonpath = {ROOT}\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\nmarkers = long\ntimeout_method = signal\n"
    )


def run(pytester: pytest.Pytester, *options: str, allowed: str = "") -> pytest.RunResult:
    pytester.path.joinpath("allowed.toml").write_text(allowed)
    return pytester.runpytest_inprocess("--allowed-skips=allowed.toml", *QUICK, *options)


def test_a_skip_is_reported_to_a_developer_and_fails_where_it_is_not_listed(
    pytester: pytest.Pytester,
) -> None:
    run(pytester).assert_outcomes(passed=1, skipped=1)
    done = run(pytester, "--strict-skips")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["*was skipped, and * does not allow it*", "*no gadget here*"])


def test_a_listed_skip_passes_and_is_printed_with_its_reason(pytester: pytest.Pytester) -> None:
    done = run(pytester, "--strict-skips", allowed=ALLOWED)
    assert done.ret == pytest.ExitCode.OK
    done.stdout.fnmatch_lines(["*1 x *needs_a_gadget: the gadget exists twice in the world"])
    other = ALLOWED.replace("no gadget", "another reason")
    assert run(pytester, "--strict-skips", allowed=other).ret == pytest.ExitCode.TESTS_FAILED


def test_the_list_of_the_suite_is_short_and_names_tests_that_are_there() -> None:
    listed = read_list(LIST)
    assert len(listed) <= 8
    assert all((ROOT / each.test.partition("::")[0]).exists() for each in listed)


def test_a_test_that_hangs_is_interrupted_where_it_waits(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio

        async def wait_for_nobody():
            await asyncio.Event().wait()

        async def test_it_hangs():
            await asyncio.create_task(wait_for_nobody())

        def test_the_next_one_still_runs():
            pass
        """
    )
    # In a process of its own: two timers of one process would stop each other.
    done = pytester.runpytest_subprocess("--timeout=0.5", *QUICK)
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        ["*Stack for <Task *wait_for_nobody*", "*await asyncio.Event().wait()"]
    )


def test_a_long_test_runs_only_when_it_is_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.long\ndef test_long(): pass\ndef test_short(): pass"
    )
    run(pytester, "--strict-skips").assert_outcomes(passed=1, deselected=1)
    monkeypatch.setenv("PLANSMITH_LONG", "1")
    run(pytester, "--strict-skips").assert_outcomes(passed=2)


async def test_waiting_too_long_fails_and_says_for_what() -> None:
    never_comes = False
    with pytest.raises(pytest.fail.Exception, match="never_comes"):
        await until(lambda: never_comes, seconds=0.05)


# A process that `tests/forked.py` forks behaves as one that was started


async def test_a_fork_of_asyncio_leaves_what_others_start_alone() -> None:
    ids = "import os; print(os.getpid(), flush=True); input()"
    process = await forked.create_subprocess_exec(sys.executable, "-c", ids, stdin=-1, stdout=-1)
    assert process.stdout is not None
    assert int(await process.stdout.readline()) == process.pid
    await process.communicate(b"\n")
    assert process.returncode == 0
    assert subprocess.Popen is forked.STARTED
