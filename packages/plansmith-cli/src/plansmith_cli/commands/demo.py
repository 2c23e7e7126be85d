"""`plansmith demo`: a tour of a minute, without a model, a network or a file of yours."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, chdir, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from plansmith.engine.provenance import ALLOW
from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Event, QuestionAsked, ReviewAsked
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language, language_of
from plansmith.plan.step_events import StepDone, StepStarted
from plansmith.review.render import plan_lines
from plansmith.runs.changed_values import consent_values
from plansmith.testing.scripted import ScriptedModel
from plansmith.text import safe
from plansmith_cli.config import Settings
from plansmith_cli.consent import preview_of
from plansmith_cli.file_previews import preview_lines
from plansmith_cli.keyboard import read_key
from plansmith_cli.options import command_line
from plansmith_cli.parser import command
from plansmith_cli.questions import question_lines
from plansmith_cli.session import Session
from plansmith_cli.team_smiths import TeamSmiths
from plansmith_cli.ui.output import bold, dim_on, print_lines
from plansmith_cli.ui.own_locale import own_locale
from plansmith_cli.ui.progress import rows
from plansmith_cli.ui.width import wrapped
from plansmith_cli.wiring import make_smith
from plansmith_planner.settings import PlannerSettings

SALES: Final = """\
date,region,product,amount
2026-01-05,North,tea,120.50
2026-01-09,South,coffee,80.00
2026-02-11,North,coffee,200.25
2026-02-20,West,tea,60.00
2026-03-02,South,tea,95.10
"""
TOOLS: Final = '''\
import time
from pathlib import Path

from plansmith import tool


@tool(effect="write")
def send_mail(to: str, attachment: str) -> str:
    """Send a file to somebody."""
    with Path("outbox.txt").open("a", encoding="utf-8") as outbox:
        outbox.write(f"{to}: {attachment}\\n")
    return f"sent to {to}"


@tool(effect="read")
def wait_for_receipt(sender: str) -> str:
    """Wait until somebody confirms a mail."""
    while not Path("receipt.txt").exists():
        time.sleep(0.05)
    return Path("receipt.txt").read_text(encoding="utf-8")
'''
_ANN: Final = "ann@example.org"
_BEFORE: Final = "mail"
_LAST: Final = "receipt"
_REQUEST: Final = Sentence(
    "Draw a chart of the totals by region in sales.csv, send it to Ann, and wait for her receipt"
)
_SOON_S: Final = 5
_QUERY: Final = "SELECT region, SUM(amount) AS total FROM sales GROUP BY region ORDER BY region"


class DemoJob:
    """A folder of its own, with a run that is planned, asked about, killed and resumed there."""

    def __init__(self, root: Path, locale: str) -> None:
        self.folder = root / "demo"
        self._home = root / "home"
        self._locale = locale
        self.run_id = ""
        for each in (self.folder, self._home):
            each.mkdir()
        (self.folder / "sales.csv").write_text(SALES, encoding="utf-8")
        (self.folder / "mail.py").write_text(TOOLS, encoding="utf-8")

    @contextmanager
    def inside(self) -> Generator[None]:
        """Works in the folder, without a file or a setting of the person's."""
        before = dict(os.environ)
        own = {
            name: each for name, each in before.items() if not name.startswith(("PLANSMITH", "LC_"))
        }
        os.environ.clear()
        os.environ.update(own | self._environment())
        try:
            with chdir(self.folder):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def _environment(self) -> dict[str, str]:
        home = str(self._home)
        folders = ("HOME", *(f"XDG_{kind}_HOME" for kind in ("CONFIG", "DATA", "STATE", "CACHE")))
        return dict.fromkeys(folders, home) | {
            "LANG": "zh_CN.UTF-8" if self._locale == "zh" else "en_US.UTF-8",
            "PLANSMITH_STORE": f"sqlite:///{self._home / 'runs.db'}",
            "PLANSMITH_MODEL": "rules",
            "PLANSMITH_OFFLINE": "1",
            "PYTHONUTF8": "1",
            "PYTHONSAFEPATH": "1",
        }

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session]:
        """Opens the store and the tools of the demo; the model knows one answer."""
        settings = Settings(
            store=os.environ["PLANSMITH_STORE"],
            tools=(self.folder / "mail.py",),
            planner=PlannerSettings(triage=False, top_k=12),
        )
        model = ScriptedModel(draft(self._locale), name="recorded")
        smith = make_smith(settings, model=model, agents=(), context=())
        args = argparse.Namespace(no_input=True)
        try:
            yield Session(smith, settings, args, self._locale, TeamSmiths(smith, settings))
        finally:
            await smith.close()

    async def planned(self, session: Session) -> Run:
        """Plans the request from the recorded draft."""
        run = await session.smith.plan(
            in_language(_REQUEST, self._locale), locale=self._locale, by=session.by
        )
        self.run_id = run.id
        if run.plan is None or len(run.plan.steps) != len(_STEPS):
            raise PlansmithError(
                Sentence("the tour could not go on: {why}", why=run.reason or run.status)
            )
        return run

    async def asked(self, session: Session) -> tuple[Run, QuestionAsked]:
        """Approves the plan and runs it up to the question for consent."""
        run = await session.smith.get(self.run_id)
        digest = run.plan.hash if run.plan else ""
        await session.smith.decide(self.run_id, approve=digest, by=session.by)
        run = await session.smith.run(self.run_id)
        if not run.questions:
            raise PlansmithError(
                Sentence("the tour could not go on: {why}", why=run.reason or run.status)
            )
        return run, next(iter(run.questions.values()))

    async def allow(self, session: Session, asked: QuestionAsked) -> None:
        """Consents to the call."""
        await session.smith.answer(self.run_id, asked.question, ALLOW, by=session.by)

    async def killed(self, session: Session) -> str:
        """Resumes in a process of its own, and kills that in its last call; returns its output."""
        seen = len(list(await session.smith.store.events(self.run_id)))
        process = self._started()
        waiting = asyncio.create_task(self._until_last_call(session, seen))
        ended = asyncio.create_task(asyncio.to_thread(process.wait))
        await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            why = _output(process).strip()
            raise PlansmithError(Sentence("the tour could not go on: {why}", why=why))
        # What is done is printed a moment after it is written down: the tour shows it.
        told = list[str]()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(_read_until, process, _BEFORE, told), _SOON_S)
        process.kill()  # SIGKILL: it cannot tidy up
        await ended
        return "".join([*told, _output(process)])

    async def resumed(self) -> str:
        """Resumes the run in another process; returns what that printed."""
        (self.folder / "receipt.txt").write_text(
            in_language(Sentence("received, thank you"), self._locale), encoding="utf-8"
        )
        process = self._started()
        await asyncio.to_thread(process.wait)
        return _output(process)

    def command(self) -> str:
        """Returns the command that resumes the run, as it is typed."""
        return "plansmith go last --tools mail.py"

    def _started(self) -> subprocess.Popen[str]:
        # Its output is short: it fits into the pipe, so nobody has to read while it runs.
        return subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "plansmith_cli", *self.command().split()[1:], "--no-input"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    async def _until_last_call(self, session: Session, seen: int) -> None:
        async for event in session.smith.events(self.run_id, after=seen, follow=True):
            if isinstance(event.body, StepStarted) and event.body.step == _LAST:
                return

    async def story(self, session: Session, crash: int) -> list[tuple[str, str]]:
        """Returns each step, and when it was done: before the crash or after it."""
        events = await session.smith.store.events(self.run_id)
        done = {each.body.step: each for each in events if isinstance(each.body, StepDone)}
        cut = {
            each.body.step
            for each in events
            if isinstance(each.body, StepStarted) and each.number <= crash
        }
        return [(name, self._when(done.get(name), crash, cut=name in cut)) for name in _STEPS]

    def _when(self, event: Event | None, crash: int, *, cut: bool) -> str:
        if event is None:
            return Sentence("failed")
        if event.number <= crash:
            return Sentence("done before the crash, not repeated")
        return Sentence(
            "cut off by the crash; it only reads, so it was made again"
            if cut
            else "done after the crash"
        )

    def outbox(self) -> Sequence[str]:
        """Returns the mails that were sent."""
        return (self.folder / "outbox.txt").read_text(encoding="utf-8").splitlines()


