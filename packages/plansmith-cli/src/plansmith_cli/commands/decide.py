"""`plansmith approve`, `reject`, `answer` and most verbs of `runs`: decisions about a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from plansmith.engine.processes import read_kind
from plansmith.engine.provenance import ALLOW
from plansmith.errors import Refused
from plansmith.plan.events import Event, PlanningFailed, PlanProposed
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import ToolStep
from plansmith.review.policy import active_steps
from plansmith.text import safe
from plansmith_cli.command_table import Command
from plansmith_cli.consent import (
    answer_group,
    change_values,
    look,
    need_shown,
    read_change,
    waiting_lines,
)
from plansmith_cli.describe import (
    review_lines,
    revision_lines,
    run_json,
    status_text,
)
from plansmith_cli.editor import edit_from, edit_in_editor
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import run_interactively
from plansmith_cli.options import DETAIL, JSON, NO_INPUT, PARTS, RUN, STORE_ALONE, TOOLS
from plansmith_cli.questions import Group, answer_seen, group_name, question_groups, read_answer
from plansmith_cli.session import Session, session_command
from plansmith_cli.ui.output import print_json

Action = Callable[[Session, Run], Awaitable[Run | None]]


def _about_run(act: Action, flags: str = STORE_ALONE, more: str = "", **typed: Any) -> Command:
    """Makes a command that does something with a run."""
    text = RUN + flags + DETAIL + JSON + NO_INPUT + more
    return session_command(text, lambda session: _do(session, act), **typed)


async def _do(session: Session, act: Action) -> int | None:
    """Does something with a run and prints its status; exits with 5 if a person is needed."""
    args = session.args
    run = await act(session, await session.run(args.run))
    if run is None:
        if args.json:
            print_json(run_json(await session.run(args.run), session))
        return Exit.WAITING
    if vars(args).get("go") and not run.status.over:
        return await run_interactively(session, run.id, fresh=False)
    if args.json:
        print_json(run_json(run, session))
    waits = await waiting_lines(run, session, served=await _is_served(session))
    session.tell(f"{run.id}: {status_text(run, session)}", *waits)
    return None


async def _is_served(session: Session) -> bool:
    """Tells whether a server or worker of this store lives."""
    processes = await session.smith.runs.journals.owners.processes()
    kinds = {read_kind(each.beat.kind).kind for each in processes if each.lives}
    return not kinds.isdisjoint({"server", "worker"})


async def _approve(session: Session, run: Run) -> Run | None:
    if session.args.hash:
        if session.args.go and run.plan is not None:
            # An approval that cannot be followed by the run would only confuse.
            await session.refuse_what_cannot_run(run.plan)
        return await _approved(session, run, session.args.hash)
    if not isinstance(next_move(run), AwaitReview):
        status = Sentence(f"status.{run.status.value}")
        raise Refused(
            Sentence(
                "run {run} does not wait for approval: it is {status}", run=run.id, status=status
            ),
            hint=Sentence("plansmith show {run} tells what it waits for", run=run.id),
        )
    session.say(*await review_lines(run, session), *await waiting_lines(run, session))
    return None


async def _approved(session: Session, run: Run, digest: str) -> Run:
    """Approves a plan; names the tools whose definitions the approval cannot cover."""
    run = await session.smith.decide(run.id, approve=digest, by=session.by)
    steps = active_steps(run.plan, run.templates) if run.plan else ()
    called = dict.fromkeys(step.tool for step in steps if isinstance(step, ToolStep))
    unknown = [safe(name) for name in called if name not in run.approved_tools]
    if unknown:
        uncovered = Sentence(
            "the approval does not cover how these tools are defined, since they are "
            "not known here: {names} (--tools FILE makes them known)",
            names=", ".join(unknown),
        )
        session.say(uncovered)
    return run


async def _reject(session: Session, run: Run) -> Run:
    return await session.smith.decide(run.id, reject=True, by=session.by)


async def _answer(session: Session) -> int | None:
    return await (_shown(session) if session.args.show else _do(session, _answered))


async def _answered(session: Session, run: Run) -> Run | None:
    """Gives the answer of the command line, or shows the question; None if it stays open."""
    args = session.args
    if len(args.words) > 2:
        raise Refused(Sentence("too many arguments"), hint=Sentence("put the answer in quotes"))
    is_named = len(args.words) == 2 or (args.words and args.changes)
    groups = _groups(run, args.words[0] if is_named else None)
    if args.changes and len(args.words) == 2 and args.words[1] != ALLOW:
        raise Refused(
            Sentence("values of your own allow the call: they do not go with another answer"),
            hint=Sentence("leave out --set, or the answer"),
        )
    if args.changes and len(groups) == len(groups[0]) == 1:
        changes = dict(map(read_change, args.changes))
        return await change_values(session, run, groups[0][0], changes)
    text = args.words[-1].strip() if args.words and not args.changes else ""
    if text and len(groups) == 1 and (answered := await _given(session, run, groups[0])):
        return answered
    for group in groups:
        session.say(*(await look(session, run, group)).lines(session, run))
    session.say(*await waiting_lines(run, session, asks=False))
    return None


async def _given(session: Session, run: Run, group: Group) -> Run | None:
    """Gives an answer; None if several are to be allowed that nobody need have seen."""
    args = session.args
    value = read_answer(group[0], args.words[-1])
    with session.planning():
        if len(group) == 1 and not args.seen:
            return await answer_seen(session, run, group[0], value)
        shown = await look(session, run, group)
        if args.seen:
            need_shown(run, shown, args.seen)
        elif value == ALLOW:
            return None
        return await answer_group(session, run, shown, value)


async def _shown(session: Session) -> None:
    """Prints questions with all their values in full, without answering them."""
    args = session.args
    run = await session.run(args.run)
    for group in _groups(run, args.words[0] if args.words else None):
        shown = await look(session, run, group)
        digest = shown.hash(run)
        if args.json:
            for asked, values in zip(group, shown.values, strict=True):
                more = {"kind": asked.kind, "values": values, "seen": digest}
                print_json(asked.shown_json() | more)
            continue
        session.print(*shown.lines(session, run, whole=True))
        if group[0].kind == "consent":
            words = ("answer", run.id, group_name(group), ALLOW, "--seen", digest)
            allow = f"  {session.command_for(run, *words)}"
            session.print(Sentence("To allow exactly this:"), allow)


def _groups(run: Run, name: str | None) -> list[Group]:
    """Returns the open questions, or those of a name: of a question, or of a step with items."""
    if not run.questions:
        status = Sentence(f"status.{run.status.value}")
        raise Refused(
            Sentence("run {run} has no open question: it is {status}", run=run.id, status=status),
            hint=Sentence("plansmith show {run} tells what it waits for", run=run.id),
        )
    groups = question_groups(run.questions.values())
    if name is None:
        return groups
    if name in run.questions:
        return [(run.questions[name],)]
    found = [group for group in groups if group_name(group) == name]
    if not found:
        other = Sentence("run {run} has no open question '{name}'", run=run.id, name=name)
        raise Refused(other, hint=Sentence("open questions: {names}", names=[*run.questions]))
    return found


async def _edit(session: Session, run: Run) -> Run:
    if session.args.file:
        return await edit_from(session, run, session.args.file)
    return await edit_in_editor(session, run)


async def _change(session: Session, run: Run) -> Run | None:
    with session.planning():
        changed = await session.smith.request_changes(run.id, session.args.text, by=session.by)
    if changed.questions.keys() - run.questions.keys():
        session.say(*await waiting_lines(changed, session))
        return None
    events = list(await session.smith.store.events(run.id))
    if why := _no_other_plan(events):
        hint = Sentence(
            "the previous plan is still there: {command}", command=session.command("show", run.id)
        )
        raise Refused(Sentence("the plan was not changed: {why}", why=why), hint=hint)
    session.say(*revision_lines(events, session))
    return changed


def _no_other_plan(events: Sequence[Event]) -> str:
    """Returns why the last request for changes failed; empty if it gave a plan."""
    for event in reversed(events):
        if isinstance(event.body, PlanProposed):
            return ""
        if isinstance(event.body, PlanningFailed):
            return event.body.reason
    return ""


async def _undo(session: Session, run: Run) -> Run:
    if session.args.effects:
        made = await session.smith.runs.undo_plan(run.id, by=session.by)
        session.say(*await review_lines(made, session))
        return made
    go = session.smith.runs.editing.redo if session.args.redo else session.smith.runs.editing.undo
    undone = await go(run.id, by=session.by)
    events = list(await session.smith.store.events(run.id))
    session.say(*revision_lines(events, session))
    return undone


async def _pause(session: Session, run: Run) -> Run:
    return await session.smith.pause(run.id, by=session.by, reason=session.args.reason)


async def _cancel(session: Session, run: Run) -> Run:
    if run.status.over:
        status = Sentence(f"status.{run.status.value}")
        raise Refused(Sentence("run {run} is over: {status}", run=run.id, status=status))
    return await session.smith.cancel(run.id, by=session.by, reason=session.args.reason)


async def _skip(session: Session, run: Run) -> Run:
    left = await session.smith.runs.stopping.skip(run.id, session.args.step, by=session.by)
    session.say(Sentence("left out: {step}", step=safe(left.step)))
    if left.with_it:
        session.say(
            Sentence("and what needs it: {steps}", steps=", ".join(map(safe, left.with_it)))
        )
    return await session.smith.get(run.id)


async def _repair(session: Session, run: Run) -> Run:
    before = run.last.number if run.last else 0
    repaired = await session.smith.runs.journals.repair(run.id, by=session.by)
    goes_on = Sentence(
        "The run goes on from event {number}; later events are kept separately.", number=before
    )
    session.say(goes_on, f"  {safe(in_language(repaired.reason, session.locale))}")
    return repaired


_GO: Final = "--go  then go on with it at once\n"
_APPROVE: Final = "[HASH]  the hash of exactly this plan; without it, the plan is only shown\n"
_ANSWER: Final = """
WORDS  which question, and the answer
--show  print the question and its values, whole
--set NAME=VALUE*  allow the call with this value instead
--seen HASH  answer only what --show printed with this hash
"""
_UNDO: Final = """
--redo  go forward again instead
| --effects  of a run that is over: make the plan that takes back what it did
"""
_REASON: Final = "--reason REASON  why, for the journal\n"
APPROVE = _about_run(_approve, PARTS, _GO + _APPROVE)
REJECT = _about_run(_reject)
ANSWER = session_command(
    RUN + PARTS + DETAIL + JSON + NO_INPUT + _GO + _ANSWER,
    _answer,
    words={"nargs": "*", "metavar": "[QUESTION] ANSWER"},
    set={"dest": "changes"},
)
EDIT = _about_run(_edit, TOOLS, "--file FILE  take this plan instead of opening $EDITOR")
CHANGE = _about_run(_change, PARTS, "TEXT  how the plan should differ, in your words")
UNDO = _about_run(_undo, TOOLS, _UNDO)
PAUSE = _about_run(_pause, more=_REASON, reason={"default": ""})
SKIP = _about_run(_skip, more="STEP  the step to skip")
CANCEL = _about_run(_cancel, more=_REASON, reason={"default": ""})
REPAIR = _about_run(_repair)
