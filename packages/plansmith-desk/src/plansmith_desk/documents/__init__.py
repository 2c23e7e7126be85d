"""Built-in tools that read documents: several at once, by a question, by lines, side by side."""

from __future__ import annotations

import hashlib
import io
import os
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import CJK_RANGE, clip
from plansmith.tools.toolset import Arguments, BuiltIn, Job, ToolSet, noted
from plansmith_desk.documents.compare import Difference, compare_files, compare_lines, told
from plansmith_desk.documents.selection import DocumentLimits, Selection
from plansmith_desk.documents.specs import COMPARE, COUNT, DUPLICATES, LOOKUP, READ_ALL
from plansmith_desk.documents.text import is_paged
from plansmith_desk.folder import Folder, stamp
from plansmith_desk.patterns import search_forms

if TYPE_CHECKING:
    from plansmith_desk.documents import lookup
else:
    lazy_modules(globals(), lookup="plansmith_desk.documents.lookup")

_WORD: Final = re.compile(rf"[{CJK_RANGE}]|[^\s{CJK_RANGE}]+")
_PIECE: Final = 1 << 20
_LONGEST_LINE: Final = 300
_NOTES: Final = 10
_LINE: Final = 1 << 20


class DocumentTools(ToolSet):
    """The tools that read documents in a folder; none of them changes anything."""

    def __init__(self, root: Path, *, limits: DocumentLimits | None = None) -> None:
        self._limits = limits or DocumentLimits()
        self._files = Selection(Folder(root), self._limits)
        super().__init__(
            [
                BuiltIn(LOOKUP, self._lookup),
                BuiltIn(READ_ALL, self._read_all),
                BuiltIn(COUNT, self._count),
                BuiltIn(COMPARE, self._compare),
                BuiltIn(DUPLICATES, self._duplicates),
            ]
        )

    def _lookup(self, given: Arguments, job: Job) -> Json:
        names = self._files.documents(given.get("path") or None)
        documents, notes = self._read(names, job)
        found = lookup.find_passages(given["question"], documents)
        passages: list[Json] = [
            {"path": each.path, "line": each.line, "text": each.text} for each in found
        ]
        if not passages:
            notes.insert(0, "no document has the words of the question")
        result: dict[str, Json] = {"passages": passages, "searched": len(documents)}
        return noted(result, _few(notes))

    def _read_all(self, given: Arguments, job: Job) -> Json:
        names = self._files.named(given["pattern"])
        documents, notes = self._read(names, job)
        if not documents:
            raise ToolFailed(
                Sentence("{name} has no text that can be read", name=given["pattern"]),
                hint=_joined(notes),
            )
        shares = _shares([len(each.text) for each in documents], self._limits.letters)
        for each, share in zip(documents, shares, strict=True):
            if share < len(each.text):
                notes.append(f"{each.path}: the first {share:,} of {len(each.text):,} characters")
        files: list[Json] = [
            {"path": each.path, "text": each.text[:share]}
            for each, share in zip(documents, shares, strict=True)
        ]
        result: dict[str, Json] = {"files": files, "left_out": len(names) - len(documents)}
        return noted(result, _few(notes))

    def _read(self, names: Sequence[str], job: Job) -> tuple[list[lookup.Document], list[str]]:
        """Reads the texts of some files; notes those that cannot be read."""
        documents: list[lookup.Document] = []
        notes: list[str] = []
        read, end = 0, time.monotonic() + self._limits.seconds
        for at, name in enumerate(names):
            late = job.given_up or (at > 0 and time.monotonic() > end)
            if late or at >= self._limits.files or read > self._limits.bytes_all:
                notes.insert(0, f"{len(names) - at:,} files were not looked at, from {name} on")
                break
            try:
                text, cut = self._files.text(name)
            except ToolFailed as error:
                if len(names) == 1:
                    raise
                notes.append(f"left out: {error.message}")
                continue
            read += len(text)
            notes += cut
            documents.append(lookup.Document(name, text))
        return documents, notes

    def _count(self, given: Arguments, job: Job) -> Json:
        names, wanted = self._files.named(given["path"]), given.get("text", "")
        forms = search_forms(wanted) if wanted.strip() else ()
        counts: dict[str, _Counted] = {}
        notes: list[str] = []
        for name in names:
            if job.given_up:
                break
            try:
                counts[name] = self._counted(name, forms, job)
            except ToolFailed as error:
                if len(names) == 1:
                    raise
                notes.append(f"left out: {error.message}")
        if len(forms) > 1:
            notes.insert(0, f"lines with {forms[1]!r} count too")
        shown = [(name, each.lines) for name, each in counts.items() if each.lines or not forms]
        if len(shown) > self._limits.shown:
            notes.append(f"{len(shown) - self._limits.shown:,} more files are counted, not listed")
        result: dict[str, Json] = {
            "count": sum(each.lines for each in counts.values()),
            "unit": "lines",
            "files": [{"path": name, "count": n} for name, n in shown[: self._limits.shown]],
        }
        if not forms:
            result["words"] = sum(each.words for each in counts.values())
            result["characters"] = sum(each.letters for each in counts.values())
        return noted(result, _few(notes))

    def _counted(self, name: str, forms: Sequence[str], job: Job) -> _Counted:
        found = _Counted()
        if is_paged(name):
            for line in self._files.text(name)[0].splitlines():
                found.add(line, forms)
            return found
        with self._files.folder.opened(name) as file:
            if b"\0" in file.read(8192):
                raise ToolFailed(Sentence("{name} is not a text file", name=name))
            file.seek(0)
            with io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as lines:
                # In pieces: a file may be one line of any length.
                while piece := lines.readline(_LINE):
                    found.add(piece.rstrip("\n"), forms, ends=piece.endswith("\n"))
                    if job.given_up:
                        raise ToolFailed(Sentence("the count was given up"))
        found.end()
        return found

    def _compare(self, given: Arguments, job: Job) -> Json:
        names = given["first"], given["second"]
        folders = [self._files.folder.is_folder(name) for name in names]
        if all(folders):
            first, second = (self._digests(name, job) for name in names)
            found = compare_files(first, second)
            return self._difference(found, told(found, names, unit="file"), same=first == second)
        if any(folders):
            hint = Sentence("give two files, or two folders")
            raise ToolFailed(
                Sentence(
                    "{first} and {second} are a file and a folder", first=names[0], second=names[1]
                ),
                hint=hint,
            )
        digests = [self._digest(name) for name in names]
        same = digests[0] == digests[1]
        try:
            texts = [self._files.text(name) for name in names]
        except ToolFailed:
            summary = "the same content" if same else "different contents; they are not text"
            message = f"{names[0]} and {names[1]} have {summary}."
            return self._difference(Difference([], [], []), message, same=same)
        found = compare_lines(texts[0][0], texts[1][0])
        summary = told(found, names, unit="line", moved=not same)
        notes = [note for _, cut in texts for note in cut]
        return self._difference(found, summary, same=same, notes=notes)

    def _difference(
        self, found: Difference, summary: str, *, same: bool, notes: Sequence[str] = ()
    ) -> Json:
        most = self._limits.shown
        cut = [
            f"only the first {most} of {len(each):,} are listed"
            for each in found
            if len(each) > most
        ]
        result: dict[str, Json] = {
            "same": same,
            "added": [clip(line, _LONGEST_LINE) for line in found.added[:most]],
            "removed": [clip(line, _LONGEST_LINE) for line in found.removed[:most]],
            "changed": [
                {"before": clip(old, _LONGEST_LINE), "after": clip(new, _LONGEST_LINE)}
                for old, new in found.changed[:most]
            ],
            "summary": summary,
        }
        return noted(result, [*notes, *cut])

    def _digests(self, folder: str, job: Job) -> dict[str, bytes]:
        start = len("/".join(self._files.folder.parts(folder)))
        found: dict[str, bytes] = {}
        for name, _ in self._files.walk(folder):
            if job.given_up:
                break
            found[name[start:].lstrip("/")] = self._digest(name)
        return found

    def _digest(self, name: str) -> bytes:
        """Returns a digest of a file's content; fails if it changes meanwhile."""
        made = hashlib.sha256()
        with self._files.folder.opened(name) as file:
            before = os.fstat(file.fileno())
            while piece := file.read(_PIECE):
                made.update(piece)
            if stamp(before) != stamp(os.fstat(file.fileno())):
                raise ToolFailed(
                    Sentence("{name} changed while it was read", name=name),
                    hint=Sentence("try it again"),
                )
        return made.digest()

    def _duplicates(self, given: Arguments, job: Job) -> Json:
        sizes: defaultdict[int, list[str]] = defaultdict(list)
        for name, size in self._files.walk(given.get("folder", ".")):
            sizes[size].append(name)
        empty = sizes.pop(0, [])
        notes = [f"{len(empty)} empty files do not count"] if len(empty) > 1 else []
        groups: list[tuple[int, list[str]]] = []
        left = self._limits.compared_bytes
        for size, names in sorted(sizes.items()):
            if len(names) < 2:
                continue
            left -= size * len(names)
            if left < 0:
                notes.append(f"files of {size:,} bytes and more were too many to compare")
                break
            groups += [(size, same) for same in self._alike(names, notes, job)]
        groups.sort(key=lambda group: (-group[0] * (len(group[1]) - 1), group[1]))
        most = self._limits.shown
        if len(groups) > most:
            notes.append(f"only the first {most} of {len(groups):,} groups are listed")
        shown: list[Json] = [{"size": size, "paths": list(names)} for size, names in groups[:most]]
        return noted({"groups": shown, "count": len(groups)}, _few(notes))

    def _alike(self, names: Sequence[str], notes: list[str], job: Job) -> list[list[str]]:
        """Returns the files of one size that have the same content."""
        found: defaultdict[bytes, list[str]] = defaultdict(list)
        for name in names:
            if job.given_up:
                break
            try:
                found[self._digest(name)].append(name)
            except ToolFailed as error:
                notes.append(f"left out: {error.message}")
        return [same for same in found.values() if len(same) > 1]


