"""The pages for Java and Go: what they show runs, against a real server and a scripted model."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import forked
from tests.docs.test_docs import BLOCK
from tests.servers.cast import research
from tests.servers.model_server import ModelServer, Reply, Request

from plansmith_planner.dialect import dialect

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("from-java.md", "from-go.md")
PORT = "http://127.0.0.1:8765"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [code for tag, code in BLOCK.findall(text) if tag == language]


@contextlib.contextmanager
def served(page: str, folder: Path, cast: Callable[[Request], Reply] = research) -> Iterator[str]:
    """The server as the page starts it, but for its port and where the model is."""
    setup, command = blocks(page, "sh")[0].split("plansmith serve", 1)
    lines = [line for line in setup.splitlines() if line.startswith(("mkdir", "echo"))]
    subprocess.run(["bash", "-euc", "\n".join(lines)], cwd=folder, check=True)
    with ModelServer(then=cast).in_thread() as model:
        more = ["--port", "0", "--base-url", model, "--store", "sqlite:///runs.db"]
        server = forked.Popen(
            [sys.executable, "-m", "plansmith_cli", "serve", *shlex.split(command), *more],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OPENAI_API_KEY": "key", "XDG_DATA_HOME": str(folder / "data")},
        )
        try:
            assert server.stderr is not None
            line_of_link = server.stderr.readline()
            while '"ready"' not in (line := server.stderr.readline()):
                assert line, line_of_link
            found = re.search(r"http://[^/\s]+", line_of_link)
            assert found, line_of_link
            yield found[0]
        finally:
            server.terminate()
            server.communicate()


@pytest.mark.parametrize("page", PAGES)
def test_the_curl_commands_of_a_page_for_another_language_run(page: str, tmp_path: Path) -> None:
    with served(page, tmp_path) as url:
        script = blocks(page, "sh")[1].replace(PORT, url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "opened in 1932" in done.stdout
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["lost"] == []
    assert plan["plan"]["steps"][0]["step_type"] == "research"
    results = json.loads((tmp_path / "results.json").read_text())
    name = "executionRes" if page == "from-java.md" else "execution_res"  # as their classes have it
    assert results["plan"]["steps"][0][name] == "In 1932."


@pytest.mark.parametrize("page", PAGES)
def test_the_json_of_a_page_for_another_language_is_read(page: str) -> None:
    for body in map(json.loads, blocks(page, "json")):
        if "plan" in body:
            found = dialect(body["dialect"]).read(body["plan"])
            assert found.plan is not None
            assert found.problems == ()


PROGRAMS = pytest.mark.parametrize(
    "program",
    [
        ("from-java.md", "java", "Research.java", "java", "openjdk-17-jdk-headless"),
        ("from-go.md", "go", "research.go", "go", "golang-go", "run"),
    ],
    ids=["java", "go"],
)


def ran(
    program: tuple[str, ...], folder: Path, word: str, cast: Callable[[Request], Reply] = research
) -> str:
    """What the program of a page prints while a person says this word."""
    page, language, file, name, package, *more = program
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}, a large toolchain: apt-get install -y {package}")
    (folder / file).write_text(blocks(page, language)[0])
    cache = {"GOCACHE": str(Path.home() / ".cache" / "go-build"), "GO111MODULE": "off"}
    with served(page, folder, cast) as url:
        done = subprocess.run(
            [name, *more, file],
            cwd=folder,
            input=f"{word}\n",
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | cache | {"PLANSMITH_URL": url},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@PROGRAMS
@pytest.mark.parametrize("word", ["yes", "no"])
def test_the_program_of_a_page_for_another_language_runs(
    program: tuple[str, ...], word: str, tmp_path: Path
) -> None:
    printed = ran(program, tmp_path, word)
    assert "When was the bridge opened?" in printed
    assert "run_finished" in printed
    assert ("In 1932." in printed) is (word == "yes")


@pytest.mark.long
@PROGRAMS
def test_the_program_of_a_page_for_another_language_takes_an_answer_without_a_plan(
    program: tuple[str, ...], tmp_path: Path
) -> None:
    reply = Reply({"decision": "answer", "reason": "", "query": "", "answer": "In 1932, I know."})
    printed = ran(program, tmp_path, "yes", lambda _: reply)
    assert "In 1932, I know." in printed
    assert "review_asked" not in printed
