"""Asks for consent and answers at a terminal: one question, or all items of a list."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, cast

from plansmith.engine.provenance import ALLOW, allow_seen
from plansmith.errors import Refused, StaleDecision
from plansmith.plan.data import Json, content_hash, need_plain, same
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.runs.decisions import changed_values, consent_values, may_change_values
from plansmith.runs.files import Preview
from plansmith.text import safe
from plansmith_cli.describe import next_commands
from plansmith_cli.editor import editor_of, open_in_editor
from plansmith_cli.file_previews import loses, preview_lines
from plansmith_cli.questions import (
    ALL,
    Group,
    agrees,
    answer_seen,
    ask_line,
    group_lines,
    group_name,
    head_line,
    question_groups,
    read_answer,
    whole_lines,
)
from plansmith_cli.session import Session
from plansmith_cli.ui.words import error_text
from plansmith_desk.files.run_files import WorkFiles

CHANGE: Final = frozenset({"change", "修改"})
Given = Mapping[str, Json]


async def preview_of(
    session: Session, run: Run, asked: QuestionAsked, own: Given | None = None
) -> Preview | None:
    """Returns what the call would do to files, where that is known."""
    return await WorkFiles(session.smith.runs).consent_preview(run, asked, own)


def _typed(prompt: str) -> Iterator[str]:
    """Yields what is typed at a prompt, until that is nothing."""
    while typed := (ask_line(prompt) or "").strip():
        yield typed


async def consented(
    session: Session, run: Run, asked: QuestionAsked, values: Given, seen: Preview | None
) -> bool:
    """Asks for consent to what was shown until there is a decision; False if it stays open."""
    prompt = session.own_text(
        "Your answer (y = allow, n = refuse, all = see every value whole, change "
        "= use values of your own, Enter = later): "
    )
    for typed in _typed(prompt):
        try:
            if typed in ALL:
                session.say(*whole_lines(values))
            elif typed not in CHANGE:
                await _answer(session, run, asked, read_answer(asked, typed), seen)
                return True
            elif await _change_by_hand(session, run, asked, values):
                return True
        except Refused as error:
            seen = await preview_of(session, run, asked)
            problem = error_text(error, session.locale)
            session.say(safe(problem), *preview_lines(seen, session.locale))
    return False


async def _answer(
    session: Session, run: Run, asked: QuestionAsked, value: Json, seen: Preview | None
) -> None:
    if value == ALLOW:
        await need_as_seen(session, run, asked, seen)
        value = allow_seen(seen.seen if seen else "")
    await answer_seen(session, run, asked, value)


async def need_as_seen(
    session: Session, run: Run, asked: QuestionAsked, seen: Preview | None
) -> None:
    """Refuses to go on if the files are not as they were when the person saw them."""
    now = await preview_of(session, run, asked)
    if seen is None or now is None or now.seen == seen.seen:
        return
    names = ", ".join(each.path for each in now.changes) or asked.callee
    raise Refused(
        Sentence("{files} changed on the disk after you looked", files=names),
        hint=Sentence("look at it again, then decide"),
    )


async def _change_by_hand(session: Session, run: Run, asked: QuestionAsked, values: Given) -> bool:
    """Lets a person edit the values; returns whether they are used instead and allowed."""
    if not may_change_values(run, asked, session.smith.runs.intake.policy.second_person):
        raise Refused(
            Sentence("these values cannot be changed here, only in the plan"),
            hint=Sentence("refuse, or change the plan"),
        )
    changes = await _edited(session, values)
    if not changes:
        session.say(Sentence("No value was changed."))
        return False
    seen = await preview_of(session, run, asked, {**values, **changes})
    session.say(*whole_lines(changes), *preview_lines(seen, session.locale))
    if not agrees(session.own_text("Use these values and allow the call? [y/N] ")):
        return False
    await change_values(session, run, asked, changes, seen=seen)
    return True


async def change_values(
    session: Session,
    run: Run,
    asked: QuestionAsked,
    changes: Given,
    *,
    seen: Preview | None = None,
) -> Run:
    """Has a call made with a person's values, and with no others."""
    own = await changed_values(session.smith.store, asked, changes)
    seen = seen or await preview_of(session, run, asked, own)
    value = allow_seen(seen.seen if seen else "", own)
    return await answer_seen(session, run, asked, value)


