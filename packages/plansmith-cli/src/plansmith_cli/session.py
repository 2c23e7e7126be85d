"""Opens Plansmith for one command, and turns the status of a run into an exit code."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from plansmith import Plansmith, Run, RunStatus
from plansmith.arguments import Parts
from plansmith.clock import SystemClock
from plansmith.errors import OtherTeam
from plansmith.plan.planning import is_fallback
from plansmith.plan.problem import has_errors
from plansmith.plan.sentence import Sentence, language_of, with_hint
from plansmith.plan.summary import RunSummary
from plansmith.runs.journals import Journals
from plansmith.runs.lists import RunLists
from plansmith.store.urls import sqlite_path
from plansmith.text import safe
from plansmith_cli.command_table import Command, Exit
from plansmith_cli.config import Settings
from plansmith_cli.keyboard import is_at_terminal
from plansmith_cli.options import (
    STORE_ALONE,
    command_line,
    detail_of,
    repeated_flags,
    settings_of,
    warn,
)
from plansmith_cli.parser import command
from plansmith_cli.team_smiths import TeamSmiths
from plansmith_cli.ui import progress
from plansmith_cli.ui.output import print_as, print_json, shown_lines, wrong
from plansmith_cli.ui.terminal import LANGUAGE, own_locale
from plansmith_cli.wiring import make_smith

_NO_PARTS: Final[Parts] = {"model": None, "tools": (), "agents": (), "context": ()}
# Of an id: tells a run from those of other milliseconds.
SHORT: Final = 13
_BUDGETS: Final = ("budget", "shared_budget")


@dataclass(slots=True)
class Session:
    """What a command works with: Plansmith, settings, flags; how it talks with the person."""

    smith: Plansmith
    settings: Settings
    args: argparse.Namespace
    teams: TeamSmiths
    lines: progress.Lines  # where planning and runs are shown
    by: str = field(default_factory=getpass.getuser)
    thread: str = ""  # of the run that is shown as JSON
    turn: dict[str, Any] = field(default_factory=dict[str, Any])  # what came of the message in it
    journals: Journals = field(init=False)
    home: str = field(default_factory=own_locale)  # the person's language, whatever a run's is

    def __post_init__(self) -> None:
        # For reading: those of the Plansmith load all that a run needs to execute.
        self.journals = Journals(store=self.smith.store, clock=SystemClock(), folder=Path.cwd())

    def given(self, name: str) -> Any:
        """Returns the value of a flag; None if the command does not have it."""
        return vars(self.args).get(name)

    @property
    def has_person(self) -> bool:
        silent = self.given("no_input") or self.given("jsonl")
        return not silent and is_at_terminal()

    @property
    def locale(self) -> str:
        return language_of(own_locale())

    @property
    def detail(self) -> progress.Detail:
        return detail_of(self.args)

    def use_language_of(self, run: Run) -> None:
        """Switches to the language of a run, unless the person chose one.

        English is also what a plan is in that says nothing about it: then the person's counts.
        """
        if not self.given("lang"):
            of_plan = run.plan.locale if run.plan is not None else "en"
            found = language_of(run.locale if run.locale != "en" else of_plan)
            LANGUAGE.set(self.home if found == "en" else found)

    def command(self, *words: str, folder: str = "") -> str:
        """Returns a command line with the flags of this session, for its folder or another one."""
        return command_line(*words, *repeated_flags(self.args), folder=folder)

    def command_for(self, run: Run, *words: str) -> str:
        """Returns a command line about a run, with `-C` if the run is of another folder."""
        return self.command(*words, folder="" if self.journals.is_here(run.folder) else run.folder)

    def say(self, *lines: str) -> None:
        """Writes lines to stderr that a person needs: questions, problems, what waits."""
        with self.lines.cleared():
            sys.stderr.writelines(shown_lines(sys.stderr, lines))
            sys.stderr.flush()

    def tell(self, *lines: str) -> None:
        """Writes lines to stderr that may be left out: `-q` does."""
        if self.detail != "quiet":
            self.say(*lines)

    def print_as(self, value: object, lines: Iterable[str]) -> None:
        print_as(self.args, value, lines)

    def say_as(self, value: object, *lines: str) -> None:
        if self.args.json:
            print_json(value)
        else:
            self.say(*lines)

    def print_list(self, rows: Sequence[object], lines: Iterable[str], none: str) -> None:
        if rows:
            self.print_as([*rows], lines)
        else:
            self.say_as([], none)

    async def find(self, name: str) -> str:
        """Returns the id of a run, given `last` (of this folder), its id, or how the id begins."""
        if name == "last":
            async for each in self.runs_here():
                return each.run
            raise wrong(
                "there is no run in this folder",
                "plansmith ask starts one, and plansmith runs lists those of other folders",
            )
        known = await self.smith.store.runs()
        found = [each for each in known if each.startswith(name.lower())]
        if name.lower() in found:
            return name.lower()
        if len(found) == 1 and len(name) >= 4:
            return found[0]
        if not found:
            raise wrong("there is no run '{name}'", "plansmith runs lists them", name=name)
        more = Sentence("give more of the id: {ids}", ids=found[-3:])
        raise wrong("{count} runs begin with '{name}'", hint=more, count=len(found), name=name)

    async def runs_here(self, statuses: Collection[str] = ()) -> AsyncGenerator[RunSummary]:
        """Yields the runs of this folder, newest first."""
        before = ""
        while page := await RunLists(self.journals).newest(
            statuses=statuses, before=before, limit=20
        ):
            for each in page:
                if self.journals.is_here(each.folder):
                    yield each
            before = page[-1].run

    async def run(self, name: str) -> Run:
        """Returns a run by its name; the session then uses the agents of its team."""
        run = await self.smith.get(await self.find(name))
        self.use_language_of(run)
        self.use_team_of(run)
        return run

    def use_team_of(self, run: Run) -> None:
        """Uses the agents of a run's team; warns where it fails: the run can still be stopped."""
        try:
            self.smith = self.teams.of(run)
        except OtherTeam as error:
            warn(with_hint(error.message, error.hint))

    async def teams_of_open_runs(self) -> list[Plansmith]:
        """Returns the teams that have open runs in this folder; warns of those that fail."""
        ours = self.smith
        for run_id in await ours.store.open_runs():
            run, _ = await self.journals.listed(run_id)
            if run.options.team is not None and self.journals.is_here(run.folder):
                self.use_team_of(run)
        self.smith = ours
        return [each for each in self.teams.all() if each is not ours]


