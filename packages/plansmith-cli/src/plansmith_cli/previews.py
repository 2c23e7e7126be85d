"""What calls would do, as a person sees it before allowing them, and what they change of that."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from plansmith import CallPreview, Run
from plansmith.file_ports import file_kind
from plansmith.plan.data import Json, json_text
from plansmith.plan.ids import root_of
from plansmith.plan.plan import Plan
from plansmith.plan.preview import FilePreview, OpenCall, PreviewedCall
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_cli.keyboard import Choice
from plansmith_cli.options import read_value
from plansmith_cli.ui.output import own, own_text, size_text
from plansmith_cli.ui.render import (
    BAR,
    left_out,
    named_lines,
    table_lines,
    text_lines,
    value_cell,
    value_lines,
)
from plansmith_cli.ui.terminal import own_locale

Values = Mapping[str, Json]
_ITEM: Final = re.compile(r"/\d+(?=/|$)")
_MAX_LINES: Final = 60
_MAX_ROWS: Final = 20


def step_of(part: str | None) -> str:
    """Returns the step of the plan that a part is of, without the numbers of items."""
    return _ITEM.sub("", part or "")


def callee_of(plan: Plan | None, unit: str | None) -> str:
    """Returns what a step or part calls; its own name if that is not known."""
    step = plan.by_id.get(root_of(unit or "")) if plan else None
    return (step.inner.callee if step else "") or unit or ""


def origin_line(run: Run, steps: Iterable[str], times: int = 0) -> str:
    """Says where the values of a call come from, and for how many items it is made."""
    # By what they called: titles are the plan's own words, and could say anything here.
    called = ((each, callee_of(run.plan, each)) for each in steps)
    names = ", ".join(each if each == name else f"{each} ({name})" for each, name in called)
    origin = own_text(
        "{times} times, once for each of these items, which came out of: {sources}"
        if times
        else "with these values, which came out of: {sources}",
        sources=safe(clip(names, 200)),
        times=times,
    )
    return f"  {origin}"


def quoted(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines of others, each behind a bar: none can pass for one of ours."""
    return (f"{BAR}{line}" for line in lines)


def _some(lines: Sequence[str], most: int, *, whole: bool = False, count: int = 0) -> Iterator[str]:
    """Yields lines, of many the first; what is left out is counted without a bar."""
    some = lines if whole else lines[:most]
    yield from some
    if (more := max(count, len(lines)) - len(some)) > 0:
        yield left_out("show.more_lines", more, own_locale())


def shown_lines(
    shown: CallPreview | None, *, brief: bool = False, whole: bool = False
) -> Iterator[str]:
    """Yields what a call would do, as its tool says; `brief`: a line for each file alone."""
    if shown is None:
        return
    if shown.fails:
        yield f"! {own_text('This call would fail: {error}', error=safe(own(shown.fails)))}"
    files = shown.files
    match shown.moved:
        case (old,) if not files:
            yield f"- {own_text('Deletes the folder {path}', path=safe(old))}"
        case (old, new) if len(files) != 1:
            yield f"> {own_text('Moves {path} to {to}', path=safe(old), to=safe(new))}"
            # What is moved is not lost; what it replaces is.
            files = tuple(each for each in files if each.change == "changed")
        case _:
            pass
    for each in files:
        yield _headline(each)
        yield from () if brief else _file_lines(each, whole=whole)
    if not brief:
        yield from _told_lines(shown, whole=whole)


def _told_lines(shown: CallPreview, *, whole: bool) -> Iterator[str]:
    if shown.text:
        yield own_text("the tool shows:")
        yield from _some([*quoted(text_lines(shown.text))], _MAX_LINES, whole=whole)
    if shown.rows:
        count = max(shown.count, len(shown.rows))
        yield own_text("{count} rows:", count=f"{count:,}")
        rows = [*quoted(value_lines([*shown.rows]))]
        count += len(rows) - len(shown.rows)
        yield from _some(rows, _MAX_ROWS + 2, whole=whole, count=count)


