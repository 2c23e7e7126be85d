from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from plansmith.errors import Misconfigured
from plansmith.files import locked, replace_file

HINT = "make its folder writable"


@pytest.mark.parametrize("content", ["第二", b"\x00\xff"])
def test_a_replaced_file_has_the_new_content_and_is_for_its_owner_alone(
    tmp_path: Path, content: str | bytes
) -> None:
    path = tmp_path / "tokens.json"
    path.write_text("first")
    path.chmod(0o644)
    replace_file(path, content, durable=True)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_replacement_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens.json"
    path.write_text("first")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, "second", durable=True)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "tokens.json"
    other.write_text("somebody else's")
    path.symlink_to(other)
    replace_file(path, "ours")
    assert other.read_text() == "somebody else's"
    assert path.read_text() == "ours"
    assert not path.is_symlink()


def test_of_two_who_lock_a_file_the_second_waits_for_the_first(tmp_path: Path) -> None:
    path, order = tmp_path / "new" / "counter", list[str]()

    def second() -> None:
        with locked(path, hint=HINT):
            order.append("second")

    thread = threading.Thread(target=second)
    with suppress(KeyError), locked(path, hint=HINT):
        thread.start()
        thread.join(timeout=0.2)
        assert thread.is_alive()
        order.append("first")
        raise KeyError("x")  # it is let go after an error too
    thread.join(timeout=10)
    assert order == ["first", "second"]


def test_a_folder_that_cannot_be_made_is_told_with_the_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" / "tokens.json"
    with pytest.raises(Misconfigured, match="cannot be written") as error, locked(path, hint=HINT):
        pass
    assert error.value.hint == HINT
