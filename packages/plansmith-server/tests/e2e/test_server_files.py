"""Files over HTTP: what a run wrote, what a call would write, and nothing else of the disk."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from tests.unit.server.house import House, serving, tool_step

from plansmith_cli.replay import replay

SCRIPT = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"

ROWS = [{"city": "Oslo", "sales": 3}, {"city": "Rome", "sales": 5}]
READ = tool_step("read", "files.read", inputs={"path": "in.md"})


@asynccontextmanager
async def folder_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """A server with the built-in tools, in the folder `work`."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    monkeypatch.chdir(work)
    async with serving(tmp_path, settings_tools=True, settings={}) as house:
        yield house


@pytest_asyncio.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """That server, with a file to read."""
    async with folder_of(tmp_path, monkeypatch) as house:
        (tmp_path / "work" / "in.md").write_text("new")
        yield house


@pytest.fixture
def work(desk: House, tmp_path: Path) -> Path:
    return tmp_path / "work"


def write(name: str, path: str, text: str, **more: Any) -> dict[str, Any]:
    return tool_step(name, "files.write", inputs={"path": path, "text": text, **more})


async def finished(house: House, *steps: dict[str, Any]) -> str:
    run = await house.begin(*steps)
    await house.approve(run)
    return str((await house.until(run["id"], "done", "partly_done", "failed"))["id"])