def read_change(given: str) -> tuple[str, Json]:
    """Reads NAME=VALUE; the value is JSON where it is some, else text."""
    name, mark, value = given.partition("=")
    if not mark or not name.strip():
        raise Refused(
            Sentence("'{given}' is not NAME=VALUE", given=given),
            hint=Sentence("such as --set path=notes.md"),
        )
    return name.strip(), _sendable(name.strip(), value)


def _sendable(name: str, text: str) -> Json:
    """Returns JSON, or else the text; refuses what no call can be given."""
    try:
        value: Json = json.loads(text)
    except ValueError:
        value = text
    except RecursionError:
        raise Refused(Sentence("{name}: the value is nested too deeply", name=name)) from None
    try:
        need_plain(value)
    except ValueError as error:
        raise Refused(Sentence("{place}: {error}", place=name, error=str(error))) from None
    return value


async def _edited(session: Session, values: Given) -> dict[str, Json]:
    """Opens the values in the person's editor; returns those that were changed."""
    handle, path = tempfile.mkstemp(prefix="plansmith-values-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(dict(values), file, ensure_ascii=False, indent=2)
    try:
        await open_in_editor(editor_of(session), Path(path))
        edited = _read_values(Path(path))
    finally:
        os.unlink(path)  # noqa: PTH108 - in an async function
    if values.keys() - edited.keys():
        raise Refused(Sentence("a value is missing"), hint=_KEEP)
    return {
        name: value
        for name, value in edited.items()
        if name not in values or not same(values[name], value)
    }


def _read_values(path: Path) -> dict[str, Json]:
    try:
        edited = cast("Json", json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        problem = Sentence("that is not JSON: {error}", error=str(error))
        raise Refused(problem, hint=Sentence("type change to try it again")) from None
    if not isinstance(edited, dict):
        raise Refused(Sentence("that is not an object of values"), hint=_KEEP)
    return edited


_KEEP: Final = Sentence("keep all names, and change only their values")


class Shown(NamedTuple):
    """Questions of a group as a person sees them, with their values and what they do to files."""

    group: Group
    values: list[dict[str, Json] | None]
    previews: list[Preview | None]

    def hash(self, run: Run) -> str:
        """Returns a short hash of all that is shown; an answer can name it."""
        asked = [run.question_hash(each.question) for each in self.group]
        seen = ["" if each is None else each.seen for each in self.previews]
        return content_hash([*asked, *seen])[:16]

    def lines(self, session: Session, run: Run, *, whole: bool = False) -> Iterator[str]:
        """Yields the question, or the table of all items: what is lost first, then the values."""
        if len(self.group) == 1:
            effects = list(preview_lines(self.previews[0], session.locale))
        else:
            seen = sorted(self.previews, key=lambda each: not loses(each))
            shown = (preview_lines(each, session.locale, differences=False) for each in seen)
            effects = [line for lines in shown for line in lines]
        is_brief = whole and len(self.group) == 1 and self.values[0] is not None
        values: list[dict[str, Json] | None] = [{}] if is_brief else self.values
        yield from group_lines(self.group, session, run, values, effects)
        for number, each in enumerate(self.values, start=1):
            if whole and each is not None:
                yield from (f"  {number}.",) if len(self.group) > 1 else ()
                yield from whole_lines(each)


async def look(session: Session, run: Run, group: Group) -> Shown:
    """Reads the values of questions, and what their calls would do to files now."""
    values = [await consent_values(session.smith.store, each) for each in group]
    return Shown(group, values, [await preview_of(session, run, each) for each in group])


async def waiting_lines(
    run: Run, session: Session, *, served: bool = False, asks: bool = True
) -> list[str]:
    """Returns what the run waits for, and the commands to continue it.

    `served`: a server or worker of the store lives, which continues what is decided. `asks`: with
    the questions, which were not shown yet.
    """
    *decisions, go_on = [*next_commands(run, session)] or [""]
    if not go_on:
        return []
    lines = [
        session.own_text(
            "The run waits for you:"
            if decisions
            else "A server or worker that runs in this folder goes on with it. To go on here:"
            if served
            else "To go on:"
        )
    ]
    for group in question_groups(run.questions.values()) if asks else ():
        lines += (await look(session, run, group)).lines(session, run)
    lines.append(f"  {safe(go_on)}")
    if decisions:
        lines.append(session.own_text("Or, in a script:"))
    return [*lines, *(f"  {safe(each)}" for each in decisions)]


async def ask_all(session: Session, run: Run, questions: Iterable[QuestionAsked]) -> bool:
    """Shows all questions, then asks for their answers; returns False if one stays open."""
    groups = [await look(session, run, group) for group in question_groups(questions)]
    for each in groups:
        session.say(*each.lines(session, run))
    for each in groups:
        if len(groups) > 1:
            session.say("", head_line(each.group, session, run))
        if not await _ask(session, run, each):
            return False
    return True


async def _ask(session: Session, run: Run, shown: Shown) -> bool:
    if len(shown.group) > 1:
        return await _ask_together(session, run, shown)
    (asked,), (values,), (seen,) = shown
    if values is not None:
        return await consented(session, run, asked, values, seen)
    for typed in _typed(session.own_text("Your answer (Enter = later): ")):
        try:
            await answer_seen(session, run, asked, read_answer(asked, typed))
        except Refused as error:
            session.say(safe(error_text(error, session.locale)))
        else:
            return True
    return False


async def _ask_together(session: Session, run: Run, shown: Shown) -> bool:
    """Asks for one decision on all items, or on one of them alone first."""
    count = len(shown.group)
    prompt = session.own_text(
        "Allow all {count}? y = all, n = none, a number = decide on that one "
        "alone, all = see every value whole, Enter = later: ",
        count=count,
    )
    for typed in _typed(prompt):
        if typed in ALL:
            session.say(*shown.lines(session, run, whole=True))
        elif typed.isdecimal() and 0 < int(typed) <= count:
            alone = await look(session, run, (shown.group[int(typed) - 1],))
            session.say(*alone.lines(session, run))
            decided = await _ask(session, run, alone)
            rest = (*shown.group[: int(typed) - 1], *shown.group[int(typed) :])
            return await _ask_again(session, run, rest if decided else shown.group)
        else:
            try:
                await answer_group(session, run, shown, read_answer(shown.group[0], typed))
            except Refused as error:
                session.say(safe(error_text(error, session.locale)))
                if isinstance(error, StaleDecision):
                    return await _ask_again(session, run, shown.group)
            else:
                return True
    return False


async def _ask_again(session: Session, run: Run, group: Group) -> bool:
    """Shows what is still open of a group as it is now, and asks again."""
    run = await session.smith.get(run.id)
    left = [each.question for each in group]
    return await ask_all(session, run, [run.questions[n] for n in left if n in run.questions])


async def answer_group(session: Session, run: Run, shown: Shown, value: Json) -> Run:
    """Gives one answer to every question of a group: a permit each, for its own values alone."""
    answered = run
    paths = Counter(file.path for each in shown.previews if each for file in each.changes)
    if value == ALLOW:
        for asked, seen in zip(shown.group, shown.previews, strict=True):
            await need_as_seen(session, run, asked, seen)
    for asked, seen in zip(shown.group, shown.previews, strict=True):
        # A file that several items write changes between them: for them it cannot stay as seen.
        is_own = seen is not None and all(paths[file.path] == 1 for file in seen.changes)
        given = allow_seen(seen.seen) if value == ALLOW and seen is not None and is_own else value
        answered = await answer_seen(session, run, asked, given)
    return answered


def need_shown(run: Run, shown: Shown, digest: str) -> None:
    """Refuses an answer to something else than what a person was shown with this hash."""
    if digest != shown.hash(run):
        other = Sentence(
            "the question '{name}', or the plan that it is about, is not the one you saw",
            name=group_name(shown.group),
        )
        raise StaleDecision(other, hint=Sentence("look at it again, then decide"))
