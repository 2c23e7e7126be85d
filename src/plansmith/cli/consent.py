"""Consent at a terminal: what a call would do to files, and values of the person's own."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from plansmith.adapters.tools.run_files import WorkFiles
from plansmith.cli.editor import editor_of, open_in_editor
from plansmith.cli.file_previews import preview_lines
from plansmith.cli.questions import (
    ALL,
    agrees,
    answer_seen,
    ask_line,
    read_answer,
    whole_lines,
)
from plansmith.cli.ui.words import error_text
from plansmith.engine.given_values import allow_seen
from plansmith.engine.provenance import ALLOW
from plansmith.errors import Refused
from plansmith.plan.data import need_plain, same
from plansmith.plan.sentence import Sentence
from plansmith.runs.changed_values import changed_values, may_change_values
from plansmith.runs.files import Preview
from plansmith.text import safe

if TYPE_CHECKING:
    from plansmith.cli.session import Session
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run

CHANGE: Final = frozenset({"change", "修改"})


async def preview_of(
    session: Session, run: Run, asked: QuestionAsked, own: Mapping[str, Json] | None = None
) -> Preview | None:
    """Returns what the call would do to files, where that is known."""
    return await WorkFiles(session.smith.runs).consent_preview(run, asked, own)


async def consented(
    session: Session,
    run: Run,
    asked: QuestionAsked,
    values: Mapping[str, Json],
    seen: Preview | None,
) -> bool:
    """Asks for consent to what was shown until there is a decision; False if it stays open."""
    while typed := (ask_line(session.words["answer_consent"]) or "").strip():
        if typed in ALL:
            session.say(*whole_lines(values))
            continue
        try:
            if await _decided(session, run, asked, values, seen=seen, typed=typed):
                return True
        except Refused as error:
            seen = await preview_of(session, run, asked)
            problem = error_text(error, session.words["locale"])
            session.say(safe(problem), *preview_lines(seen, session.words))
    return False


async def _decided(
    session: Session,
    run: Run,
    asked: QuestionAsked,
    values: Mapping[str, Json],
    *,
    seen: Preview | None,
    typed: str,
) -> bool:
    if typed in CHANGE:
        return await _change_by_hand(session, run, asked, values)
    value = read_answer(asked, typed)
    if value == ALLOW:
        await need_as_seen(session, run, asked, seen)
        value = allow_seen(seen.seen if seen else "")
    await answer_seen(session, run, asked, value)
    return True


async def need_as_seen(
    session: Session, run: Run, asked: QuestionAsked, seen: Preview | None
) -> None:
    """Refuses to go on if the files are not as they were when the person saw them."""
    now = await preview_of(session, run, asked)
    if seen is None or now is None or now.seen == seen.seen:
        return
    names = ", ".join(each.path for each in now.changes) or asked.callee
    raise Refused(Sentence("answer.seen_changed", files=names), hint=Sentence("answer.look_again"))


async def _change_by_hand(
    session: Session, run: Run, asked: QuestionAsked, values: Mapping[str, Json]
) -> bool:
    """Lets a person edit the values; returns whether they are used instead and allowed."""
    if not may_change_values(run, asked, session.smith.runs.intake.policy.second_person):
        raise Refused(Sentence("answer.values_fixed"), hint=Sentence("answer.values_fixed_hint"))
    changes = await _edited(session, values)
    if not changes:
        session.say(session.words["values_unchanged"])
        return False
    seen = await preview_of(session, run, asked, {**values, **changes})
    session.say(*whole_lines(changes), *preview_lines(seen, session.words))
    if not agrees(session.words["use_values"]):
        return False
    await change_values(session, run, asked, changes, seen=seen)
    return True


async def change_values(
    session: Session,
    run: Run,
    asked: QuestionAsked,
    changes: Mapping[str, Json],
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
        raise Refused(Sentence("error.not_set", given=given), hint=Sentence("error.such_as_set"))
    return name.strip(), _sendable(name.strip(), value)


def _sendable(name: str, text: str) -> Json:
    """Returns JSON, or else the text; refuses what no call can be given."""
    try:
        value: Json = json.loads(text)
    except ValueError:
        value = text
    except RecursionError:
        raise Refused(Sentence("error.set_too_deep", name=name)) from None
    try:
        need_plain(value)
    except ValueError as error:
        raise Refused(Sentence("answer.values_misfit", place=name, error=str(error))) from None
    return value


async def _edited(session: Session, values: Mapping[str, Json]) -> dict[str, Json]:
    """Opens the values in the person's editor; returns those that were changed."""
    path = _values_file(values)
    try:
        await open_in_editor(editor_of(session), path)
        edited = _read_values(path)
    finally:
        os.unlink(path)  # noqa: PTH108 - in an async function
    if values.keys() - edited.keys():
        raise Refused(Sentence("error.values_missing"), hint=Sentence("error.keep_names"))
    return {
        name: value
        for name, value in edited.items()
        if name not in values or not same(values[name], value)
    }


def _values_file(values: Mapping[str, Json]) -> Path:
    handle, name = tempfile.mkstemp(prefix="plansmith-values-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(dict(values), file, ensure_ascii=False, indent=2)
    return Path(name)


def _read_values(path: Path) -> dict[str, Json]:
    try:
        edited = cast("Json", json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        problem = Sentence("error.not_json", error=str(error))
        raise Refused(problem, hint=Sentence("error.change_again")) from None
    if not isinstance(edited, dict):
        raise Refused(Sentence("error.not_values"), hint=Sentence("error.keep_names"))
    return edited