class _Counted:
    """Lines, words and characters that were counted."""

    def __init__(self) -> None:
        self.lines = self.words = self.letters = 0
        self._open = False

    def add(self, piece: str, forms: Sequence[str], *, ends: bool = True) -> None:
        """Counts a line, or a piece of one, if it has one of the forms or none is asked for."""
        if not forms:
            self.words += len(_WORD.findall(piece))
            self.letters += len(piece)
        self._open = self._open or not forms or any(form in piece.casefold() for form in forms)
        if ends:
            self.end()

    def end(self) -> None:
        """Ends the line that was begun."""
        self.lines += self._open
        self._open = False


def _shares(lengths: Sequence[int], most: int) -> list[int]:
    """Shares so many characters out: what a short text does not need goes to the longer ones."""
    shares = list(lengths)
    left, waiting = most, sorted(range(len(lengths)), key=lambda at: lengths[at])
    for place, at in enumerate(waiting):
        shares[at] = min(lengths[at], left // (len(waiting) - place))
        left -= shares[at]
    return shares


def _few(notes: Sequence[str]) -> list[str]:
    more = len(notes) - _NOTES
    return [*notes[:_NOTES], f"and {more} more of this kind"] if more > 0 else list(notes)


def _joined(notes: Sequence[str]) -> str:
    return clip("; ".join(notes), 300)