def say_stopped(session: Session, run: str = "last") -> None:
    """Says that a command was stopped, and what goes on with its run."""
    stopped = Sentence("Stopped here; what is done is kept. To go on:")
    session.say(stopped, f"  {session.command('go', run)}")


Work = Callable[[Session], Awaitable[int | None]]


def in_session(
    args: argparse.Namespace,
    work: Work,
    *,
    only_reads: bool = False,
    needs_store: bool = False,
    make: Callable[..., Plansmith] = make_smith,
) -> int | None:
    """Opens Plansmith, does the work of a command and closes it in any case.

    A command that only reads runs needs no tool, agent or model. `needs_store` refuses to make the
    store of `--store`; `make` makes that of a team.
    """
    settings = settings_of(args)
    if needs_store and args.store:
        require_store(settings.store_url())
    locale, detail = language_of(own_locale()), detail_of(args)
    lines = progress.make_progress(locale, detail=detail, jsonl=bool(vars(args).get("jsonl")))

    async def go() -> int | None:
        parts: Parts = {"tell": lines.say}
        if only_reads:
            parts.update(_NO_PARTS)
        smith = make(settings, **parts)
        teams = TeamSmiths(smith, settings, tell=lines.say)
        try:
            return await work(Session(smith, settings, args, teams, lines))
        finally:
            await teams.close()
            await smith.close()

    return asyncio.run(go())


def require_store(url: str) -> None:
    """Refuses a store whose file is not there."""
    if url.startswith("sqlite:") and not (file := sqlite_path(url)).is_file():
        raise wrong("there is no store {store}", "--store names another one", store=safe(str(file)))


def store_command(text: str, work: Work, *, only_reads: bool = False, **typed: Any) -> Command:
    """Makes a command that looks at what a store has, or stops it."""

    def main(args: argparse.Namespace) -> int | None:
        return in_session(args, work, only_reads=only_reads, needs_store=True)

    return command(f"{text}\n{STORE_ALONE}", main, **typed)


def session_command(text: str, work: Work, **typed: Any) -> Command:
    """Makes a command of its options, as text, and its work in a session."""
    return command(text, lambda args: in_session(args, work), **typed)


def exit_of(run: Run) -> Exit:
    """Returns the exit code for the status of a run."""
    match run.status:
        case RunStatus.DONE:
            return Exit.OK
        case RunStatus.ANSWERED:
            return {"ask": Exit.WAITING, "refuse": Exit.REFUSED}.get(run.decision, Exit.OK)
        case RunStatus.PARTLY_DONE:
            return Exit.PARTLY
        case RunStatus.CANCELLED if not run.cancel_asked:
            return Exit.REFUSED
        case RunStatus.FAILED if has_no_plan(run):
            return Exit.INVALID
        case RunStatus.FAILED | RunStatus.CANCELLED:
            return Exit.FAILED
        case _ if is_unusable(run):
            return Exit.INVALID
        case _:
            asks = any(each.limit in _BUDGETS for each in run.questions.values())
            return Exit.BUDGET if asks else Exit.WAITING


def has_no_plan(run: Run) -> bool:
    """Whether planning failed: the run has no plan and can only be retried."""
    return run.status is RunStatus.FAILED and run.plan is None


def is_unusable(run: Run) -> bool:
    """Whether a run has no usable plan: none, one with errors, or a placeholder."""
    if run.status not in (RunStatus.PLANNING, RunStatus.REVIEWING):
        return False
    plan = run.plan
    return plan is None or is_fallback(plan, run.figures) or has_errors(list(run.problems))
