"""The tour: it asks, crashes and resumes for real, and touches nothing of the person's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Cli

from plansmith.text import HAN


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def test_the_tour_runs_crashes_and_resumes_and_leaves_nothing_behind(
    cli: Cli, intake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    # Settings, a store and tools of the person's would change the tour: it uses none.
    (intake / "plansmith.toml").write_text('[review]\nask = "always"\n', encoding="utf-8")
    monkeypatch.setenv("PLANSMITH_STORE", "postgresql://nobody@127.0.0.1:9/none")
    before = files(tmp_path)
    code, out, err = cli("demo")
    assert (code, err) == (0, "")
    assert files(tmp_path) == before
    assert "tool charts.draw" in out  # the plan
    assert re.search(r"hash [0-9a-f]{64}", out)  # what is approved
    assert "Writes totals.svg (new file" in out  # consent
    assert "320.75" in out  # the values that it is about
    crash, resumed = out.index("kill -9"), out.index("4/4")
    assert out.index("✓ mail done") < crash < resumed
    assert "✓ mail done" not in out[resumed:]
    assert "outbox.txt has 1 mail" in " ".join(out.split())
    assert "Ann wrote: received, thank you" in out
    last = out[out.index("That was all") :].splitlines()
    named = [line.split()[1] for line in last if line.startswith("  plansmith ")]
    assert named == ["ask", "model", "serve"]


def test_the_tour_is_told_in_chinese_where_the_person_reads_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    code, out, _ = cli("demo")
    assert code == 0
    names = re.compile(r"[$`=\"{:/.]|plansmith|│|^\s*(?:totals|chart|mail|receipt|answer)\b")
    alone = [each for each in out.splitlines() if not names.search(each)]
    assert [each for each in alone if each.strip() and not HAN.search(each)] == []
