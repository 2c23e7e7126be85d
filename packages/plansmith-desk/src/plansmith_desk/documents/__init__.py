"""Built-in tools that read documents: several at once, by a question, by lines, side by side."""

from __future__ import annotations

import difflib
import hashlib
import io
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, cast

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.text import clip
from plansmith_desk import toolset as ts
from plansmith_desk.documents.text import is_paged, kind, readable_text
from plansmith_desk.folder import Folder, fits, is_pattern, search_forms, stamp
from plansmith_desk.tool_specs import COUNT, YES, record, spec
from plansmith_planner.context.files import NEVER_READ, is_text_name
from plansmith_planner.language.characters import CJK_RANGE

if TYPE_CHECKING:
    from plansmith_desk.documents import lookup
else:
    lazy_modules(globals(), lookup="plansmith_desk.documents.lookup")

_WHERE: Final = "A file, a folder or a pattern such as notes/*.md"
_PATTERN: Final = ts.string(f"{_WHERE}.", minLength=1, maxLength=300)
_LOOKUP: Final = spec(
    "files.lookup",
    "Answer a question from what documents say (notes, contracts, PDF, logs): who, when, how much "
    "(根据文档、笔记、合同回答问题).",
    record(
        {"question": ts.string("The question in its own words.", minLength=1, maxLength=2_000)},
        path=ts.string(f"{_WHERE}; all documents if left out.", maxLength=300),
    ),
    record(
        {
            "passages": ts.items(record({"path": ts.TEXT, "line": COUNT, "text": ts.TEXT})),
            "searched": COUNT,
        },
        notes=ts.NOTES,
    ),
)
_READ_ALL: Final = spec(
    "files.read_all",
    "Read the texts of several files at once, to summarise or compare what they say "
    "(读取、汇总多个文件的内容).",
    record({"pattern": _PATTERN}),
    record(
        {"files": ts.items(record({"path": ts.TEXT, "text": ts.TEXT})), "left_out": COUNT},
        notes=ts.NOTES,
    ),
)
_COUNT: Final = spec(
    "files.count",
    "Count the lines of a file or log, all or those that contain a text such as ERROR; words too "
    "(统计行数、字数、出现多少行).",
    record(
        {"path": _PATTERN},
        text=ts.string("Count only lines with this text, in any letter case.", maxLength=500),
    ),
    record(
        {
            "count": COUNT,
            "unit": ts.TEXT,
            "files": ts.items(record({"path": ts.TEXT, "count": COUNT})),
        },
        words=COUNT,
        characters=COUNT,
        notes=ts.NOTES,
    ),
)
_COMPARE: Final = spec(
    "files.compare",
    "Compare two files or two folders: what is different, added, removed or changed "
    "(比较两个文件或文件夹的差异).",
    record(
        {
            "first": ts.string("The older or first file or folder.", minLength=1),
            "second": ts.string("The newer or second one.", minLength=1),
        }
    ),
    record(
        {
            "same": YES,
            "added": ts.items(ts.TEXT, "Lines or files only in the second."),
            "removed": ts.items(ts.TEXT, "Lines or files only in the first."),
            "changed": ts.items(record({"before": ts.TEXT, "after": ts.TEXT})),
            "summary": ts.TEXT,
        },
        notes=ts.NOTES,
    ),
)
_DUPLICATES: Final = spec(
    "files.duplicates",
    "Find duplicate files: the same content under several names (查找重复的文件).",
    record({}, folder=ts.string("Where to look; the working folder if left out.")),
    record(
        {"groups": ts.items(record({"size": COUNT, "paths": ts.items(ts.TEXT)})), "count": COUNT},
        notes=ts.NOTES,
    ),
)