async def asking(house: House, *steps: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A run that asks for consent, and its whole question."""
    run = await house.begin(*steps)
    await house.approve(run)
    run = await house.until(run["id"], "asking")
    name = quote(run["questions"][0]["question"], safe="")
    return run["id"], await house.get(f"/v1/runs/{run['id']}/questions/{name}")


async def test_the_files_of_a_run_are_listed_shown_and_told_when_they_change(
    desk: House, work: Path
) -> None:
    (work / "mine.txt").write_text("private")
    draw = tool_step("draw", "charts.draw", inputs={"rows": ROWS, "path": "out/sales.svg"})
    hostile = write("hostile", "x.html", "<script>alert(1)</script>")
    run = await finished(desk, write("a", "a.md", "# A"), draw, hostile)
    files = {each["path"]: each for each in (await desk.get(f"/v1/runs/{run}/files"))["items"]}
    assert {path: (each["kind"], each["state"]) for path, each in files.items()} == {
        "a.md": ("markdown", "as_written"),
        "out/sales.svg": ("picture", "as_written"),
        "x.html": ("text", "as_written"),
    }
    assert files["a.md"]["step"] == "a"
    picture = await desk.client.get(f"/v1/runs/{run}/files/out/sales.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert picture.headers["x-content-type-options"] == "nosniff"
    assert not [name for name in picture.headers if "." in name]
    page = await desk.client.get(f"/v1/runs/{run}/files/x.html")
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    saved = await desk.client.get(f"/v1/runs/{run}/files/a.md?download=true")
    assert saved.headers["content-disposition"] == "attachment; filename*=UTF-8''a.md"
    for path in ("mine.txt", "../token", "%2e%2e/token", "/etc/passwd", ""):
        assert (await desk.client.get(f"/v1/runs/{run}/files/{path}")).status_code == 404, path
    report = (await desk.client.get(f"/v1/runs/{run}/report?format=html")).text
    data = b64encode((work / "out" / "sales.svg").read_bytes()).decode()
    assert f'src="data:image/svg+xml;base64,{data}"' in report
    (work / "a.md").write_text("# B")
    (work / "out" / "sales.svg").unlink()
    again = {each["path"]: each for each in (await desk.get(f"/v1/runs/{run}/files"))["items"]}
    assert (again["a.md"]["state"], again["out/sales.svg"]["state"]) == ("changed", "gone")
    assert (await desk.client.get(f"/v1/runs/{run}/files/out/sales.svg")).status_code == 404
    assert "<img" not in (await desk.client.get(f"/v1/runs/{run}/report?format=html")).text


async def test_a_link_in_the_place_of_a_file_leads_nowhere(
    desk: House, work: Path, tmp_path: Path
) -> None:
    run = await finished(desk, write("a", "in/a.md", "A"), write("b", "b.md", "B"))
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.md").write_text("secret")
    (work / "b.md").unlink()
    (work / "b.md").symlink_to(secret / "a.md")
    (work / "in" / "a.md").unlink()
    (work / "in").rmdir()
    (work / "in").symlink_to(secret)
    items = (await desk.get(f"/v1/runs/{run}/files"))["items"]
    assert [each["state"] for each in items] == ["gone", "gone"]
    for path in ("b.md", "in/a.md"):
        assert (await desk.client.get(f"/v1/runs/{run}/files/{path}")).status_code == 404


async def test_a_consent_shows_the_file_before_and_after(desk: House, work: Path) -> None:
    (work / "in.md").write_text("new line\n")
    (work / "out.md").write_text("old line\n")
    run, whole = await asking(desk, READ, write("save", "out.md", "{{read.text}}", overwrite=True))
    (file,) = whole["now"]["files"]
    assert (file["path"], file["change"]) == ("out.md", "changed")
    assert file["difference"][1:] == ["-old line", "+new line"]
    assert (work / "out.md").read_text() == "old line\n"
    # Somebody changes the file before it is allowed: what was seen is not what would be lost.
    (work / "out.md").write_text("meanwhile\n")
    answer = {"question": whole["question"], "answer": "allow", "seen": whole["seen"]}
    refused = await desk.client.post(f"/v1/runs/{run}/answers", json=answer)
    assert refused.status_code == 409
    assert "out.md changed after you looked" in refused.json()["detail"]
    assert (work / "out.md").read_text() == "meanwhile\n"
    name = quote(whole["question"], safe="")
    again = await desk.get(f"/v1/runs/{run}/questions/{name}")
    assert again["now"]["files"][0]["difference"][1] == "-meanwhile"
    await desk.post(f"/v1/runs/{run}/answers", answer | {"seen": again["seen"]})
    await desk.until(run, "done")
    assert (work / "out.md").read_text() == "new line\n"
    assert (await replay(run, desk.server_state.smith)).identical


async def test_a_changed_value_is_what_is_written_and_nothing_else(desk: House, work: Path) -> None:
    (work / "in.md").write_text("from the file {{read.path}}")
    tell = tool_step("tell", "note.tell", inputs={"text": "{{save.path}}"})
    run, whole = await asking(desk, READ, write("save", "out.md", "{{read.text}}"), tell)
    assert whole["can_change"]
    first = await desk.get(f"/v1/runs/{run}")
    bad = {"question": whole["question"], "change": {"path": 5}}
    assert (await desk.client.post(f"/v1/runs/{run}/answers", json=bad)).status_code in (409, 422)
    changed = {"question": whole["question"], "change": {"path": "{{read.path}}.txt"}}
    view = await desk.post(f"/v1/runs/{run}/answers", changed)
    done = await desk.until(run, "done", "failed")
    assert done["status"] == "done", done["reason"]
    assert view["approved"] == done["running_hash"] == first["running_hash"]
    # Neither what was typed nor what the file said is read as a reference.
    assert (work / "{{read.path}}.txt").read_text() == "from the file {{read.path}}"
    assert done["steps"]["read"]["attempts"] == 1
    events = (await desk.get(f"/v1/runs/{run}/events"))["items"]
    assert [each["body"]["type"] for each in events].count("question_asked") == 1
    assert (await replay(run, desk.server_state.smith)).identical


async def test_a_file_that_changes_between_consent_and_write_is_not_overwritten(
    desk: House, work: Path
) -> None:
    (work / "out.md").write_text("old")
    run, whole = await asking(desk, READ, write("save", "out.md", "{{read.text}}", overwrite=True))
    # While the run is paused, a consent is kept for later.
    await desk.post(f"/v1/runs/{run}/pause")
    answer = {"question": whole["question"], "answer": "allow", "seen": whole["seen"]}
    await desk.post(f"/v1/runs/{run}/answers", answer)
    (work / "out.md").write_text("precious")
    await desk.post(f"/v1/runs/{run}/resume")
    view = await desk.until(run, "done", "partly_done", "failed", "asking")
    assert (view["status"], view["steps"]["save"]["status"]) == ("asking", "asking")
    (again,) = view["questions"]
    assert "something else than you saw" in again["text"]
    assert (work / "out.md").read_text() == "precious"


async def test_what_another_tool_calls_a_path_is_no_file_of_the_run(house: House) -> None:
    run = await finished(house, tool_step("mail", "mail", inputs={"city": "x", "path": "token"}))
    assert (await house.get(f"/v1/runs/{run}/files")) == {"items": []}


async def test_a_consent_previews_pictures_and_takes_no_values_of_a_program(
    desk: House, work: Path
) -> None:
    (work / "in.svg").write_text(SCRIPT)
    read = tool_step("read", "files.read", inputs={"path": "in.svg"})
    run, whole = await asking(desk, read, write("save", "out.svg", "{{read.text}}"))
    assert whole["now"]["files"][0]["change"] == "new"
    name = quote(whole["question"], safe="")
    address = f"/v1/runs/{run}/questions/{name}"
    preview = await desk.client.get(address, params={"path": "out.svg"})
    assert preview.text == SCRIPT
    assert preview.headers["content-type"] == "image/svg+xml"
    assert preview.headers["content-security-policy"].startswith("sandbox;")
    other = await desk.client.get(address, params={"path": "in.svg"})
    assert other.status_code == 404
    assert not (work / "out.svg").exists()
    (work / "out.md").write_text("old")
    _, whole = await asking(desk, READ, write("save", "out.md", "{{read.text}}"))
    assert whole["now"] | {"files": []} == whole["now"] | {
        "files": [],
        "fails": "out.md is there already (choose another name, or set overwrite to true)",
    }
    run, whole = await asking(desk, READ, write("save", "new.md", "{{read.text}}"))
    changed = {"question": whole["question"], "change": {"path": "other.md"}}
    async with desk.with_token("helper", "look", "answer", "propose") as client:
        refused = await client.post(f"/v1/runs/{run}/answers", json=changed)
    assert refused.status_code in (403, 409)
    assert (await desk.get(f"/v1/runs/{run}"))["revisions"] == 1


async def test_with_a_persons_own_values_a_file_that_changes_meanwhile_is_not_overwritten(
    desk: House, work: Path
) -> None:
    (work / "mine.md").write_text("old")
    inputs = {"path": "{{item}}", "text": "{{read.text}}", "overwrite": True}
    each = {"tool": "files.write", "inputs": inputs}
    run, whole = await asking(desk, READ, {"id": "all", "over": ["out.md"], "each": each})
    await desk.post(f"/v1/runs/{run}/pause")
    answer = {"question": whole["question"], "change": {"path": "mine.md", "text": "own"}}
    name = quote(whole["question"], safe="")
    own = {"change": answer["change"]}
    seen = await desk.post(f"/v1/runs/{run}/questions/{name}", own)
    assert [(each["path"], each["difference"][1:]) for each in seen["now"]["files"]] == [
        ("mine.md", ["-old", "+own"])
    ]
    (work / "mine.md").write_text("older")
    late = answer | {"seen": seen["seen"]}
    assert (await desk.client.post(f"/v1/runs/{run}/answers", json=late)).status_code == 409
    other = await desk.client.post(f"/v1/runs/{run}/answers", json=answer | {"hash": "0" * 64})
    assert other.status_code == 409
    assert "not the one you saw" in other.text
    answer |= {"hash": whole["hash"]}
    await desk.post(f"/v1/runs/{run}/answers", answer)
    (work / "mine.md").write_text("precious")
    await desk.post(f"/v1/runs/{run}/resume")
    view = await desk.until(run, "done", "partly_done", "failed", "asking")
    assert (view["status"], view["steps"]["all/0"]["status"]) == ("asking", "asking")
    assert (work / "mine.md").read_text() == "precious"
    assert (await replay(run, desk.server_state.smith)).identical
