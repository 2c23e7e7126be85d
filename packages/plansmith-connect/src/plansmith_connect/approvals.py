"""Stores which definitions a person has approved, in a JSON file."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pydantic import Field, ValidationError

from plansmith.errors import Misconfigured
from plansmith.files import locked, replace_file
from plansmith.plan.data import Json, Record
from plansmith.plan.sentence import Sentence


class Approval(Record):
    """An approved definition, with who approved it and when; kept whole, to show changes."""

    hash: str = Field(min_length=1)
    definition: dict[str, Json]
    by: str
    at: datetime


class Approvals(Protocol):
    """Where approvals are kept."""

    def get(self, name: str) -> Approval | None:
        """Returns the approval of a name, if there is one."""
        ...

    def put(self, name: str, approval: Approval) -> None:
        """Stores an approval; replaces an older one."""
        ...

    def remove(self, name: str) -> None:
        """Removes an approval; does nothing if there is none."""
        ...


class MemoryApprovals:
    """Approvals that end with the process."""

    def __init__(self) -> None:
        self._approved: dict[str, Approval] = {}

    def get(self, name: str) -> Approval | None:
        return self._approved.get(name)

    def put(self, name: str, approval: Approval) -> None:
        self._approved[name] = approval

    def remove(self, name: str) -> None:
        self._approved.pop(name, None)


class ApprovalFile:
    """Approvals in a JSON file that only its owner can write; sees others' changes at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._approved: dict[str, Approval] = {}

    def get(self, name: str) -> Approval | None:
        return self._read().get(name)

    def all(self) -> dict[str, Approval]:
        """Returns all approvals by name."""
        return dict(self._read())

    def put(self, name: str, approval: Approval) -> None:
        with self._locked():
            self._write({**self._read(), name: approval})

    def remove(self, name: str) -> None:
        with self._locked():
            self._write({key: each for key, each in self._read().items() if key != name})

    def _read(self) -> dict[str, Approval]:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._approved = None, {}
            return {}
        if os.name == "posix" and (stat.st_mode & 0o022 or stat.st_uid not in (os.getuid(), 0)):
            hint = Sentence("check its content, then: chmod 600 {path}", path=self._path)
            raise Misconfigured(
                Sentence("{path}: other users can write to this file", path=self._path), hint=hint
            )
        mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if mark != self._seen:
            self._approved, self._seen = _parse(self._path), mark
        return self._approved

    def _write(self, approved: dict[str, Approval]) -> None:
        value = {
            "version": 1,
            "approved": {name: each.model_dump(mode="json") for name, each in approved.items()},
        }
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
        replace_file(self._path, text, durable=True)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        hint = Sentence("make its folder writable, or name another file with mcp.approvals")
        return locked(self._path, hint=hint, mode=0o700)


def _parse(path: Path) -> dict[str, Approval]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["version"] != 1:
            raise Misconfigured(
                Sentence("{path} is from a newer Plansmith", path=path),
                hint=Sentence("update Plansmith"),
            )
        return {name: Approval.model_validate(each) for name, each in value["approved"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ValidationError) as error:
        hint = Sentence("correct it, or remove it and approve again")
        raise Misconfigured(
            Sentence("{path} cannot be read: {error}", path=path, error=error), hint=hint
        ) from None
