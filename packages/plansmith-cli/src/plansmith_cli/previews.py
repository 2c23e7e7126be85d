"""What calls would do, as a person sees it before allowing them, and what they change of that."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from plansmith import CallPreview, Misconfigured, Run
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
_MAX_OPEN: Final = 20


def step_of(part: str | None) -> str:
    """Returns the step of the plan that a part is of, without the numbers of items."""
    return _ITEM.sub("", part or "")


def callee_of(plan: Plan | None, unit: str | None) -> str:
    """Returns what a step or part calls; its own name if that is not known."""
    step = plan.by_id.get(root_of(unit or "")) if plan else None
    return (step.inner.callee if step else "") or unit or ""


def origin_line(
    run: Run,
    steps: Iterable[str],
    text: str = "with these values, which came out of: {sources}",
    **fields: int,
) -> str:
    """Says where the values of a call come from."""
    # By what they called: titles are the plan's own words, and could say anything here.
    called = ((each, callee_of(run.plan, each)) for each in steps)
    names = ", ".join(each if each == name else f"{each} ({name})" for each, name in called)
    return f"  {own_text(text, sources=safe(clip(names, 200)), **fields)}"


def quoted(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines of others, each behind a bar: none can pass for one of ours."""
    return (f"  {BAR}{line}" for line in lines)


def _some(lines: list[str], most: int, *, whole: bool) -> Iterator[str]:
    """Yields lines, of many the first; what is left out is counted without a bar."""
    yield from lines if whole else lines[:most]
    if len(lines) > most and not whole:
        yield f"  {left_out('show.more_lines', len(lines) - most, own_locale())}"


def shown_lines(
    shown: CallPreview | None, *, brief: bool = False, whole: bool = False
) -> Iterator[str]:
    """Yields what a call would do, as its tool says; `brief`: a line for each file alone."""
    if shown is None:
        return
    if shown.fails:
        yield f"  ! {own_text('This call would fail: {error}', error=safe(own(shown.fails)))}"
    files = shown.files
    match shown.moved:
        case (old,) if not files:
            yield f"  - {own_text('Deletes the folder {path}', path=safe(old))}"
        case (old, new) if len(files) != 1:
            yield f"  > {own_text('Moves {path} to {to}', path=safe(old), to=safe(new))}"
            # What is moved is not lost; what it replaces is.
            files = tuple(each for each in files if each.change == "changed")
        case _:
            pass
    for each in files:
        yield f"  {_headline(each)}"
        yield from () if brief else _file_lines(each, whole=whole)
    if not brief:
        yield from _told_lines(shown, whole=whole)


def _told_lines(shown: CallPreview, *, whole: bool) -> Iterator[str]:
    if shown.text:
        yield from _some([*quoted(text_lines(shown.text))], _MAX_LINES, whole=whole)
    if shown.rows:
        rows = shown.rows if whole else shown.rows[:_MAX_ROWS]
        count = max(shown.count, len(shown.rows))
        yield f"  {own_text('{count} rows:', count=f'{count:,}')}"
        yield from quoted(value_lines([*rows]))
        if count > len(rows):
            yield f"  {left_out('show.more_lines', count - len(rows), own_locale())}"


def _file_lines(file: FilePreview, *, whole: bool) -> Iterator[str]:
    if file.difference:
        lines = [f"  │{safe(line)}" for line in file.difference]
    elif file_kind(file.path, file.text.encode()).kind == "picture":
        return  # its name tells it
    else:
        lines = [f"  │+{line}" for line in text_lines(file.text)] if file.text else []
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
    """Tells whether what a tool shows has every line of a value, as words of their own."""
    if shown is None or not isinstance(value, str):
        return False
    files = (line for each in shown.files for line in (each.path, each.text, *each.difference))
    text = "\n".join([shown.text, *shown.moved, *files])
    return all(
        re.search(rf"(?<!\w){re.escape(line)}(?!\w)", text) for line in value.splitlines() if line
    )


def value_changes(before: Values, now: Values) -> Iterator[str]:
    """Yields the values that are not those that a person saw, as old and new lines."""
    for name in dict.fromkeys([*before, *now]):
        old, new = (value_lines(each[name]) if name in each else [] for each in (before, now))
        if json_text(before.get(name)) != json_text(now.get(name)):
            yield f"  {BAR}{safe(name)}:"
            yield from _difference(old, new)


def _difference(old: list[str], new: list[str]) -> Iterator[str]:
    lines = [*difflib.unified_diff(old, new, lineterm="", n=2)][3:]
    yield from _some([f"  │{line}" for line in lines], _MAX_LINES, whole=False)