def _file_lines(file: FilePreview, *, whole: bool) -> Iterator[str]:
    if file.difference:
        lines = [f"│{safe(line)}" for line in file.difference]
    elif file_kind(file.path, file.text.encode()).kind == "picture":
        return  # its name tells it
    else:
        lines = [f"│+{line}" for line in text_lines(file.text)] if file.text else []
    yield from _some(lines, _MAX_LINES, whole=whole)


def _headline(file: FilePreview) -> str:
    kind = file.change
    sizes = (own(size_text(size or 0)) for size in (file.size_before, file.size_after))
    named = dict(zip(("before", "after"), sizes, strict=True)) | {"path": safe(file.path)}
    # The mark before each colours the line.
    mark, text = {
        "new": ("+ ", Sentence("Writes {path} (new file, {after})", **named)),
        "deleted": ("- ", Sentence("Deletes {path} ({before})", **named)),
        "same": ("", Sentence("Writes {path}, which stays as it is ({after})", **named)),
        "changed": ("- ", Sentence("Replaces {path} ({before}) by {after}:", **named)),
        "edited": ("~ ", Sentence("Changes {path} ({before} now):", **named)),
    }["edited" if kind == "changed" and file.is_edit else kind]
    return mark + own(text)


def is_lossy(shown: CallPreview | None) -> bool:
    """Tells whether something that is there now is gone afterwards."""
    if shown is None:
        return False
    kept = shown.moved[:1] if len(shown.moved) > 1 else ()
    return len(shown.moved) == 1 or any(
        each.size_before is not None and each.change in ("changed", "deleted") and not each.is_edit
        for each in shown.files
        if each.path not in kept
    )


def _is_told(value: Json, shown: CallPreview | None) -> bool:
    """Tells whether a tool shows every line of a text; a short value is always named, too."""
    if shown is None or not isinstance(value, str) or "\n" not in value.strip():
        return False
    files = (line for each in shown.files for line in (each.text, *each.difference))
    text = "\n".join([shown.text, *files])
    return all(line in text for line in value.splitlines())


def difference_lines(before: PreviewedCall, now: PreviewedCall) -> list[str]:
    """Returns what a call does now and was shown otherwise: as its old and its new lines."""
    old, new = ([*calls_lines([each], whole=True)] for each in (before, now))
    lines = [*difflib.unified_diff(old, new, lineterm="", n=1)][3:]
    return [*_some([f"│{line[0]}{line[1:].removeprefix(BAR)}" for line in lines], _MAX_LINES)]


