"""Shows what calls would do to files: which are lost, moved and made, and the lines that change."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from plansmith.plan.sentence import Sentence, in_language
from plansmith.runs.files import UNSEEN, Content, FileChange, Preview, as_text
from plansmith.text import safe

if TYPE_CHECKING:
    from plansmith_cli.ui.words import Words

_MOST_LINES: Final = 60


def preview_lines(
    preview: Preview | None, words: Words, *, differences: bool = True
) -> Iterator[str]:
    """Yields what a call would do to each file, with the lines that change."""
    if preview is None:
        return
    if preview.error:
        yield f"  {words['would_fail'].format(error=safe(preview.error))}"
    changes = preview.changes
    match preview.moved:
        case (old,) if not changes:
            yield f"  - {words['folder_deleted'].format(path=safe(old))}"
        case (old, new) if len(changes) != 1:
            yield f"  > {words['file_moved'].format(path=safe(old), to=safe(new))}"
            # What is moved is not lost; what it replaces is.
            changes = tuple(each for each in changes if each.kind == "changed")
        case _:
            pass
    for each in changes:
        yield f"  {_headline(each, words)}"
        if differences and each.kind == "changed":
            yield from _difference(each, words)


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


def _headline(change: FileChange, words: Words) -> str:
    sizes = {
        "path": safe(change.path),
        "before": _size(change.before, words),
        "after": _size(change.after, words),
    }
    if change.kind == "changed" and change.after is UNSEEN:
        return f"- {words['file_replaced_unseen'].format(**sizes)}"
    if change.kind == "changed" and not change.is_edit:
        return f"- {words['file_replaced'].format(**sizes)}"
    mark = {"deleted": "- ", "new": "+ ", "changed": "~ "}.get(change.kind, "")
    return f"{mark}{words[f'file_{change.kind}'].format(**sizes)}"


def _size(content: Content | None, words: Words) -> str:
    """Says how many lines a text has, or how many bytes anything else."""
    text = _text(content)
    if content is None or text is None:
        return words["bytes"].format(count=f"{content.size if content else 0:,}")
    count = len(text.splitlines())
    return words["one_line" if count == 1 else "lines"].format(count=f"{count:,}")


def _text(content: Content | None) -> str | None:
    return None if content is None or content.data is None else as_text(content.data)


def _difference(change: FileChange, words: Words) -> Iterator[str]:
    before, after = _text(change.before), _text(change.after)
    if before is None or after is None:
        return
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    lines = list(found)[2:]  # without the names of the two files
    yield from (f"  │{safe(line)}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        more = Sentence("show.more_lines", count=f"{len(lines) - _MOST_LINES:,}")
        yield f"  {in_language(more, words['locale'])}"
