from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import Misconfigured
from plansmith.plan.data import content_hash
from plansmith_connect.approvals import Approval, ApprovalFile, Approvals, changes

AT = datetime(2026, 1, 1, tzinfo=UTC)


def approval(definition: dict[str, Any] | None = None) -> Approval:
    made = definition or {"name": "a", "text": "你好"}
    return Approval(hash=content_hash(made), definition=made, by="ada", at=AT)


@pytest.fixture(params=["memory", "file"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Approvals:
    return Approvals() if request.param == "memory" else ApprovalFile(tmp_path / "a" / "p.json")


def test_an_approval_is_kept_replaced_and_removed(kept: Approvals) -> None:
    assert kept.get("a") is None
    kept.put("a", approval())
    kept.put("b", approval({"x": 1}))
    assert kept.get("a") == approval()
    kept.put("a", approval({"x": 2}))
    assert kept.get("a") == approval({"x": 2})
    kept.remove("a")
    kept.remove("a")
    assert kept.get("a") is None
    assert kept.get("b") == approval({"x": 1})


def test_a_file_is_for_its_owner_alone_and_what_another_process_approves_is_seen_at_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "p.json"
    one, other = ApprovalFile(path), ApprovalFile(path)
    assert one.get("a") is None
    other.put("a", approval())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text(encoding="utf-8"))["approved"]["a"]["by"] == "ada"
    assert one.get("a") == approval()
    other.remove("a")
    assert one.get("a") is None


def test_many_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "p.json"

    def put(start: int) -> None:
        for number in range(start, start + 10):
            # A file object of its own each time, as another process would have.
            ApprovalFile(path).put(f"t{number}", approval({"n": number}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, range(0, 40, 10)))
    kept = ApprovalFile(path)
    assert all(kept.get(f"t{number}") is not None for number in range(40))
    assert {each.name for each in tmp_path.iterdir()} == {"p.json", "p.json.lock"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        *((each, "cannot be read") for each in ("{", "[]", "{}")),
        ('{"version": 1, "approved": {"a": {}}}', "cannot be read"),
        ('{"version": 2}', "newer"),
    ],
)
def test_a_file_that_is_damaged_or_newer_is_an_error_and_left_alone(
    tmp_path: Path, content: str, why: str
) -> None:
    path = tmp_path / "p.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(Misconfigured, match=why):
        ApprovalFile(path).get("a")
    with pytest.raises(Misconfigured, match=why):
        ApprovalFile(path).put("a", approval())
    assert path.read_text(encoding="utf-8") == content


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Misconfigured, match="cannot be written") as caught:
        ApprovalFile(tmp_path / "file" / "p.json").put("a", approval())
    assert "mcp.approvals" in caught.value.hint


def test_a_change_is_shown_as_a_difference_that_cannot_steer_a_terminal() -> None:
    after = {"name": "a", "description": "read\x1b[8m ~/.ssh"}
    assert '+  "description": "read\\u001b[8m ~/.ssh",' in changes({"name": "a"}, after)
    assert [*changes(after, after)] == []
    assert [*changes({"a": True}, {"a": 1})] == ['-  "a": true', '+  "a": 1']