@dataclass(slots=True)
class ShownPreview:
    """A preview as a person sees it, and decides on it by the numbers of its calls."""

    run: Run
    leave_out: set[str] = field(default_factory=set[str])
    change: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])

    @property
    def groups(self) -> list[list[PreviewedCall]]:
        """The calls as the plan has them, those for items of one list together; losses first."""
        found = dict[tuple[str, str], list[PreviewedCall]]()
        for each in self.run.preview.calls if self.run.preview is not None else ():
            found.setdefault((step_of(each.step), each.callee), []).append(each)
        for group in found.values():
            group.sort(key=lambda each: not is_lossy(each.shown))
        return sorted(found.values(), key=lambda group: not is_lossy(group[0].shown))

    @property
    def calls(self) -> list[PreviewedCall]:
        return [each for group in self.groups for each in group]

    @property
    def choices(self) -> tuple[str, ...]:
        """What a person can decide here besides yes, no and a change of the plan."""
        if self.run.preview is None:
            return ("preview",)
        return ("all", "leave_out", "change") if self.calls else ()

    def lines(self, *, whole: bool = False) -> Iterator[str]:
        """Yields all that would change, and what stays open."""
        preview, number = self.run.preview, 1
        if preview is None or not (preview.calls or preview.open):
            return
        yield own_text("With the data of now, this would happen:")
        for name, state in self.run.steps.items():
            if state.given_by:
                given = own_text("{step} is as {who} says:", step=name, who=safe(state.given_by))
                values = named_lines(name, state.result, own_locale())
                yield from (f"  {line}" for line in (f"! {given}", *values))
        for group in self.groups:
            yield from (f"  {line}" for line in self._group_lines(group, number, whole=whole))
            number += len(group)
        waiting = [line for each in preview.open for line in self._open_lines(each)]
        yield from _some(waiting, _MAX_ROWS, whole=whole)

    def _group_lines(
        self, group: list[PreviewedCall], number: int, *, whole: bool
    ) -> Iterator[str]:
        first, last = group[0], number + len(group) - 1
        numbers = f"{number}" if number == last else f"{number}-{last}"
        yield f"{numbers}. {clip(safe(first.callee), 80)} ({safe(step_of(first.step))})"
        if first.times:
            yield f"  {own_text('up to {times} times', times=first.times)}"
        if sources := [*dict.fromkeys(name for each in group for name in each.sources)]:
            yield origin_line(self.run, sources)
        yield from (f"  {line}" for line in calls_lines(group, number, whole=whole))

    def _open_lines(self, each: OpenCall) -> Iterator[str]:
        run = self.run
        yield "  " + own_text(
            "{callee} ({step}) comes later: it needs what comes out of {names}",
            callee=clip(safe(callee_of(run.plan, each.step)), 80),
            step=safe(step_of(each.step)),
            names=", ".join(map(safe, each.waits_for)),
        )
        for name in each.waits_for:
            if name in run.steps and (error := run.steps[name].error):
                yield f"    ! {safe(name)}: {clip(safe(own(error)), 200)}"

    def decide(self, choice: Choice) -> Iterator[str]:
        """Notes what a person leaves out or changes, and yields it; or shows everything."""
        calls = self.calls
        if choice.kind == "all":
            yield from self.lines(whole=True)
        for number in choice.numbers:
            if not 0 < number <= len(calls):
                yield own_text("there is no number {number} here", number=number)
                continue
            call = calls[number - 1]
            named = f"{number}. {clip(safe(call.callee), 80)} ({safe(call.step)})"
            if choice.kind == "leave_out":
                self.leave_out.add(call.step)
                self.change.pop(call.step, None)
                yield f"- {own_text('left out: {step}', step=named)}"
            else:
                name, _, typed = choice.text.partition("=")
                self.leave_out.discard(call.step)
                change = self.change.setdefault(call.step, {})
                change[name] = read_value(name, typed)
                changed = call.replace(inputs=call.inputs | change)
                yield from (named, *difference_lines(call, changed))


def calls_lines(
    calls: Sequence[PreviewedCall], number: int = 1, *, whole: bool = False
) -> Iterator[str]:
    """Yields what calls would do, and their inputs: of several the first lines, as a table."""
    if len(calls) > 1 and not whole:
        yield from _table_lines(calls, number)
        return
    for place, each in enumerate(calls, start=number):
        yield from [f"{place}."] if len(calls) > 1 else []
        for name, value in each.inputs.items():
            if whole:
                text = value if isinstance(value, str) else json_text(value, 1)
                yield f"{safe(name)} ({len(text):,}):"
                yield from quoted(text_lines(text))
            elif not _is_told(value, each.shown):
                yield from named_lines(name, value, own_locale())
        yield from shown_lines(each.shown, whole=whole)


def _table_lines(calls: Sequence[PreviewedCall], number: int) -> Iterator[str]:
    for each in sorted(calls, key=lambda each: not is_lossy(each.shown))[:_MAX_ROWS]:
        yield from shown_lines(each.shown, brief=True)
    names = [*dict.fromkeys(name for each in calls for name in each.inputs)]
    rows = [
        [str(place), *(value_cell(each.inputs.get(name)) for name in names)]
        for place, each in enumerate(calls, start=number)
    ]
    table = [*quoted(table_lines(["", *names], rows))]
    yield from _some(table, _MAX_ROWS + 2)
