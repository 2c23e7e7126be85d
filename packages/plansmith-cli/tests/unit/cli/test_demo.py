"""The tour: it asks, crashes and resumes for real, and touches nothing of the person's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Cli

from plansmith.text import HAN


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def test_the_tour_runs_crashes_and_resumes_in_chinese_and_leaves_nothing_behind(
    cli: Cli, intake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
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
    assert "charts.draw" in out  # the plan
    digest = re.search(r"approve last ([0-9a-f]{64}) --go", out)
    assert digest is not None
    assert out.count(digest[1]) > 1  # what is approved is what was shown
    assert "320.75" in out  # the values that consent is about
    crash, resumed = out.index("kill -9"), out.index("4/4")
    assert out.index("✓ mail") < crash < resumed
    assert "✓ mail" not in out[resumed:]
    assert "outbox.txt 里有 1 封邮件" in "".join(out.split("\n"))
    names = re.compile(r"[$`=\"{:/.]|plansmith|│|^\s*(?:totals|chart|mail|receipt|answer)\b")
    alone = [each for each in out.splitlines() if not names.search(each)]
    assert [each for each in alone if each.strip() and not HAN.search(each)] == []
    last = [line.split()[1] for line in out.splitlines() if line.startswith("  plansmith ")]
    assert last == ["ask", "model", "serve"]
