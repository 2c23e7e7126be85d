"""Opens a plan in the person's editor; keeps the file if the plan cannot be used."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path

from plansmith.errors import Misconfigured, PlanInvalid, Refused
from plansmith.formats.native import read_plan, to_yaml
from plansmith.plan.problem import Problem
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.review.render import problem_lines
from plansmith_cli.describe import change_lines
from plansmith_cli.questions import ask_line, read_choice
from plansmith_cli.session import Session
from plansmith_cli.ui.output import read_file


async def edit_in_editor(session: Session, run: Run, *, tells: bool = True) -> Run:
    """Opens the plan of a run in the editor, checks the result and saves it in the run.

    `tells` what has changed; a review that follows shows it anyway.
    """
    if run.plan is None:
        raise Refused(Sentence("run {run} has no plan", run=run.id))
    editor = editor_of(session)
    path = _temporary_file(run)
    before = path.read_bytes()
    while True:
        await open_in_editor(editor, path)
        if path.read_bytes() == before:
            path.unlink()
            session.say(Sentence("nothing was changed"))
            return run
        try:
            edited = await edit_from(session, run, str(path), tells=tells)
        except PlanInvalid as error:
            if not _wants_again(session, error):
                again = session.command("runs", "edit", run.id, "--file", str(path))
                session.say(Sentence("your text is kept in {path}", path=path), f"  {again}")
                raise
        except BaseException:
            session.say(Sentence("your text is kept in {path}", path=path))
            raise
        else:
            path.unlink()
            return edited


async def edit_from(session: Session, run: Run, name: str, *, tells: bool = True) -> Run:
    """Replaces the plan of a run by the plan of a file, and tells what has changed."""
    edited = await session.smith.edit(run.id, read_plan(read_file(name)), by=session.by)
    if tells and run.plan is not None and edited.plan is not None:
        locale = session.locale
        session.say(Sentence("changed plan:"), *change_lines(run.plan, edited.plan, locale))
    return edited


def _temporary_file(run: Run) -> Path:
    handle, name = tempfile.mkstemp(prefix=f"plansmith-{run.id[:13]}-", suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(to_yaml(run.plan) if run.plan else "")
    return Path(name)


def editor_of(session: Session) -> str:
    """Returns the command of the person's editor."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not session.has_person:
        # vi would wait for a terminal for ever.
        hint = Sentence("give the plan with --file, or set EDITOR")
        raise Misconfigured(Sentence("there is no terminal to edit the plan in"), hint=hint)
    return named or "vi"


async def open_in_editor(editor: str, path: Path) -> None:
    """Opens a file in the editor, and waits until that is closed."""
    command = [*shlex.split(editor), str(path)]
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        why = Sentence(
            "{command} cannot be started: {reason}", command=command[0], reason=error.strerror
        )
        raise Misconfigured(why, hint=Sentence("set EDITOR to your editor")) from None
    if await process.wait():
        ended = Sentence("{command} ended with {code}", command=command[0], code=process.returncode)
        raise Misconfigured(ended, hint=Sentence("set EDITOR to your editor"))


def _wants_again(session: Session, error: PlanInvalid) -> bool:
    """Shows the problems, and asks whether to open the editor again; no without a terminal."""
    if not session.has_person:
        return False
    problems = [each for each in error.problems if isinstance(each, Problem)]
    session.say(*problem_lines(problems, session.locale))
    typed = ask_line(session.own_text("Open it again? Y = yes, n = leave the plan as it was: "))
    return typed is not None and read_choice(typed).kind != "no"
