"""Plans that run over the built-in tools, from a file to a chart, a database and a note."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plansmith import Plan, Plansmith, RunStatus, ToolSpec
from plansmith.errors import Misconfigured
from plansmith.plan.limits import Limits
from plansmith.ports import ToolSource
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.testing import FakeClock
from plansmith_desk.builtin import builtin_sources


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)})


def step(name: str, tool: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "tool": tool, "inputs": inputs}


def ref(name: str, *path: str | int) -> dict[str, Any]:
    return {"$from": name, "$path": list(path)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sales = "region,amount\nNorth,10.10\nSouth,0.20\nNorth,0.10\n"
    (tmp_path / "sales.csv").write_text(sales, encoding="utf-8")
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.executescript("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2)")
    database.close()
    return tmp_path


async def finished(smith: Plansmith, wanted: Plan) -> Any:
    run = await smith.submit(wanted)
    if run.status is RunStatus.REVIEWING:
        await smith.decide(run.id, approve=wanted.hash, by="ada")
    return await smith.run(run.id)


async def test_a_plan_goes_from_a_table_to_a_chart_a_file_and_a_note(folder: Path) -> None:
    limits = Limits(data="show")
    smith = Plansmith(tools=builtin_sources(folder, clock=FakeClock()), limits=limits)
    wanted = plan(
        step(
            "sums",
            "tables.sql",
            query="SELECT region, sum(amount) AS total FROM sales GROUP BY 1 ORDER BY 2 DESC",
        ),
        step(
            "gross",
            "calculator.compute",
            expression="t + 25%",
            values={"t": ref("sums", "rows", 0, "total")},
        ),
        step("due", "time.add", time="2026-01-30", weekdays=1),
        step(
            "chart",
            "charts.draw",
            kind="bar",
            rows=ref("sums", "rows"),
            x="region",
            y="total",
            title="Sales",
            path="out/sales.svg",
        ),
        step("file", "files.write", path="out/report.md", text="{{gross.text}} due {{due.date}}"),
        step("say", "note.tell", text="The North has {{gross.text}}"),
    )
    run = await finished(smith, wanted)
    assert run.status is RunStatus.DONE, {name: each.error for name, each in run.steps.items()}
    assert run.steps["gross"].result["text"] == "12.75"
    assert (folder / "out/report.md").read_text(encoding="utf-8") == "12.75 due 2026-02-02"
    assert (folder / "out/sales.svg").read_text(encoding="utf-8").startswith("<svg")
    assert run.steps["say"].result == {"text": "The North has 12.75", "level": "info"}


async def test_reading_runs_at_once_and_writing_waits_for_a_person(folder: Path) -> None:
    smith = Plansmith(tools=builtin_sources(folder))
    reading = await smith.submit(plan(step("a", "tables.describe", table="sales.csv")))
    assert (await smith.run(reading.id)).status is RunStatus.DONE
    writing = await smith.submit(plan(step("a", "files.write", path="x", text="y")))
    assert (await smith.runs.run(writing.id)).status is RunStatus.REVIEWING
    assert not (folder / "x").exists()


async def all_specs(sources: list[ToolSource]) -> list[ToolSpec]:
    return [spec for source in sources for spec in await source.tools()]


async def test_databases_the_web_and_writing_come_when_they_are_named(folder: Path) -> None:
    specs = await all_specs(builtin_sources(folder, write=False))
    assert {spec.effect for spec in specs} == {"read"}
    assert not {"sql.query", "web.fetch"} & {spec.name for spec in specs}
    url = f"sqlite:///{folder / 'shop.db'}"
    smith = Plansmith(tools=builtin_sources(folder, databases={"shop": url}, private=["a.lan"]))
    run = await finished(smith, plan(step("rows", "sql.query", query="SELECT sum(n) AS n FROM t")))
    assert run.steps["rows"].result["rows"] == [{"n": 3}]


async def test_every_spec_says_what_it_takes_gives_and_does(folder: Path) -> None:
    url = f"sqlite:///{folder / 'shop.db'}"
    sources = builtin_sources(folder, databases={"a": url}, writable=["a"], hosts=["example.com"])
    specs = await all_specs(sources)
    assert len({spec.name for spec in specs}) == len(specs)
    mine = [spec for spec in specs if spec.name not in ("files.list", "files.read", "files.search")]
    for spec in mine:
        assert spec.description.endswith(".")
        assert spec.output_schema is not None, spec.name
        assert spec.output_schema["additionalProperties"] is False, spec.name
        assert spec.input_schema["additionalProperties"] is False, spec.name
        assert spec.timeout_s is not None, spec.name
        assert not spec.search
        if spec.name.startswith(("calculator.", "time.", "tables.", "sql.")):
            assert len(spec.description) < 140, spec.name
    writing = {spec.name for spec in mine if spec.effect == "write"}
    assert writing == {
        *("files.write", "files.append", "files.replace", "tables.write", "charts.draw"),
        *("files.copy", "files.move", "sql.execute", "tables.export"),
    }
    assert {spec.name for spec in mine if spec.effect == "final"} == {"files.delete"}
    assert {spec.name for spec in mine if spec.open_world} == {"web.fetch"}


def test_settings_that_cannot_work_are_told_at_once(folder: Path) -> None:
    for wrong in (
        {"databases": {"a": "mysql://x"}},
        {"databases": {"a": "sqlite:///x.db"}, "writable": ["b"]},
        {"private": ["*"]},
        {"zone": "Oslo"},
    ):
        with pytest.raises(Misconfigured):
            builtin_sources(folder, **cast("Any", wrong))


NAMES = st.lists(st.text("abcxyz019_", min_size=1), min_size=4, max_size=6, unique_by=str.lower)


@st.composite
def tables(draw: st.DrawFn) -> str:
    names = draw(NAMES)
    places = [draw(st.sampled_from([None, 0, 1, 2, 3])) for _ in names]
    rows = [
        [draw(CELLS) if at is None else f"{draw(NUMBERS):.{at}f}" for at in places]
        for _ in range(draw(st.integers(1, 4)))
    ]
    return "\n".join(",".join(row) for row in [names, *rows]) + "\n"


CELLS = st.text("abc xyz", min_size=1).filter(lambda text: text == text.strip())
NUMBERS = st.decimals(-99999, -1, places=3) | st.decimals(0, 99999, places=3)


@given(texts=st.lists(tables(), min_size=2, max_size=2))
@settings(max_examples=1, deadline=None)  # one story for both tables: a restart takes its time
def test_a_table_is_the_same_in_the_file_after_a_restart_in_a_map_and_in_the_report(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("tables")
    steps: list[dict[str, Any]] = []
    for at, text in enumerate(texts):
        (root / f"given{at}.csv").write_text(text, encoding="utf-8")
        names = ", ".join(f'"{name}"' for name in text.split("\n", maxsplit=1)[0].split(","))
        rows = ref(f"q{at}", "rows")
        each = step(f"one{at}", "tables.write", path="{{item.p}}", rows=rows)
        over: dict[str, Any] = {"kind": "map", "over": [{"p": f"m{at}.csv"}], "each": each}
        steps += [
            step(f"q{at}", "tables.sql", query=f"SELECT {names} FROM given{at}"),
            step(f"w{at}", "tables.write", path=f"out{at}.csv", rows=rows),
            {"id": f"m{at}", **over, "after": [f"w{at}"]},
            step(f"again{at}", "tables.sql", query="SELECT * FROM t", tables={"t": rows}),
        ]
    wanted, url = plan(*steps), f"sqlite:///{root / 'runs.db'}"

    def smith() -> Plansmith:
        return Plansmith(tools=builtin_sources(root, clock=FakeClock()), store=url)

    async def story() -> None:
        async with smith() as first:
            run = await first.submit(wanted)
            await first.decide(run.id, approve=wanted.hash, by="ada")
            run = await first.run(run.id)
            assert run.questions
        async with smith() as second:  # it reads every value from the store
            while run.questions:
                for name in run.questions:
                    await second.answer(run.id, name, "allow", by="ada")
                run = await second.run(run.id)
            assert run.status is RunStatus.DONE, run.reason
            report = to_markdown(await load_report(second.store, run.id), brief=True)
        for at, text in enumerate(texts):
            for name in (f"out{at}.csv", f"m{at}.csv"):
                assert (root / name).read_text(encoding="utf-8") == text
            results: list[Any] = [run.steps[name].result for name in (f"q{at}", f"again{at}")]
            assert str(results[0]["rows"]) == str(results[1]["rows"])
            assert all(cell in report for row in text.split()[1:] for cell in row.split(","))

    asyncio.run(story())
