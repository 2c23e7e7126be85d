"""Open questions together: those about the items of one list are a table with one decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from plansmith.cli.consent import consented, need_as_seen, preview_of
from plansmith.cli.file_previews import loses, preview_lines
from plansmith.cli.questions import (
    ALL,
    Group,
    answer_seen,
    ask_line,
    group_lines,
    group_name,
    head_line,
    question_groups,
    read_answer,
    whole_lines,
)
from plansmith.cli.ui.words import error_text
from plansmith.engine.given_values import allow_seen
from plansmith.engine.provenance import ALLOW
from plansmith.errors import Refused, StaleDecision
from plansmith.plan.data import content_hash
from plansmith.plan.sentence import Sentence
from plansmith.runs.changed_values import consent_values
from plansmith.runs.files import Preview
from plansmith.text import safe

if TYPE_CHECKING:
    from plansmith.cli.session import Session
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run


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
            effects = list(preview_lines(self.previews[0], session.words))
        else:
            seen = sorted(self.previews, key=lambda each: not loses(each))
            shown = (preview_lines(each, session.words, differences=False) for each in seen)
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
    while typed := (ask_line(session.words["answer"]) or "").strip():
        try:
            await answer_seen(session, run, asked, read_answer(asked, typed))
        except Refused as error:
            session.say(safe(error_text(error, session.words["locale"])))
        else:
            return True
    return False


async def _ask_together(session: Session, run: Run, shown: Shown) -> bool:
    """Asks for one decision on all items, or on one of them alone first."""
    count = len(shown.group)
    while typed := (ask_line(session.words["answer_items"].format(count=count)) or "").strip():
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
            except StaleDecision as error:
                session.say(safe(error_text(error, session.words["locale"])))
                return await _ask_again(session, run, shown.group)
            except Refused as error:
                session.say(safe(error_text(error, session.words["locale"])))
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
    answered, paths = (
        run,
        Counter(file.path for each in shown.previews if each for file in each.changes),
    )
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
        other = Sentence("answer.other_question", name=group_name(shown.group))
        raise StaleDecision(other, hint=Sentence("answer.look_again"))
