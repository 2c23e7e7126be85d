"""The scripts work from anywhere, say what is missing, and never half set up; no network here."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.lock_check import check, read_projects

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix
)
LOCKS = {path.stem: path.read_text() for path in (ROOT / "locks").glob("*.txt")}
PROJECTS = read_projects(ROOT)

# Stands for every Python: answers the probe, makes a .venv of itself, and plays pip.
FAKE_PYTHON = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
  -c*) [[ -n "${PROBE-}" ]] && printf '%s\\t3.11.2\\t%s\\n' "$0" "$PROBE" ;;
  *venv*--without-pip*) mkdir -p "${!#}/bin" && cp "$0" "${!#}/bin/python" ;;
  *install*) [[ -z "${OFFLINE-}" ]] || { echo "Temporary failure in name resolution"; exit 1; } ;;
esac
"""
FAKE_COMMAND = '#!/usr/bin/env bash\necho "$PWD: $*"\n'


class Checkout:
    """A copy of what the set-up reads, in a folder whose name has a space."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "my checkout"
        self.calls = folder / "calls"
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        for name in ("scripts", "locks"):
            shutil.copytree(ROOT / name, self.root / name)
        shutil.copy(ROOT / "pyproject.toml", self.root)
        for path in ROOT.glob("packages/*/pyproject.toml"):
            to = self.root / path.relative_to(ROOT)
            to.parent.mkdir(parents=True)
            shutil.copy(path, to)
        self.bin = folder / "bin"
        for name in ("python3.13", "python3.12", "python3.11", "python3"):
            executable(self.bin / name, FAKE_PYTHON)

    def has_environment(self, kind: str) -> None:
        executable(self.root / ".venv/bin/python", FAKE_PYTHON)
        executable(self.root / ".venv/bin/plansmith", FAKE_COMMAND)
        projects = self.root.glob("packages/*/pyproject.toml")
        own = sorted(str(path.relative_to(self.root)) for path in projects)
        files = [f"locks/{kind}.txt", "locks/pip.txt", *own]
        sums = subprocess.run(
            ["cksum", *files], cwd=self.root, check=True, capture_output=True, text=True
        )
        stamp = f"{self.root}\n{kind}\n{sums.stdout}"
        (self.root / ".venv/plansmith-setup").write_text(stamp)

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}:{os.environ['PATH']}"
        return subprocess.run(
            [self.root / "scripts" / command[0], *command[1:]],
            cwd=self.elsewhere,
            env={**os.environ, "PATH": path, "CALLS": str(self.calls), **env},
            check=False,
            capture_output=True,
            text=True,
        )

    def called(self) -> str:
        return self.calls.read_text() if self.calls.exists() else ""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_executable_and_says_what_it_does(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert os.access(script, os.X_OK)
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1].startswith(f"# scripts/{script.name}")
    assert "set -euo pipefail" in lines
    subprocess.run(["bash", "-n", script], check=True)


def test_no_script_names_a_host() -> None:
    assert [
        path.name for path in SCRIPTS if re.search(r"https?://|index-url", path.read_text())
    ] == []


@pytest.mark.parametrize("kind", ["core", "dev"])
def test_an_environment_that_is_ready_costs_no_python_and_no_words(
    checkout: Checkout, kind: str
) -> None:
    checkout.has_environment(kind)
    done = checkout.run("plansmith", "show", "a b")
    assert done.stdout == f"{checkout.elsewhere}: show a b\n"
    assert (done.stderr, checkout.called()) == ("", "")


def test_a_first_set_up_installs_what_is_locked_and_then_is_ready(checkout: Checkout) -> None:
    done = checkout.run("setup", "core", PROBE="pip")
    assert done.returncode == 0, done.stderr
    assert "--require-hashes -r locks/core.txt" in checkout.called()
    assert "--no-deps --no-build-isolation -e ." in checkout.called()
    executable(checkout.root / ".venv/bin/plansmith", FAKE_COMMAND)
    assert checkout.run("setup", "core").stderr == ""


@pytest.mark.parametrize("kind", ["docs", "rivals"])
def test_what_is_kept_apart_gets_an_environment_of_its_own(checkout: Checkout, kind: str) -> None:
    checkout.has_environment("dev")
    done = checkout.run("setup", kind, PROBE="pip")
    assert done.returncode == 0, done.stderr
    assert f"making .venv-{kind}" in done.stderr
    assert f"--require-hashes -r locks/{kind}.txt" in checkout.called()
    assert "-e ." not in checkout.called()
    assert checkout.run("setup", kind).stderr == ""
    assert checkout.run("setup", "dev").stderr == ""


@pytest.mark.parametrize("damage", ["moved", "unfinished", "other lock", "no python"])
def test_an_environment_that_cannot_be_trusted_is_made_again(
    checkout: Checkout, damage: str
) -> None:
    checkout.has_environment("core")
    stamp = checkout.root / ".venv/plansmith-setup"
    match damage:
        case "moved":
            stamp.write_text(stamp.read_text().replace("my checkout", "old place"))
        case "unfinished":
            stamp.unlink()
        case "other lock":
            (checkout.root / "locks/core.txt").write_text("other==1\n")
        case _:
            (checkout.root / ".venv/bin/python").unlink()
    done = checkout.run("setup", "core", PROBE="ensurepip")
    assert done.returncode == 0, done.stderr
    assert "making .venv with Python 3.11.2" in done.stderr
    assert "-m ensurepip" in checkout.called()


def test_a_changed_pyproject_installs_only_plansmith_again(checkout: Checkout) -> None:
    checkout.has_environment("dev")
    with (checkout.root / "packages/plansmith/pyproject.toml").open("a") as file:
        file.write("# changed\n")
    checkout.run("setup", "core")
    assert "-e ." in checkout.called()
    assert "-r locks" not in checkout.called()
    assert checkout.run("setup", "dev").stderr == ""


@pytest.mark.parametrize(
    ("probe", "words"),
    [("", "no Python 3.11 or newer found"), ("none", "has neither pip nor ensurepip")],
)
def test_what_has_to_be_installed_first_is_said(checkout: Checkout, probe: str, words: str) -> None:
    done = checkout.run("plansmith", PROBE=probe)
    assert done.returncode == 1
    assert words in done.stderr
    assert "apt install" in done.stderr


def test_without_a_network_the_first_set_up_says_so(checkout: Checkout) -> None:
    done = checkout.run("plansmith", PROBE="pip", OFFLINE="1")
    assert done.returncode == 1
    assert "package index could not be reached" in done.stderr


def test_without_a_network_the_core_goes_on_working_when_dev_cannot_be_made(
    checkout: Checkout,
) -> None:
    checkout.has_environment("core")
    assert checkout.run("setup", "dev", OFFLINE="1").returncode == 1
    assert checkout.run("plansmith", "show").stderr == ""


def test_the_test_script_fails_on_skips_and_passes_its_arguments_on(checkout: Checkout) -> None:
    checkout.has_environment("dev")
    done = checkout.run("test", "tests/crash", "-k", "x")
    assert (done.returncode, done.stderr) == (0, "")
    assert checkout.called() == "-m pytest --strict-skips tests/crash -k x\n"


@pytest.mark.parametrize("user", ["0", "1000"])
def test_a_run_of_all_tests_prints_what_it_installs_and_only_root_installs_packages(
    checkout: Checkout, user: str
) -> None:
    checkout.has_environment("dev")
    executable(checkout.root / "scripts/page", FAKE_COMMAND)
    few = checkout.elsewhere / "few"  # a machine with these programs and no others
    for name in ("bash", "cat", "cksum", "dirname", "env", "mkdir", "readlink"):
        (few / name).parent.mkdir(exist_ok=True)
        (few / name).symlink_to(str(shutil.which(name)))
    executable(few / "id", f"#!/bin/sh\necho {user}\n")
    executable(few / "apt-get", '#!/bin/sh\necho "apt-get $*" >>"$CALLS"\n')
    done = checkout.run("test", PATH=str(few))
    assert done.returncode == 0, done.stderr
    missing = "chromium fonts-noto-cjk nodejs npm"
    assert ("apt-get" in checkout.called()) == (user == "0")
    assert missing in (checkout.called() if user == "0" else done.stderr)
    for line in checkout.called().splitlines():
        if "pytest" not in line:
            assert line in done.stderr, "it was run and not printed"
    programs = re.findall(r"^(?:-m )?(\S*tests[./]\S+)$", checkout.called(), re.MULTILINE)
    assert programs
    for each in programs:
        assert (ROOT / each.removesuffix(".py").replace(".", "/")).with_suffix(".py").is_file()
    *_, tests = checkout.called().splitlines()
    assert tests.startswith("-m pytest --strict-skips -n 3 --dist worksteal --durations 10 ")


def test_the_locks_hold_what_the_project_asks_for() -> None:
    assert check(PROJECTS, LOCKS) == []


@pytest.mark.parametrize(
    ("lock", "pattern", "replacement", "problem"),
    [
        ("core", r"pydantic==\S+", "pydantic==1.10.0", "core: pydantic 1.10.0 does not satisfy"),
        ("core", r"mdurl==\S+", "mdurl==0.0.1", "core: mdurl 0.0.1 is not what locks/dev.txt has"),
        ("dev", r"mcp==\S+", "other==1.0", "dev: mcp>=2.3 is missing"),
        ("pip", r"(?s) \\\n.*", "\n", "pip: pip has no hash"),
        ("dev", r"\A", "--index-url x\n", "dev: names a host: --index-url x"),
        ("core", r"scripts/lock # \w+", "", "core: a pyproject.toml has changed"),
        ("rivals", r"scripts/lock # \w+", "", "rivals: a pyproject.toml has changed"),
        ("rivals", r"\nlanggraph==\S+", "\nlanggraph==0.1.0", "rivals: langgraph 0.1.0 does not"),
    ],
)
def test_a_lock_that_is_wrong_is_told(
    lock: str, pattern: str, replacement: str, problem: str
) -> None:
    changed = re.sub(pattern, replacement, LOCKS[lock])
    assert any(told.startswith(problem) for told in check(PROJECTS, {**LOCKS, lock: changed}))