def changes_since(
    before: PreviewedCall | None, inputs: Values, shown: CallPreview | None
) -> list[str]:
    """Returns, as old and new lines, what a call would do now and a person saw otherwise."""
    if before is None:
        return []
    lines = [*value_changes(before.inputs, inputs)]
    if before.shown is not None and shown is not None and before.shown.hash != shown.hash:
        lines += _difference([*shown_lines(before.shown)], [*shown_lines(shown)])
    if lines:
        lines.insert(0, f"  {own_text('This is not what the preview showed (- then, + now):')}")
    return lines


@dataclass(slots=True)
class ShownPreview:
    """A preview as a person sees it, and decides on it by the numbers of its calls."""

    run: Run
    leave_out: set[str] = field(default_factory=set[str])
    change: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])

    @property
    def groups(self) -> list[list[PreviewedCall]]:
        """The calls as the plan has them, those for items of one list together; losses first."""
        places = [step.id for step in self.run.plan.steps] if self.run.plan is not None else []
        found = dict[tuple[str, str], list[PreviewedCall]]()
        for each in self.run.preview.calls if self.run.preview is not None else ():
            found.setdefault((step_of(each.step), each.callee), []).append(each)
        for group in found.values():
            group.sort(key=lambda each: not is_lossy(each.shown))
        by_plan = sorted(found.values(), key=lambda group: places.index(root_of(group[0].step)))
        return sorted(by_plan, key=lambda group: not is_lossy(group[0].shown))

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
        for group in self.groups:
            yield from (f"  {line}" for line in self._group_lines(group, number, whole=whole))
            number += len(group)
        for each in preview.open[: None if whole else _MAX_OPEN]:
            yield from self._open_lines(each)
        if len(preview.open) > _MAX_OPEN and not whole:
            yield left_out("show.more_lines", len(preview.open) - _MAX_OPEN, own_locale())

    def _group_lines(
        self, group: list[PreviewedCall], number: int, *, whole: bool
    ) -> Iterator[str]:
        first, last = group[0], number + len(group) - 1
        named = {"callee": clip(safe(first.callee), 80), "step": safe(step_of(first.step))}
        if number == last:
            yield own_text("{number}. {callee} ({step})", number=number, **named)
        else:
            yield own_text("{first}-{last}. {callee} ({step})", first=number, last=last, **named)
        if first.times:
            yield f"  {own_text('up to {times} times', times=first.times)}"
        if sources := [*dict.fromkeys(name for each in group for name in each.sources)]:
            yield origin_line(self.run, sources)
        if number < last and not whole:
            yield from _table_lines(group, number)
            return
        for place, each in enumerate(group, start=number):
            yield from [f"  {place}."] if number < last else []
            yield from _call_lines(each, whole=whole)

    def _open_lines(self, each: OpenCall) -> Iterator[str]:
        run = self.run
        yield "  " + own_text(
            "{callee} ({step}) is asked about when it comes: it needs what comes out of {names}",
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
                yield named
                yield from self._change(call, choice.text)

    def _change(self, call: PreviewedCall, text: str) -> Iterator[str]:
        name, _, typed = text.partition("=")
        if name not in call.inputs:
            yield own_text("no value '{name}' was shown", name=safe(name))
            return
        try:
            changed = self.change.get(call.step, {}) | {name: read_value(name, typed)}
        except Misconfigured as error:
            yield safe(own(error.message))
            return
        self.leave_out.discard(call.step)
        self.change[call.step] = changed
        yield from value_changes(call.inputs, call.inputs | changed)


def _call_lines(call: PreviewedCall, *, whole: bool) -> Iterator[str]:
    """Yields what a call would do, and those of its inputs that this does not tell."""
    yield from shown_lines(call.shown, whole=whole)
    for name, value in call.inputs.items():
        if _is_told(value, call.shown):
            continue
        yield from [f"  {safe(name)}:"] if whole else []
        lines = value_lines(value) if whole else [*named_lines(name, value, own_locale())]
        yield from quoted(lines) if whole else (f"  {line}" for line in lines)


def _table_lines(group: list[PreviewedCall], number: int) -> Iterator[str]:
    """Yields calls for items of one list as one table: the first line of each value."""
    some = group[:_MAX_ROWS]
    for each in some:
        yield from shown_lines(each.shown, brief=True)
    names = [*dict.fromkeys(name for each in group for name in each.inputs)]
    rows = [
        [str(place), *(value_cell(_first_line(each.inputs.get(name))) for name in names)]
        for place, each in enumerate(some, start=number)
    ]
    yield from quoted(table_lines(["", *names], rows))
    if more := len(group) - len(some):
        yield f"  {own_text('… and {count} more calls', count=f'{more:,}')}"


def _first_line(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    first, _, rest = value.strip().partition("\n")
    return f"{first.rstrip()} …" if rest.strip() else first
