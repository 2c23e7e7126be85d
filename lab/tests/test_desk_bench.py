"""The folder bench asks through the command line, approves what writes, and keeps secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.bench import desk
from lab.bench.desk import Row, folders, main, measure, table
from lab.bench.desk_cases import Ask, Asks, Folder, Wrote, each, number, words
from lab.bench.desk_doors import Door, in_own_process, in_process
from tests.servers.model_server import ModelServer, Reply, Request

TRIAGE: dict[str, Any] = {"decision": "plan", "reason": "", "query": "", "answer": ""}
NORTH = "SELECT * FROM sales WHERE region = 'North'"


def toy() -> Folder:
    """Two files, and a request of each way to be right."""
    q = Asks("toy")
    q.add("aggregate", "en", "How many units were sold?", number(1234))
    saved = Wrote("north.csv", each("North"), each("South"), rows=2)
    q.add("save table", "en", "Save the orders of the North as north.csv", files=(saved,))
    q.add(
        "write note",
        "zh",
        "把“周五开会”写到 note.txt",
        files=(Wrote("note.txt", each("周五开会")),),
    )
    q.add("impossible", "en", "Phone the customer in the South", expects="decline")
    q.add("missing value", "en", "Write it to the other file", expects="question")
    q.add("greeting", "zh", "你好", expects="reply")
    q.add(
        "follow-up", "en", "and in the South?", words("34"), before="How many units in the North?"
    )
    sales = b"region,units\nNorth,700\nNorth,500\nSouth,34\n"
    return Folder("toy", {"sales.csv": sales, "a/readme.md": b"# Toy\n"}, tuple(q.all))


def tool(name: str, tool_: str, **inputs: object) -> dict[str, Any]:
    return {"id": name, "kind": "tool", "tool": tool_, "inputs": inputs}


WRITES = {
    "Save the orders": [
        tool("find", "tables.sql", query=NORTH),
        tool("save", "tables.write", rows={"$from": "find", "$path": ["rows"]}, path="north.csv"),
    ],
    "周五开会": [tool("write", "files.write", path="note.txt", text="周五开会")],
}
SAYS = {
    "and in the South?": ("answer", "34 units"),
    "How many units in the North?": ("answer", "1200 units"),
    "How many units were sold?": ("answer", "All in all 1,234 units."),
    "Phone the customer": ("answer", "None of the tools here can phone anybody."),
    "the other file": ("ask", "Which file, and what text?"),
    "你好": ("answer", "你好！"),
}


class Oracle:
    """A model that knows the toy folder by heart; `wrong` makes it lie."""

    def __init__(self) -> None:
        self.wrong = False

    def __call__(self, request: Request) -> Reply:
        text = str(request.json["messages"][-1]["content"])
        if "You decide what a person's message is for" in json.dumps(request.json):
            return Reply({"kind": "request", "question": "", "option": "", "reason": "it is new"})
        steps = next((each for key, each in WRITES.items() if key in text), [])
        if '"decision"' not in json.dumps(request.json):
            changed = json.dumps(steps, ensure_ascii=False)
            changed = changed.replace("= 'North'", "= 'South'").replace("周五开会", "周六开会")
            plan: Any = {"goal": "g", "steps": json.loads(changed) if self.wrong else steps}
            return Reply(plan)
        if steps:
            return Reply(TRIAGE)
        decision, says = next(each for key, each in SAYS.items() if key in text)
        if self.wrong:
            decision, says = "answer", "All is booked for 77."
        return Reply(TRIAGE | {"decision": decision, "answer": says})


@pytest.fixture
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch, oracle: Oracle) -> Iterator[list[str]]:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with ModelServer(then=oracle).in_thread() as url:
        yield ["--model", "openai:test", "--base-url", url]


def asked(flags: list[str], *texts: str, door: Door = in_process) -> dict[str, Row]:
    folder = toy()
    chosen = [ask for ask in folder.asks if not texts or ask.text in texts]
    return {ask.text: measure(ask, folder, door, flags, told=True) for ask in chosen}


def test_a_model_that_knows_all_gets_full_marks_in_the_desk_bench(flags: list[str]) -> None:
    rows = asked(flags)
    assert {text: row.why for text, row in rows.items() if not row.right} == {}
    assert not any(row.needless for row in rows.values())


def test_a_model_that_lies_gets_no_mark_in_the_desk_bench(flags: list[str], oracle: Oracle) -> None:
    oracle.wrong = True
    texts = [ask.text for ask in toy().asks if ask.kind not in ("greeting", "follow-up")]
    assert not any(row.right for row in asked(flags, *texts).values())


def test_the_desk_bench_asks_the_real_command_too(flags: list[str]) -> None:
    (row,) = asked(flags, "How many units were sold?", door=in_own_process).values()
    assert (row.right, row.why) == (True, "")


def test_the_desk_bench_approves_no_plan_that_writes_where_nobody_wants_a_file(
    flags: list[str],
) -> None:
    folder = toy()
    ask = Ask("x", "toy", "aggregate", "en", "Save the orders of the North as north.csv")
    row = measure(ask, folder, in_process, flags, told=True)
    assert (row.right, row.needless) == (False, True)


def test_the_desk_bench_leaves_working_folder_and_environment_as_they_were(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    asked(flags, "你好")
    assert Path.cwd() == tmp_path
    assert Path.home() == tmp_path
    assert not list(tmp_path.iterdir())


def heldout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "heldout_folders", lambda: [toy()])


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_held_out_part_of_the_desk_bench_tells_figures_and_no_words(
    flags: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
) -> None:
    heldout(monkeypatch)
    options = ["--part", "heldout", "--only", "toy-01", "toy-06", *flags]
    assert main([*options, *form]) == 0
    printed = capsys.readouterr().out
    assert "toy" in printed
    for word in ("How many", "1,234", "1234", "你好"):
        assert word not in printed
    assert main([*options, "--reveal", "--json"]) == 0
    assert "How many units were sold?" in capsys.readouterr().out


def test_the_desk_bench_keeps_the_table_of_the_other_part(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heldout(monkeypatch)
    monkeypatch.setattr(desk, "tuning_folders", lambda: [toy()])
    monkeypatch.setattr(desk, "RESULT", tmp_path / "desk.md")
    for part in ("heldout", "tuning", "heldout"):
        assert main(["--part", part, "--only", "toy-06", "--write", *flags]) == 0
    text = (tmp_path / "desk.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Requests in folders",
        "## tuning",
        "## heldout",
    ]
    assert text.count("scripts/bench desk --part") == 2
    assert "127.0.0.1" not in text


def test_an_unknown_folder_or_request_is_told_by_the_desk_bench(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--folder", "nowhere"]) == 2
    assert "no such folder" in capsys.readouterr().out


def test_the_desk_bench_writes_its_folders_for_a_person(tmp_path: Path) -> None:
    assert main(["--folder", "shop", "--make", str(tmp_path)]) == 0
    shop = next(each for each in folders("tuning") if each.name == "shop")
    assert (tmp_path / "shop" / "sales.csv").read_bytes() == shop.files["sales.csv"]


def test_the_table_of_the_desk_bench_counts_by_folder_kind_and_language() -> None:
    rows = [
        Row("a-1", "a", "top", "en", right=True, needless=False, seconds=1.0, model=False),
        Row("a-2", "a", "top", "zh", right=False, needless=True, seconds=9.0, model=True),
    ]
    lines = table(rows).splitlines()
    assert "| **all** | 2 | 1 (50%) | 1 | 1 | 5.0 | 9.0 |" in lines
    assert "| Chinese | 1 | 0 (0%) | 1 | 0 | 9.0 | 9.0 |" in lines
    assert len(lines) == 2 + 1 + 1 + 1 + 2
