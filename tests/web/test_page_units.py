"""What the page computes without a browser, its lock, its types and its way into the wheel."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from tests.web.browser import ROOT, build_page, needs_packages

WEB = ROOT / "web"


def test_the_page_folds_compares_and_draws_as_it_should() -> None:
    needs_packages()
    command = [str(ROOT / "scripts" / "page"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[max(output.find("\nnot ok"), 0) :][:6000]


def test_the_lock_is_exact_and_names_no_host() -> None:
    wanted = json.loads((WEB / "package.json").read_text())
    locked = json.loads((WEB / "package-lock.json").read_text())
    assert wanted["overrides"] == {"rolldown": "1.2.15"}
    assert list(wanted["dependencies"]) == ["preact"]
    for name, entry in locked["packages"].items():
        assert not name or (entry["integrity"] and "resolved" not in entry), name


def test_the_page_is_inside_the_wheel_as_its_types_allow(tmp_path: Path) -> None:
    build_page()  # which checks the types first
    (path,) = WheelBuilder(str(ROOT / "packages" / "plansmith-server")).build(
        directory=str(tmp_path)
    )
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        index = wheel.read("plansmith_server/page/index.html").decode()
    files = re.findall(r'(?:src|href)="\./([^"]+)"', index)
    assert len(files) > 3
    assert {f"plansmith_server/page/{each}" for each in files} <= names

    # Nothing inline, and nothing from outside.
    assert not re.search(r"https?://|<style|style=|\son\w+=", index)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", index) == [""]