_TABLES: Final = frozenset({".csv", ".tsv", ".xlsx", ".xls", ".db", ".sqlite", ".sqlite3"})
_WORD: Final = re.compile(rf"[{CJK_RANGE}]|[^\s{CJK_RANGE}]+")
_PIECE: Final = 1 << 20
_MAX_LINE: Final = 300
_NOTES: Final = 10
_KEPT: Final = 200
_PAIRED: Final = 40  # lines of either side; each is compared with each
_ALIKE: Final = 0.6


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits of files and bytes that are read or compared, of time, and of what is shown."""

    files: int = 2_000
    bytes_each: int = 2_000_000
    bytes_all: int = 30_000_000
    paged_bytes: int = 30_000_000
    compared_bytes: int = 10_000_000_000
    seconds: float = 40.0
    listed: int = 100
    letters: int = 24_000


class DocumentTools(ts.ToolSet):
    """The tools that read documents in a folder; none of them changes anything."""

    def __init__(self, root: Path, *, limits: DocumentLimits | None = None) -> None:
        self._folder = Folder(root)
        self._limits = limits or DocumentLimits()
        self._texts: dict[tuple[str | int, ...], tuple[str, list[str]]] = {}
        specs = (_LOOKUP, _READ_ALL, _COUNT, _COMPARE, _DUPLICATES)
        works = (self._lookup, self._read_all, self._count, self._compare, self._duplicates)
        super().__init__([ts.BuiltIn(*each) for each in zip(specs, works, strict=True)])

    def _lookup(self, given: ts.Arguments, job: ts.Job) -> Json:
        path = given.get("path") or "."
        names = self._named(path)
        if self._folder.is_folder(path) or len(names) != 1:  # a file that is named is always one
            # Text for people, by its name: tables and pictures are not.
            names = [
                name
                for name in names
                if (end := kind(name)) not in _TABLES
                and (not end or is_paged(name) or is_text_name(PurePosixPath(name)))
            ]
        documents, notes = self._read(names, job)
        found = lookup.find_passages(given["question"], documents)
        if not found:
            notes.insert(0, "no document has the words of the question")
        passages: list[Json] = [
            {"path": each.path, "line": each.line, "text": each.text} for each in found
        ]
        return ts.noted({"passages": passages, "searched": len(documents)}, _few(notes))

    def _read_all(self, given: ts.Arguments, job: ts.Job) -> Json:
        names = self._named(given["pattern"])
        documents, notes = self._read(names, job)
        if not documents:
            message = Sentence("{name} has no text that can be read", name=given["pattern"])
            raise ToolFailed(message, hint=clip("; ".join(notes), 300))
        # What a short text does not need of the room goes to the longer ones.
        shares, left = [0] * len(documents), self._limits.letters
        shortest = sorted(range(len(documents)), key=lambda at: len(documents[at].text))
        for place, at in enumerate(shortest):
            shares[at] = min(len(documents[at].text), left // (len(documents) - place))
            left -= shares[at]
        files: list[Json] = []
        for each, share in zip(documents, shares, strict=True):
            files.append({"path": each.path, "text": each.text[:share]})
            if share < len(each.text):
                notes.append(f"{each.path}: the first {share:,} of {len(each.text):,} characters")
        return ts.noted({"files": files, "left_out": len(names) - len(documents)}, _few(notes))

    def _count(self, given: ts.Arguments, job: ts.Job) -> Json:
        names, wanted = self._named(given["path"]), given.get("text", "")
        forms = search_forms(wanted) if wanted.strip() else ()
        counts: dict[str, Counter[str]] = {}
        notes = [f"lines with {forms[1]!r} count too"] if len(forms) > 1 else []
        for name in names:
            if job.given_up:
                break
            try:
                counts[name] = _count_lines(self._pieces(name, job), forms)
            except ToolFailed as error:
                if len(names) == 1:
                    raise
                notes.append(f"left out: {error.message}")
        fitting = {name: each["lines"] for name, each in counts.items()}
        listed = [(name, count) for name, count in fitting.items() if count or not forms]
        most = self._limits.listed
        if len(listed) > most:
            notes.append(f"{len(listed) - most:,} more files are counted, not listed")
        whole = sum(counts.values(), Counter[str]())
        result: dict[str, Json] = {
            "count": whole["lines"],
            "unit": "lines",
            "files": [{"path": name, "count": count} for name, count in listed[:most]],
        }
        if not forms:
            result |= {"words": whole["words"], "characters": whole["letters"]}
        return ts.noted(result, _few(notes))

    def _compare(self, given: ts.Arguments, job: ts.Job) -> Json:
        names = given["first"], given["second"]
        folders = [self._folder.is_folder(name) for name in names]
        if all(folders):
            first, second = (self._digests(name, job) for name in names)
            both = sorted(first.keys() & second.keys())
            changed = [(name, name) for name in both if first[name] != second[name]]
            added, removed = second.keys() - first.keys(), first.keys() - second.keys()
            files = sorted(added), sorted(removed), changed
            return self._difference(names, "file", files, same=first == second)
        if any(folders):
            hint = Sentence("give two files, or two folders")
            raise ToolFailed(Sentence("one is a file and the other a folder"), hint=hint)
        same = self._digest(names[0]) == self._digest(names[1])
        try:
            texts = [self._text(name) for name in names]
        except ToolFailed:
            found = "the same content" if same else "different contents; they are not text"
            summary = f"{names[0]} and {names[1]} have {found}."
            return {"same": same, "added": [], "removed": [], "changed": [], "summary": summary}
        lists = _compared_lines(texts[0][0], texts[1][0])
        notes = [note for _, cut in texts for note in cut]
        return self._difference(names, "line", lists, same=same, notes=notes)

    def _difference(
        self,
        names: tuple[str, str],
        unit: str,
        lists: _Difference,
        *,
        same: bool,
        notes: Sequence[str] = (),
    ) -> Json:
        most, (added, removed, changed) = self._limits.listed, lists
        result: dict[str, Json] = {
            "same": same,
            "added": [clip(line, _MAX_LINE) for line in added[:most]],
            "removed": [clip(line, _MAX_LINE) for line in removed[:most]],
            "changed": [
                {"before": clip(old, _MAX_LINE), "after": clip(new, _MAX_LINE)}
                for old, new in changed[:most]
            ],
        }
        parts, cut = list[str](), list[str]()
        where = f"only in {names[1]}", f"only in {names[0]}", "changed"
        counts = len(added), len(removed), len(changed)
        for what, count in zip(where, counts, strict=True):
            parts += [f"{count:,} {unit}{'' if count == 1 else 's'} {what}"] if count else []
            cut += [f"only the first {most} of {count:,} are listed"] if count > most else []
        order = "" if same else ", in another order"
        otherwise = f"{names[0]} and {names[1]} have the same {unit}s{order}"
        result["summary"] = f"{', '.join(parts) or otherwise}."
        return ts.noted(result, [*notes, *cut])

    def _duplicates(self, given: ts.Arguments, job: ts.Job) -> Json:
        sizes: defaultdict[int, list[str]] = defaultdict(list)
        for name, size in self._walk(given.get("folder", ".")):
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
            found: defaultdict[bytes, list[str]] = defaultdict(list)
            for name in [] if job.given_up else names:
                try:
                    found[self._digest(name)].append(name)
                except ToolFailed as error:
                    notes.append(f"left out: {error.message}")
            groups += [(size, same) for same in found.values() if len(same) > 1]
        groups.sort(key=lambda group: (-group[0] * (len(group[1]) - 1), group[1]))
        most = self._limits.listed
        if len(groups) > most:
            notes.append(f"only the first {most} of {len(groups):,} groups are listed")
        listed: list[Json] = [{"size": size, "paths": [*names]} for size, names in groups[:most]]
        return ts.noted({"groups": listed, "count": len(groups)}, _few(notes))

    def _digests(self, folder: str, job: ts.Job) -> dict[str, bytes]:
        start = len(self._folder.plain(folder))
        found: dict[str, bytes] = {}
        for name, _ in self._walk(folder):
            if job.given_up:
                break
            found[name[start:].lstrip("/")] = self._digest(name)
        return found

    def _digest(self, name: str) -> bytes:
        """Returns a digest of a file's content; fails if it changes meanwhile."""
        with self._folder.opened(name) as file:
            before = os.fstat(file.fileno())
            digest = hashlib.file_digest(cast("io.BufferedReader", file), "sha256").digest()
            if stamp(before) != stamp(os.fstat(file.fileno())):
                raise ToolFailed(Sentence("{name} changed while it was read", name=name))
        return digest

    def _walk(self, path: str) -> Iterator[tuple[str, int]]:
        """Yields the files below a folder with their sizes; skips what programs put there."""
        for name, state in self._folder.walk(path):
            if NEVER_READ.isdisjoint(name.split("/")):
                yield name, state.st_size

    def _named(self, path: str) -> list[str]:
        """Returns the files that a path, a folder or a pattern means; fails if there are none."""
        if self._folder.is_folder(path):
            return [name for name, _ in self._walk(path)]
        if self._folder.is_file(path):
            return [self._folder.plain(path)]
        every = [name for name, _ in self._walk(".")]
        # A pattern, or a folder further down, or in another letter case.
        for pattern in (path, f"**/{path.strip('/')}/**"):
            found = [name for name in every if fits(name, pattern)]
            if found:
                return found
        listed = Sentence("there are {names}", names=clip(", ".join(every)))
        near = did_you_mean(path, every, otherwise=listed)
        if is_pattern(path):
            raise ToolFailed(Sentence("no file fits {path}", path=path), hint=near)
        try:
            with self._folder.opened(path):
                return [path]
        except ToolFailed as error:
            raise ToolFailed(error.message, hint=error.hint or near) from None

    def _read(self, names: Sequence[str], job: ts.Job) -> tuple[list[lookup.Document], list[str]]:
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
                text, cut = self._text(name)
            except ToolFailed as error:
                if len(names) == 1:
                    raise
                notes.append(f"left out: {error.message}")
                continue
            read += len(text)
            notes += cut
            documents.append(lookup.Document(name, text))
        return documents, notes

    def _text(self, name: str) -> tuple[str, list[str]]:
        """Returns the text of a file, and notes on what was cut."""
        with self._folder.opened(name) as file:
            key: tuple[str | int, ...] = (name, *stamp(os.fstat(file.fileno())))
            data = b"" if is_paged(name) else file.read(self._limits.bytes_each + 1)
        if is_paged(name):
            # Kept, since to take it out takes seconds.
            if key not in self._texts:
                data = self._folder.read(name, most=self._limits.paged_bytes)
                found = readable_text(name, data)
                if len(self._texts) >= _KEPT:
                    self._texts.clear()
                self._texts[key] = found
            return self._texts[key]
        if len(data) <= self._limits.bytes_each:
            return readable_text(name, data)
        whole, _, _ = data.rpartition(b"\n")
        text, notes = readable_text(name, whole or data[: self._limits.bytes_each])
        return text, [*notes, f"only the first {len(whole):,} bytes of {name} were read"]

    def _pieces(self, name: str, job: ts.Job) -> Iterator[str]:
        """Yields the lines of a file; one of any length in pieces."""
        if is_paged(name):
            yield from self._text(name)[0].splitlines(keepends=True)
            return
        with self._folder.opened(name) as file:
            if b"\0" in file.read(8192):
                raise ToolFailed(Sentence("{name} is not a text file", name=name))
            file.seek(0)
            with io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as lines:
                while piece := lines.readline(_PIECE):
                    yield piece
                    if job.given_up:
                        raise ToolFailed(Sentence("the count was given up"))