def _read_until(process: subprocess.Popen[str], step: str, lines: list[str]) -> None:
    """Reads what a process prints until it has told the end of a step, or has ended."""
    for line in process.stdout or ():
        lines.append(line)
        if f"✓ {step} " in line:
            return


def _output(process: subprocess.Popen[str]) -> str:
    with process, suppress(ValueError):
        return process.stdout.read() if process.stdout else ""
    return ""


_STEPS: Final = ("totals", "chart", _BEFORE, _LAST, "answer")


def draft(locale: str) -> dict[str, Json]:
    """Returns what a model answered when the demo was recorded."""
    steps: list[Json] = [
        _step(
            "totals",
            in_language(Sentence("Add up the sales of each region"), locale),
            "tables.sql",
            {"query": _QUERY},
        ),
        _step(
            "chart",
            in_language(Sentence("Draw the chart"), locale),
            "charts.draw",
            {"kind": "bar", "rows": "{{totals.rows}}", "x": "region", "path": "totals.svg"},
        ),
        _step(
            "mail",
            in_language(Sentence("Send the chart to Ann"), locale),
            "send_mail",
            {"to": _ANN, "attachment": "totals.svg"},
            "chart",
        ),
        _step(
            _LAST,
            in_language(Sentence("Wait for the receipt"), locale),
            "wait_for_receipt",
            {"sender": _ANN},
            "mail",
        ),
        {
            "id": "answer",
            "say": in_language(
                Sentence(
                    "totals.svg is drawn and sent; Ann wrote: {receipt}", receipt="{{receipt}}"
                ),
                locale,
            ),
        },
    ]
    return {"goal": in_language(_REQUEST, locale), "steps": steps}


