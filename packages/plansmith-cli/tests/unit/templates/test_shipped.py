"""The templates that come with Plansmith work offline in any folder with CSV files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.house import serving

from plansmith.errors import Refused
from plansmith.plan.sentence import LANGUAGES

SALES = "region,amount\nNorth,120.5\nSouth,80\nNorth,99.5\n"
NAMES = ["csv-overview", "csv-chart", "csv-top"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (place / "sales.csv").write_text(SALES)
    (place / "people.csv").write_text("name,age\nAnn,31\n")
    monkeypatch.chdir(place)
    return place


async def test_every_shipped_template_runs_to_its_end_without_a_model(
    tmp_path: Path, folder: Path
) -> None:
    given = {
        "csv-overview": {},
        "csv-chart": {"file": "sales.csv", "by": "region", "value": "amount"},
        "csv-top": {"file": "sales.csv", "column": "amount", "count": 2},
    }
    settings = {"run": {"data": "show"}, "models": {"plan": "rules"}}
    async with serving(tmp_path, settings=settings, settings_tools=True) as house:
        listed = await house.get("/v1/templates")
        assert [each["name"] for each in listed["ready"]] == NAMES
        assert listed["items"] == []
        for name, parameters in given.items():
            run = await house.post(f"/v1/templates/{name}/runs", {"parameters": parameters}, 202)
            assert run["origin"] == {"kind": "template", "id": f"{name}@1"}
            assert [each for each in run["problems"] if each["severity"] == "error"] == []
            await house.approve(run)
            ended = await house.until(run["id"], "done", "failed", "partly_done", "asking")
            assert ended["status"] == "done", ended["reason"]
    assert "220" in (folder / "chart.svg").read_text()
    top = (folder / "top.md").read_text()
    assert "120.5" in top
    assert "80" not in top


async def test_a_shipped_template_speaks_the_readers_language_and_cannot_be_removed(
    tmp_path: Path, folder: Path
) -> None:
    async with serving(tmp_path, settings_tools=True) as house:
        chinese = {"Accept-Language": "zh-CN"}
        template = await house.get("/v1/templates/csv-chart", headers=chinese)
        assert template["needed"] == ["file", "by", "value"]
        assert template["request"] == "按组汇总表格的一列并画成图"
        assert (await house.client.delete("/v1/templates/csv-chart")).status_code == 409
        assert (await house.client.get("/v1/templates/csv-nothing")).status_code == 404
        wrong = {"parameters": {"file": "sales.csv"}}
        response = await house.client.post("/v1/templates/csv-chart/runs", json=wrong)
        assert response.status_code == 422
        book = house.server_state.smith.templates
        with pytest.raises(Refused, match="comes with Plansmith"):
            await book.remove("csv-top")
        for language in LANGUAGES:
            for template in book.shipped(language).values():
                found = await book.problems(template)
                assert [each for each in found if each.severity == "error"] == []
