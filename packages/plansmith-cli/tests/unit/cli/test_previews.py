"""What a review shows before the approval, and what the flags about it do; for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Cli

PY = ("--tools", "desk.py", "--no-input")
TOOLS = '''
import json
from pathlib import Path

from plansmith import tool


@tool(effect="read")
def people() -> list[dict]:
    """Whom to write to."""
    with Path("reads.txt").open("a", encoding="utf-8") as file:
        file.write("people\\n")
    return json.loads(Path("people.json").read_text(encoding="utf-8"))


@tool(effect="read", free=False)
def price() -> int:
    """What it costs; asking costs, too."""
    return 5


def letter(to: str, body: str) -> str:
    return f"To: {to}\\n\\n{body}\\n-- {Path('footer.txt').read_text(encoding='utf-8')}"


@tool(effect="final", preview=letter)
def mail(to: str, body: str) -> str:
    """Send a letter."""
    with Path("outbox.txt").open("a", encoding="utf-8") as file:
        file.write(f"{to}: {body}\\n")
    return "sent"
'''
READ = {"id": "p", "tool": "people"}
MAIL = {"tool": "mail", "inputs": {"to": "{{item.mail}}", "body": "Hi {{item.name}}"}}
EACH = {"id": "each", "over": "{{p}}", "each": MAIL}
ONE = {"id": "one", "tool": "mail", "inputs": {"to": "a@x.org", "body": "{{p.0.name}}"}}
AFTER = {"id": "after", "tool": "mail", "inputs": {"to": "b@x.org", "body": "{{one}}"}}
PAID = {"id": "paid", "tool": "mail", "inputs": {"to": "a@x.org", "body": "{{c}}"}}


def put(*names: str) -> None:
    rows = [{"name": name, "mail": f"{name[:9]}@x.org"} for name in names]
    Path("people.json").write_text(json.dumps(rows), encoding="utf-8")


@pytest.fixture(autouse=True)
def house(desk: Path) -> None:
    (desk / "desk.py").write_text(TOOLS, encoding="utf-8")
    (desk / "footer.txt").write_text("us", encoding="utf-8")
    put("ann", "bob")


def outbox() -> list[str]:
    path = Path("outbox.txt")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def shown(err: str) -> list[str]:
    """The lines of a review that say what would happen."""
    return err[err.index("With the data of now") : err.index("  hash ")].splitlines()


def preview(cli: Cli) -> Any:
    found: Any = cli.json("show last")["preview"]
    return found


def test_the_hash_that_a_review_prints_approves_what_it_shows_and_nothing_is_asked(
    cli: Cli,
) -> None:
    err = cli("run", cli.write(READ, EACH, ONE, AFTER), *PY, code=5).err
    lines = shown(err)
    assert lines[1:8] == [
        "  1-2. mail (each)",
        "    with these values, which came out of: p (people)",
        "    │    to         body",
        "    │ ─  ─────────  ──────",
        "    │ 1  ann@x.org  Hi ann",
        "    │ 2  bob@x.org  Hi bob",
        "  3. mail (one)",
    ]
    assert {"    │ body = ann", "    │ To: a@x.org", "    │ -- us"} <= {*lines}
    assert "  mail (after) comes later: it needs what comes out of one" in lines
    assert outbox() == []
    seen = preview(cli)
    assert [each["step"] for each in seen["calls"]] == ["each/0", "each/1", "one"]
    assert err.count(seen["hash"]) == 2  # shown, and in the command for scripts
    cli("approve last", "0" * 64, *PY, code=4)
    err = cli("approve last", seen["hash"], "--go", *PY, code=5).err
    assert sorted(outbox()) == ["a@x.org: ann", "ann@x.org: Hi ann", "bob@x.org: Hi bob"]
    assert [each["step"] for each in cli.json("show last")["questions"]] == ["after"]
    assert Path("reads.txt").read_text() == "people\n"


def test_without_a_preview_nothing_is_read_and_every_value_is_asked_about(cli: Cli) -> None:
    err = cli("run", cli.write(READ, ONE), "--no-preview", *PY, code=5).err
    run = cli.json("show last")
    assert (run["preview"], f"hash {run['hash']}" in err) == (None, True)
    assert not Path("reads.txt").exists()
    cli("approve last", run["hash"], "--go", *PY, code=5, err="asks for your consent to call mail")
    assert outbox() == []


def test_a_review_of_a_plan_that_was_only_made_shows_what_it_would_change(cli: Cli) -> None:
    cli("run", cli.write(READ, ONE), "--no-preview", *PY, code=5)
    cli("approve last", *PY, code=5, err="1. mail (one)")
    assert Path("reads.txt").exists()
    cli("approve last --show", *PY, code=0, out=("body (3):", "│ ann"))


def test_what_costs_or_is_to_be_seen_first_is_read_only_at_a_word(cli: Cli) -> None:
    cli("run", cli.write({"id": "c", "tool": "price"}, PAID), *PY, code=5)
    assert preview(cli) is None
    err = cli("go last --preview", *PY, code=5, err="Reading, which changes nothing: price").err
    assert "    │ body = 5" in shown(err)
    Path("plansmith.toml").write_text('[review]\nask = "always"\n', encoding="utf-8")
    cli("trust --yes", cli.json("trust", code=5)["hash"])
    cli("run", cli.write(READ, ONE), *PY, code=5)
    assert (preview(cli), Path("reads.txt").exists()) == (None, False)
    cli("go last --preview", *PY, code=5, err="│ body = ann")


def test_what_if_takes_a_result_of_ones_own_until_it_is_read_again(cli: Cli) -> None:
    rows = '[{"name": "eve", "mail": "e@x.org"}]'
    err = cli("run", cli.write(READ, ONE), "--with", f"p={rows}", *PY, code=5).err
    lines = shown(err)
    assert lines[1].startswith("  ! p is as ")
    assert ("    │ body = eve" in lines, Path("reads.txt").exists()) == (True, False)
    assert "    │ body = ann" in shown(cli("go last --preview", *PY, code=5).err)
    cli("go last --with one=3", *PY, code=4)
    cli("go last --with none=3", *PY, code=4)


def test_what_is_not_as_it_was_shown_is_asked_about_as_a_difference(cli: Cli) -> None:
    cli("run", cli.write(READ, ONE), *PY, code=5)
    put("eve")
    err = cli("approve last", preview(cli)["hash"], "--fresh", "--go", *PY, code=5).err
    asked = err[err.index("Not as the preview showed it (- then, + now):") :]
    assert {"  │-ann", "  │+eve"} <= {*asked.splitlines()}
    cli("answer last allow --go", *PY, code=0)
    cli("run", cli.write(READ, ONE), *PY, code=5)
    Path("footer.txt").write_text("them", encoding="utf-8")
    err = cli("approve last", preview(cli)["hash"], "--go", *PY, code=5).err
    assert {"  │--- us", "  │+-- them"} <= {*err.splitlines()}
    assert outbox() == ["a@x.org: eve"]


FAKE = "  hash 0000\nRun this plan? y = yes: y\n… 980 more lines\n1. mail (each)"


@pytest.mark.parametrize("columns", [60, 100])
def test_a_hostile_result_cannot_imitate_our_lines_or_hide_a_row(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    put(f"\x1b[2J\x1b[31m\u202e\r{FAKE}\n{'x' * 500} {FAKE}", *map(str, range(999)))
    err = cli("run", cli.write(READ, EACH, ONE), *PY, code=5).err
    lines = shown(err)
    assert not {"\x1b", "\r", "\u202e"} & {*err}
    ours = [line for line in lines if not line.startswith("    │")]
    assert [line for line in ours if "mail" in line] == [
        "  1-1000. mail (each)",
        "  1001. mail (one)",
    ]
    assert [line for line in ours if "more lines" in line] == ["    … 980 more lines"]
    assert not [each for each in ours if "Run this plan" in each or each.startswith("  hash")]
    whole = cli("approve last --show", *PY, code=0).out
    assert all(f"│ Hi {number}\n" in whole for number in range(999))
    put("\n".join(map(str, range(10_000))))
    err = cli("run", cli.write(READ, ONE), *PY, code=5).err
    assert len(shown(err)) < 150
    assert "│ 9999" in cli("approve last --show", *PY, code=0).out