def _step(
    name: str, title: str, tool: str, inputs: dict[str, Json], *after: str
) -> dict[str, Json]:
    step: dict[str, Json] = {"id": name, "title": title, "tool": tool, "inputs": inputs}
    if after:
        step["after"] = [*after]
    return step


class _Left(Exception):
    """The person ends the tour."""


def _main(args: argparse.Namespace) -> None:
    tour = _Tour(language_of(args.lang or own_locale()))
    with tempfile.TemporaryDirectory(prefix="plansmith-demo-") as root:
        job = DemoJob(Path(root).resolve(), tour.locale)
        try:
            with job.inside():
                asyncio.run(tour.shown(job))
        except _Left:
            pass
    tour.end()


class _Tour:
    """Shows the job act by act; on a terminal a key goes on."""

    def __init__(self, locale: str) -> None:
        self.locale = locale
        self._waits = sys.stdin.isatty() and sys.stdout.isatty()

    async def shown(self, job: DemoJob) -> None:
        """Shows all acts of the tour."""
        self._prose(
            Sentence(
                "A tour of a minute. It works in a folder of its own, which is deleted "
                "at the end: nothing of yours is read or changed, and there is no "
                "network. Only the model's answer was recorded before; all else happens "
                "now."
            )
        )
        async with job.session() as session:
            await self._plan(job, session)
            await self._review(job, session)
            await self._consent(job, session)
        async with job.session() as session:
            await self._crash(job, session)
            await self._resume(job, session)

    async def _plan(self, job: DemoJob, session: Session) -> None:
        self._act(
            Sentence("1/5 A request becomes a plan"),
            Sentence("In the folder: sales.csv, and two tools of our own in mail.py. You ask:"),
        )
        print_lines(["", f"  “{in_language(_REQUEST, self.locale)}”", ""])
        run = await job.planned(session)
        if run.plan is not None:
            lines = plan_lines(run.plan, locale=self.locale)
            print_lines(f"  {line}".rstrip() for line in lines)
        self._prose(
            Sentence(
                "A model drafted it. Plansmith checked every step: the tools, their "
                "arguments, what flows from step to step."
            )
        )
        self._wait()

    async def _review(self, job: DemoJob, session: Session) -> None:
        self._act(Sentence("2/5 You approve exactly this plan"))
        run = await session.smith.get(job.run_id)
        events = await session.smith.store.events(job.run_id)
        asked = [each.body for each in events if isinstance(each.body, ReviewAsked)]
        print_lines(self._reasons(run, asked[-1].reasons if asked else ()))
        self._prose(
            Sentence(
                "Nothing has run so far. Your yes is bound to the hash: if a step "
                "changes, you are asked again. (The tour says yes.)"
            )
        )
        self._wait()

    def _reasons(self, run: Run, reasons: Iterable[str]) -> Iterator[str]:
        yield ""
        yield f"  {self.own_text('This plan waits for your approval.')}"
        for each in reasons:
            yield f"    ! {safe(in_language(each, self.locale))}"
        if run.plan is not None:
            yield f"    {self.own_text('hash {hash}', hash=run.plan.hash)}"

    async def _consent(self, job: DemoJob, session: Session) -> None:
        self._act(Sentence("3/5 It runs, and asks before data is written"))
        run, asked = await job.asked(session)
        self._progress(run, session)
        values = await consent_values(session.smith.store, asked)
        effects = [*preview_lines(await preview_of(session, run, asked), session.locale)]
        print_lines(f"  {line}" for line in question_lines(asked, session, run, values, effects))
        self._prose(
            Sentence(
                "The totals were not known when you approved. Before they go into a "
                "file, you see them. (The tour allows it.)"
            )
        )
        self._wait()
        await job.allow(session, asked)

    async def _crash(self, job: DemoJob, session: Session) -> None:
        self._act(Sentence("4/5 The power fails"))
        self._printed(job, await job.killed(session))
        self._prose(
            Sentence(
                "The chart is drawn and the mail is sent. While it waits for the "
                "receipt, the process is killed with kill -9."
            )
        )
        self._wait()

    async def _resume(self, job: DemoJob, session: Session) -> None:
        self._act(Sentence("5/5 It goes on, and repeats no change"))
        crash = len(list(await session.smith.store.events(job.run_id)))
        self._printed(job, await job.resumed())
        self._prose(
            Sentence("The journal tells what happened to each step, before and after the crash:")
        )
        for name, when in await job.story(session, crash):
            print_lines([f"  {name:<8}  {in_language(when, self.locale)}"])
        self._prose(
            Sentence(
                "outbox.txt has {count} mail. Had the crash hit the sending itself, you "
                "would have been asked: nobody could know.",
                count=len(job.outbox()),
            )
        )

    def end(self) -> None:
        """Names the commands to go on with."""
        question = command_line(
            "ask",
            self.own_text("Which files here mention invoices?"),
            "--yes-read-only",
        )
        commands = {
            question: self.own_text("a first question; it only reads"),
            command_line("model", "pull"): self.own_text("a model that plans on this machine"),
            command_line("serve"): self.own_text("the same in the browser"),
        }
        print_lines(["", self.own_text("That was all. Now with your own files:")])
        for typed, about in commands.items():
            print_lines([f"  {typed}", dim_on(sys.stdout, f"      {about}")])

    def _progress(self, run: Run, session: Session) -> None:
        now = session.smith.runs.journals.clock.now()
        found = rows(run, now=now, locale=self.locale)
        print_lines(["", *(f"  {row.text}" for row in found), ""])

    def _printed(self, job: DemoJob, output: str) -> None:
        """Shows a command with what it printed, as it was seen."""
        lines = [f"  {safe(line)}" for line in output.splitlines()]
        print_lines(["", f"  $ {job.command()}", *lines])

    def _act(self, title: str, *texts: str) -> None:
        print_lines(["", bold(in_language(title, self.locale))])
        for each in texts:
            print_lines(wrapped(in_language(each, self.locale)))

    def _prose(self, text: str) -> None:
        print_lines(["", *wrapped(in_language(text, self.locale))])

    def own_text(self, text: str, /, **fields: Any) -> str:
        """Returns a sentence in the language of the tour."""
        return in_language(Sentence(text, **fields), self.locale)

    def _wait(self) -> None:
        """Waits for a key on a terminal; q leaves the tour."""
        if not self._waits:
            return
        key = read_key(dim_on(sys.stdout, self.own_text("— Enter goes on, q ends —")))
        sys.stdout.write("\r\x1b[2K")
        if key.lower() == "q":
            raise _Left


COMMAND = command("--lang LANG  the language of the tour: en or zh-CN", _main)
