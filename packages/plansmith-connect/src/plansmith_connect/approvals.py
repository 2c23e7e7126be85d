"""Which definitions of servers, tools and agents a person has approved."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from plansmith.errors import Misconfigured
from plansmith.files import locked, replace_file
from plansmith.plan.data import Json, Record
from plansmith.plan.sentence import Sentence
from plansmith.text import safe


class Approval(Record):
    """An approved definition, with who approved it and when; kept whole, to show changes."""

    hash: str = Field(min_length=1)
    definition: dict[str, Json]
    by: str
    at: datetime


def definition_lines(definition: Mapping[str, Json]) -> list[str]:
    """Writes a definition for a person: as JSON with sorted keys."""
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    """Yields the lines that differ between two definitions, safe for a terminal."""
    lines = difflib.unified_diff(
        definition_lines(before), definition_lines(after), lineterm="", n=0
    )
    for number, line in enumerate(lines):
        if number >= 2 and not line.startswith("@@"):
            yield safe(line)


class Approvals:
    """Approvals that end with the process."""

    def __init__(self) -> None:
        self._approved: dict[str, Approval] = {}

    def all(self) -> dict[str, Approval]:
        return dict(self._approved)

    def get(self, name: str) -> Approval | None:
        return self.all().get(name)

    def approve(self, name: str, digest: str, definition: Mapping[str, Json], *, by: str) -> None:
        """Keeps that a person has approved a definition, by its hash."""
        now = datetime.now(UTC)
        self.put(name, Approval(hash=digest, definition=dict(definition), by=by, at=now))

    def put(self, name: str, approval: Approval) -> None:
        self._approved[name] = approval

    def remove(self, name: str) -> None:
        """Removes an approval; does nothing if there is none."""
        self._approved.pop(name, None)


class ApprovalFile(Approvals):
    """Approvals in a JSON file that only its owner can write; sees others' changes at once."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def all(self) -> dict[str, Approval]:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return {}
        if os.name == "posix" and (stat.st_mode & 0o022 or stat.st_uid not in (os.getuid(), 0)):
            hint = Sentence("check its content, then: chmod 600 {path}", path=self._path)
            why = Sentence("{path}: other users can write to this file", path=self._path)
            raise Misconfigured(why, hint=hint)
        mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if mark != self._seen:
            self._approved, self._seen = self._read(), mark
        return dict(self._approved)

    def put(self, name: str, approval: Approval) -> None:
        self._change({name: approval})

    def remove(self, name: str) -> None:
        self._change({name: None})

    def _read(self) -> dict[str, Approval]:
        try:
            value = json.loads(self._path.read_text(encoding="utf-8"))
            if value["version"] != 1:
                why = Sentence("{path} is from a newer Plansmith", path=self._path)
                raise Misconfigured(why, hint=Sentence("update Plansmith"))
            return {name: Approval.model_validate(each) for name, each in value["approved"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ValidationError) as error:
            why = Sentence("{path} cannot be read: {error}", path=self._path, error=error)
            hint = Sentence("correct it, or remove it and approve again")
            raise Misconfigured(why, hint=hint) from None

    def _change(self, new: dict[str, Approval | None]) -> None:
        hint = Sentence("make its folder writable, or name another file with mcp.approvals")
        with locked(self._path, hint=hint, mode=0o700):
            kept = {name: each for name, each in (self.all() | new).items() if each is not None}
            approved = {name: each.model_dump(mode="json") for name, each in kept.items()}
            value = {"version": 1, "approved": approved}
            text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
            replace_file(self._path, text, durable=True)