def _count_lines(pieces: Iterable[str], forms: Sequence[str]) -> Counter[str]:
    """Counts lines, words and letters; with forms only the lines that have one of them."""
    found: Counter[str] = Counter()
    fitting = False
    for piece in pieces:
        fitting = fitting or not forms or any(form in piece.casefold() for form in forms)
        if not forms:
            found["words"] += len(_WORD.findall(piece))
            found["letters"] += len(piece.rstrip("\n"))
        if piece.endswith("\n"):
            found["lines"] += fitting
            fitting = False
    found["lines"] += fitting
    return found


_Difference = tuple[list[str], list[str], list[tuple[str, str]]]  # added, removed, changed


def _compared_lines(first: str, second: str) -> _Difference:
    """Returns the lines that were added, removed and changed, wherever in the text they stand."""
    before, after = (
        [line.rstrip() for line in text.split("\n") if line.strip()] for text in (first, second)
    )
    removed = [*(Counter(before) - Counter(after)).elements()]
    added = [*(Counter(after) - Counter(before)).elements()]
    changed: list[tuple[str, str]] = []
    if len(removed) <= _PAIRED and len(added) <= _PAIRED:
        for old in removed.copy():
            short = [line for line in added if len(line) <= 1_000]
            near = difflib.get_close_matches(old[:1_000], short, n=1, cutoff=_ALIKE)
            if near:
                changed.append((old, near[0]))
                removed.remove(old)
                added.remove(near[0])
    return added, removed, changed


def _few(notes: Sequence[str]) -> list[str]:
    more = len(notes) - _NOTES
    return [*notes[:_NOTES], f"and {more} more of this kind"] if more > 0 else list(notes)
