"""`plansmith demo`: a tour of a minute, without a model, a network or a file of yours."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from plansmith.adapters.tools.file_changes import consent_values
from plansmith.cli.command_table import Command
from plansmith.cli.consent import preview_of
from plansmith.cli.demo_job import DemoJob
from plansmith.cli.exit_codes import Exit
from plansmith.cli.file_previews import preview_lines
from plansmith.cli.keys import read_key
from plansmith.cli.options import command_line
from plansmith.cli.questions import question_lines
from plansmith.cli.ui.output import bold, dim_on, print_lines
from plansmith.cli.ui.own_locale import own_locale
from plansmith.cli.ui.progress import rows
from plansmith.cli.ui.width import wrapped
from plansmith.cli.ui.words import words_for
from plansmith.plan.events import ReviewAsked
from plansmith.plan.sentence import in_language
from plansmith.review.render import plan_lines
from plansmith.text import safe

if TYPE_CHECKING:
    from plansmith.cli.session import Session
    from plansmith.plan.run import Run


class _Left(Exception):
    """The person ends the tour."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lang", help="the language of the tour: en or zh-CN")


def _main(args: argparse.Namespace) -> int:
    tour = _Tour(args.lang or own_locale())
    with tempfile.TemporaryDirectory(prefix="plansmith-demo-") as root:
        job = DemoJob(Path(root).resolve(), tour.words)
        try:
            with job.inside():
                asyncio.run(tour.shown(job))
        except _Left:
            pass
    tour.end()
    return Exit.OK


class _Tour:
    """Shows the job act by act; on a terminal a key goes on."""

    def __init__(self, locale: str) -> None:
        self.words = words_for(locale)
        self._waits = sys.stdin.isatty() and sys.stdout.isatty()

    async def shown(self, job: DemoJob) -> None:
        """Shows all acts of the tour."""
        self._prose("demo_begin")
        async with job.session() as session:
            await self._plan(job, session)
            await self._review(job, session)
            await self._consent(job, session)
        async with job.session() as session:
            await self._crash(job, session)
            await self._resume(job, session)

    async def _plan(self, job: DemoJob, session: Session) -> None:
        self._act("demo_plan", "demo_asked")
        print_lines(["", f"  “{self.words['demo_request']}”", ""])
        run = await job.planned(session)
        if run.plan is not None:
            lines = plan_lines(run.plan, locale=self.words["locale"])
            print_lines(f"  {line}".rstrip() for line in lines)
        self._prose("demo_checked")
        self._wait()

    async def _review(self, job: DemoJob, session: Session) -> None:
        self._act("demo_review")
        run = await session.smith.get(job.run_id)
        events = await session.smith.store.events(job.run_id)
        asked = [each.body for each in events if isinstance(each.body, ReviewAsked)]
        print_lines(self._reasons(run, asked[-1].reasons if asked else ()))
        self._prose("demo_hash")
        self._wait()

    def _reasons(self, run: Run, reasons: Iterable[str]) -> Iterator[str]:
        yield ""
        yield f"  {self.words['review']}"
        for each in reasons:
            yield f"    ! {safe(in_language(each, self.words['locale']))}"
        if run.plan is not None:
            yield f"    {self.words['hash'].format(hash=run.plan.hash)}"

    async def _consent(self, job: DemoJob, session: Session) -> None:
        self._act("demo_consent")
        run, asked = await job.asked(session)
        self._progress(run, session)
        values = await consent_values(session.smith.store, asked)
        effects = [*preview_lines(await preview_of(session, run, asked), session.words)]
        print_lines(f"  {line}" for line in question_lines(asked, session, run, values, effects))
        self._prose("demo_values")
        self._wait()
        await job.allow(session, asked)

    async def _crash(self, job: DemoJob, session: Session) -> None:
        self._act("demo_crash")
        self._printed(job, await job.killed(session))
        self._prose("demo_killed")
        self._wait()

    async def _resume(self, job: DemoJob, session: Session) -> None:
        self._act("demo_resume")
        crash = len(list(await session.smith.store.events(job.run_id)))
        self._printed(job, await job.resumed())
        self._prose("demo_proof")
        for name, when in await job.story(session, crash):
            print_lines([f"  {name:<8}  {when}"])
        mails = job.outbox()
        print_lines(["", *wrapped(self.words["demo_outbox"].format(count=len(mails)))])

    def end(self) -> None:
        """Names the commands to go on with."""
        words = self.words
        question = command_line("ask", words["demo_next_question"], "--yes-read-only")
        commands = {
            question: words["demo_next_ask"],
            command_line("model", "pull"): words["demo_next_model"],
            command_line("serve"): words["demo_next_serve"],
        }
        print_lines(["", words["demo_end"]])
        for command, about in commands.items():
            print_lines([f"  {command}", dim_on(sys.stdout, f"      {about}")])

    def _progress(self, run: Run, session: Session) -> None:
        now = session.smith.runs.journals.clock.now()
        found = rows(run, now=now, words=self.words)
        print_lines(["", *(f"  {row.text}" for row in found), ""])

    def _printed(self, job: DemoJob, output: str) -> None:
        """Shows a command with what it printed, as it was seen."""
        lines = [f"  {safe(line)}" for line in output.splitlines()]
        print_lines(["", f"  $ {job.command()}", *lines])

    def _act(self, title: str, *texts: str) -> None:
        print_lines(["", bold(self.words[title])])
        for each in texts:
            print_lines(wrapped(self.words[each]))

    def _prose(self, name: str) -> None:
        print_lines(["", *wrapped(self.words[name])])

    def _wait(self) -> None:
        """Waits for a key on a terminal; q leaves the tour."""
        if not self._waits:
            return
        key = read_key(dim_on(sys.stdout, self.words["demo_key"]))
        sys.stdout.write("\r\x1b[2K")
        if key.lower() == "q":
            raise _Left


COMMAND = Command(_configure, _main)
