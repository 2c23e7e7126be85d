"""Shows what calls would do to files: which are lost, moved and made, and the lines that change."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from plansmith.plan.sentence import Sentence, in_language
from plansmith.runs.files import UNSEEN, Content, FileChange, Preview, as_text
from plansmith.text import safe

_MOST_LINES: Final = 60


def preview_lines(
    preview: Preview | None, locale: str, *, differences: bool = True
) -> Iterator[str]:
    """Yields what a call would do to each file, with the lines that change."""
    if preview is None:
        return
    if preview.error:
        told = Sentence("This call would fail: {error}", error=safe(preview.error))
        yield f"  {in_language(told, locale)}"
    changes = preview.changes
    match preview.moved:
        case (old,) if not changes:
            told = Sentence("Deletes the folder {path}", path=safe(old))
            yield f"  - {in_language(told, locale)}"
        case (old, new) if len(changes) != 1:
            told = Sentence("Moves {path} to {to}", path=safe(old), to=safe(new))
            yield f"  > {in_language(told, locale)}"
            # What is moved is not lost; what it replaces is.
            changes = tuple(each for each in changes if each.kind == "changed")
        case _:
            pass
    for each in changes:
        yield f"  {_headline(each, locale)}"
        if differences and each.kind == "changed":
            yield from _difference(each, locale)


def loses(preview: Preview | None) -> bool:
    """Tells whether something that is there now is gone afterwards."""
    if preview is None:
        return False
    is_folder_deleted = len(preview.moved) == 1
    kept = preview.moved[:1] if len(preview.moved) > 1 else ()
    return is_folder_deleted or any(
        each.before is not None and each.kind != "same" and not each.is_edit
        for each in preview.changes
        if each.path not in kept
    )


def _headline(change: FileChange, locale: str) -> str:
    path, before, after = safe(change.path), _size(change.before), _size(change.after)
    mark = {"deleted": "- ", "new": "+ ", "changed": "- "}.get(change.kind, "")
    match change.kind:
        case "new":
            told = Sentence("Writes {path} (new file, {after})", path=path, after=after)
        case "deleted":
            told = Sentence("Deletes {path} ({before})", path=path, before=before)
        case "same":
            told = Sentence("Writes {path}, which stays as it is ({after})", path=path, after=after)
        case "changed" if change.after is UNSEEN:
            told = Sentence(
                "Replaces {path} ({before}) by what earlier steps bring", path=path, before=before
            )
        case "changed" if not change.is_edit:
            told = Sentence(
                "Replaces {path} ({before}) by {after}:", path=path, before=before, after=after
            )
        case _:
            mark = "~ "
            told = Sentence("Changes {path} ({before} now):", path=path, before=before)
    return f"{mark}{in_language(told, locale)}"


def _size(content: Content | None) -> str:
    """Says how many lines a text has, or how many bytes anything else."""
    text = _text(content)
    if content is None or text is None:
        return Sentence("{count} bytes", count=content.size if content else 0)
    count = len(text.splitlines())
    return Sentence("1 line" if count == 1 else "{count} lines", count=count)


def _text(content: Content | None) -> str | None:
    return None if content is None or content.data is None else as_text(content.data)


def _difference(change: FileChange, locale: str) -> Iterator[str]:
    before, after = _text(change.before), _text(change.after)
    if before is None or after is None:
        return
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    lines = list(found)[2:]  # without the names of the two files
    yield from (f"  │{safe(line)}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        more = Sentence("show.more_lines", count=f"{len(lines) - _MOST_LINES:,}")
        yield f"  {in_language(more, locale)}"
