"""What a plan would change, shown before its approval."""

from __future__ import annotations

from typing import Literal

from pydantic import SkipValidation

from plansmith.plan.data import Flag, Json, Record, StrictInt, canonical_hash


class FilePreview(Record):
    """What a call would do to a file; of a large or binary file no text.

    Attributes:
        path: The file.
        change: Whether it is new, changed, deleted, or stays as it is.
        size_before: Its size in bytes now; None if it is not there.
        size_after: Its size afterwards; None if it is not there then.
        difference: The lines that change, as a unified difference.
        text: The content of a new file, or the source of a picture.
        is_edit: What the call does not change in it stays.
    """

    path: str
    change: Literal["new", "changed", "same", "deleted"]
    size_before: StrictInt | None = None
    size_after: StrictInt | None = None
    difference: tuple[str, ...] = ()
    text: str = ""
    is_edit: Flag = False


class CallPreview(Record):
    """What a call would do, as a person sees it; a tool says it without doing anything.

    Attributes:
        text: A message as it would be sent, or what would happen, in words.
        rows: The rows that would change, each by column.
        count: How many rows there are, if these are only some.
        files: The files that would change.
        moved: From where to where a file or folder would move; only from where: it is deleted.
        fails: Why the call would fail; empty if it would not.
        touches: Names of what it would change. Calls that touch the same change what others show.
        seen: A hash of what the preview depends on; by default of all that it shows.
        done: Everything is as the call would leave it.

    Examples:
        >>> from plansmith import CallPreview
        >>> CallPreview(text="To: ann@example.org").hash == CallPreview(text="To: bob").hash
        False
    """

    text: str = ""
    rows: tuple[dict[str, Json], ...] = ()
    count: StrictInt = 0
    files: tuple[FilePreview, ...] = ()
    moved: tuple[str, ...] = ()
    fails: str = ""
    touches: tuple[str, ...] = ()
    seen: str = ""
    done: Flag = False

    @property
    def touched(self) -> tuple[str, ...]:
        """The names of all that the call would change."""
        files = (each.path for each in self.files)
        return tuple(dict.fromkeys((*self.touches, *files, *self.moved)))

    @property
    def hash(self) -> str:
        """Differs once the call would do something else."""
        return self.seen or canonical_hash(self.to_json())


class PreviewedCall(Record):
    """A call that a plan would make if it were approved.

    Attributes:
        step: The step or part that makes it.
        callee: The tool or agent.
        inputs: Its inputs.
        shown: What the tool says that it would do, if it says so.
        sources: The steps that its values come from.
        times: How often it would be made at most, if it is repeated.
    """

    step: str
    callee: str
    inputs: SkipValidation[dict[str, Json]]
    shown: CallPreview | None = None
    sources: tuple[str, ...] = ()
    times: StrictInt = 0


class OpenCall(Record):
    """A change that nobody can show yet; `waits_for` are the steps that have to run before."""

    step: str
    waits_for: tuple[str, ...] = ()


class Preview(Record):
    """All that a plan would change, with the data of now.

    Attributes:
        hash: Approves the plan and exactly these calls: `decide(run.id, approve=run.preview.hash)`.
        calls: The calls that would be made.
        open: Changes that depend on others; a person is asked when they come.
    """

    hash: str = ""
    calls: tuple[PreviewedCall, ...] = ()
    open: tuple[OpenCall, ...] = ()
