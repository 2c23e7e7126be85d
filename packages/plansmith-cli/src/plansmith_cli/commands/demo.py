"""`plansmith demo`: a tour of a minute, without a model, a network or a file of yours."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, chdir, contextmanager, suppress
from pathlib import Path
from typing import Final

from plansmith.engine.provenance import ALLOW
from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Event, ReviewAsked, StepDone, StepStarted
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language, language_of
from plansmith.review.render import plan_lines
from plansmith.runs.answering import consent_values
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
_REQUEST: Final = Sentence(
    "Draw a chart of the totals by region in sales.csv, send it to Ann, and wait for her receipt"
)
_SOON_S: Final = 5
_QUERY: Final = "SELECT region, SUM(amount) AS total FROM sales GROUP BY region ORDER BY region"
_BEFORE, _LAST = "mail", "receipt"  # the last step before the crash, and the one it cuts off
# What a model answered when the demo was recorded.
_STEPS: Final[tuple[tuple[str, Sentence, dict[str, Json]], ...]] = (
    (
        "totals",
        Sentence("Add up the sales of each region"),
        {"tool": "tables.sql", "inputs": {"query": _QUERY}},
    ),
    (
        "chart",
        Sentence("Draw the chart"),
        {
            "tool": "charts.draw",
            "inputs": {
                "kind": "bar",
                "rows": "{{totals.rows}}",
                "x": "region",
                "path": "totals.svg",
            },
        },
    ),
    (
        _BEFORE,
        Sentence("Send the chart to Ann"),
        {
            "tool": "send_mail",
            "inputs": {"to": _ANN, "attachment": "totals.svg"},
            "after": ["chart"],
        },
    ),
    (
        _LAST,
        Sentence("Wait for the receipt"),
        {"tool": "wait_for_receipt", "inputs": {"sender": _ANN}, "after": [_BEFORE]},
    ),
)
_ANSWER: Final = Sentence(
    "totals.svg is drawn and sent; Ann wrote: {receipt}", receipt="{{receipt}}"
)
_GO: Final = "plansmith go last --tools mail.py"


def draft(locale: str) -> dict[str, Json]:
    """Returns the recorded draft in a language."""
    steps: list[Json] = [
        {"id": name, "title": in_language(title, locale), **rest} for name, title, rest in _STEPS
    ]
    answer: Json = {"id": "answer", "say": in_language(_ANSWER, locale)}
    return {"goal": in_language(_REQUEST, locale), "steps": [*steps, answer]}


class _Left(Exception):
    """The person ends the tour."""


class _Tour:
    """A run in a folder of its own, planned, asked about, killed and resumed, act by act."""

    def __init__(self, root: Path, locale: str) -> None:
        self.folder, self._home, self.locale = root / "demo", root / "home", locale
        self._waits = sys.stdin.isatty() and sys.stdout.isatty()
        self._run = ""
        for each in (self.folder, self._home):
            each.mkdir()
        (self.folder / "sales.csv").write_text(SALES, encoding="utf-8")
        (self.folder / "mail.py").write_text(TOOLS, encoding="utf-8")

    @contextmanager
    def inside(self) -> Generator[None]:
        """Works in the folder, without a file or a setting of the person's."""
        before = dict(os.environ)
        kept = {
            name: each for name, each in before.items() if not name.startswith(("PLANSMITH", "LC_"))
        }
        folders = ("HOME", *(f"XDG_{kind}_HOME" for kind in ("CONFIG", "DATA", "STATE", "CACHE")))
        own = dict.fromkeys(folders, str(self._home)) | {
            "LANG": "zh_CN.UTF-8" if self.locale == "zh" else "en_US.UTF-8",
            "PLANSMITH_STORE": f"sqlite:///{self._home / 'runs.db'}",
            "PLANSMITH_MODEL": "rules",
            "PLANSMITH_OFFLINE": "1",
            "PYTHONUTF8": "1",
            "PYTHONSAFEPATH": "1",
        }
        os.environ.clear()
        os.environ.update(kept | own)
        try:
            with chdir(self.folder):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[Session]:
        """Opens the store and the tools of the demo; the model knows one answer."""
        settings = Settings(
            store=os.environ["PLANSMITH_STORE"],
            tools=(self.folder / "mail.py",),
            planner=PlannerSettings(triage=False, top_k=12),
        )
        model = ScriptedModel(draft(self.locale), name="recorded")
        smith = make_smith(settings, model=model, agents=(), context=())
        args = argparse.Namespace(no_input=True)
        try:
            yield Session(smith, settings, args, self.locale, TeamSmiths(smith, settings))
        finally:
            await smith.close()

    async def shown(self) -> None:
        """Shows all acts of the tour; on a terminal a key goes on."""
        self._prose(
            Sentence(
                "A tour of a minute. It works in a folder of its own, which is deleted "
                "at the end: nothing of yours is read or changed, and there is no "
                "network. Only the model's answer was recorded before; all else happens "
                "now."
            )
        )
        async with self._session() as session:
            await self._plan(session)
            await self._review(session)
            await self._consent(session)
        async with self._session() as session:
            await self._crash(session)
            await self._resume(session)

    async def _plan(self, session: Session) -> None:
        self._act(Sentence("1/5 A request becomes a plan"))
        told = Sentence("In the folder: sales.csv, and two tools of our own in mail.py. You ask:")
        request = in_language(_REQUEST, self.locale)
        session.print(*wrapped(in_language(told, self.locale)), "", f"  “{request}”", "")
        run = await session.smith.plan(request, locale=self.locale, by=session.by)
        if run.plan is None or len(run.plan.steps) != len(_STEPS) + 1:
            raise _stuck(run)
        self._run = run.id
        session.print(*(f"  {line}".rstrip() for line in plan_lines(run.plan, locale=self.locale)))
        self._prose(
            Sentence(
                "A model drafted it. Plansmith checked every step: the tools, their "
                "arguments, what flows from step to step."
            )
        )
        self._wait()

    async def _review(self, session: Session) -> None:
        self._act(Sentence("2/5 You approve exactly this plan"))
        events = await session.smith.store.events(self._run)
        asked = [each.body for each in events if isinstance(each.body, ReviewAsked)]
        session.print("", f"  {session.own_text('This plan waits for your approval.')}")
        for each in asked[-1].reasons if asked else ():
            session.print(f"    ! {safe(in_language(each, self.locale))}")
        session.print(f"    {session.own_text('hash {hash}', hash=await self._hash(session))}")
        self._prose(
            Sentence(
                "Nothing has run so far. Your yes is bound to the hash: if a step "
                "changes, you are asked again. (The tour says yes.)"
            )
        )
        self._wait()

    async def _hash(self, session: Session) -> str:
        plan = (await session.smith.get(self._run)).plan
        return plan.hash if plan else ""

    async def _consent(self, session: Session) -> None:
        self._act(Sentence("3/5 It runs, and asks before data is written"))
        smith = session.smith
        await smith.decide(self._run, approve=await self._hash(session), by=session.by)
        run = await smith.run(self._run)
        if not run.questions:
            raise _stuck(run)
        asked = next(iter(run.questions.values()))
        found = rows(run, now=smith.runs.journals.clock.now(), locale=self.locale)
        values = await consent_values(smith.store, asked)
        effects = preview_lines(await preview_of(session, run, asked), session.locale)
        lines = question_lines(asked, session, run, values, effects)
        steps = [f"  {row.text}" for row in found]
        session.print("", *steps, "", *(f"  {in_language(line, self.locale)}" for line in lines))
        self._prose(
            Sentence(
                "The totals were not known when you approved. Before they go into a "
                "file, you see them. (The tour allows it.)"
            )
        )
        self._wait()
        await smith.answer(self._run, asked.question, ALLOW, by=session.by)

    async def _crash(self, session: Session) -> None:
        """Resumes in a process of its own, and kills that in its last call."""
        self._act(Sentence("4/5 The power fails"))
        seen = len(list(await session.smith.store.events(self._run)))
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
        self._printed("".join([*told, _output(process)]))
        self._prose(
            Sentence(
                "The chart is drawn and the mail is sent. While it waits for the "
                "receipt, the process is killed with kill -9."
            )
        )
        self._wait()

    async def _resume(self, session: Session) -> None:
        self._act(Sentence("5/5 It goes on, and repeats no change"))
        crash = len(list(await session.smith.store.events(self._run)))
        thanks = in_language(Sentence("received, thank you"), self.locale)
        (self.folder / "receipt.txt").write_text(thanks, encoding="utf-8")
        process = self._started()
        await asyncio.to_thread(process.wait)
        self._printed(_output(process))
        self._prose(
            Sentence("The journal tells what happened to each step, before and after the crash:")
        )
        events = list(await session.smith.store.events(self._run))
        for name in (*(name for name, _, _ in _STEPS), "answer"):
            session.print(f"  {name:<8}  {in_language(_when(name, events, crash), self.locale)}")
        outbox = (self.folder / "outbox.txt").read_text(encoding="utf-8").splitlines()
        self._prose(
            Sentence(
                "outbox.txt has {count} mail. Had the crash hit the sending itself, you "
                "would have been asked: nobody could know.",
                count=len(outbox),
            )
        )

    def _started(self) -> subprocess.Popen[str]:
        # Its output is short: it fits into the pipe, so nobody has to read while it runs.
        return subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "plansmith_cli", *_GO.split()[1:], "--no-input"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    async def _until_last_call(self, session: Session, seen: int) -> None:
        async for event in session.smith.events(self._run, after=seen, follow=True):
            if isinstance(event.body, StepStarted) and event.body.step == _LAST:
                return

    def _printed(self, output: str) -> None:
        """Shows the command that resumes the run with what it printed, as it was seen."""
        print_lines(["", f"  $ {_GO}", *(f"  {safe(line)}" for line in output.splitlines())])

    def _act(self, title: Sentence) -> None:
        print_lines(["", bold(in_language(title, self.locale))])

    def _prose(self, text: Sentence) -> None:
        print_lines(["", *wrapped(in_language(text, self.locale))])

    def _wait(self) -> None:
        """Waits for a key on a terminal; q leaves the tour."""
        if not self._waits:
            return
        prompt = in_language(Sentence("— Enter goes on, q ends —"), self.locale)
        key = read_key(dim_on(sys.stdout, prompt))
        sys.stdout.write("\r\x1b[2K")
        if key.lower() == "q":
            raise _Left


def _stuck(run: Run) -> PlansmithError:
    why = run.reason or run.status
    return PlansmithError(Sentence("the tour could not go on: {why}", why=why))


def _when(step: str, events: Sequence[Event], crash: int) -> Sentence:
    """Says when a step was done: before the crash or after it."""
    done = [e for e in events if isinstance(e.body, StepDone) and e.body.step == step]
    begun = [e for e in events if isinstance(e.body, StepStarted) and e.body.step == step]
    if not done:
        return Sentence("failed")
    if done[-1].number <= crash:
        return Sentence("done before the crash, not repeated")
    return Sentence(
        "cut off by the crash; it only reads, so it was made again"
        if any(each.number <= crash for each in begun)
        else "done after the crash"
    )


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


def _say_next(locale: str) -> None:
    """Names the commands to go on with."""
    question = in_language(Sentence("Which files here mention invoices?"), locale)
    commands = {
        command_line("ask", question, "--yes-read-only"): Sentence(
            "a first question; it only reads"
        ),
        command_line("model", "pull"): Sentence("a model that plans on this machine"),
        command_line("serve"): Sentence("the same in the browser"),
    }
    print_lines(["", in_language(Sentence("That was all. Now with your own files:"), locale)])
    for typed, about in commands.items():
        told = dim_on(sys.stdout, f"      {in_language(about, locale)}")
        print_lines([f"  {typed}", told])


def _main(args: argparse.Namespace) -> None:
    locale = language_of(args.lang or own_locale())
    with tempfile.TemporaryDirectory(prefix="plansmith-demo-") as root, suppress(_Left):
        tour = _Tour(Path(root).resolve(), locale)
        with tour.inside():
            asyncio.run(tour.shown())
    _say_next(locale)


COMMAND = command("--lang LANG  the language of the tour: en or zh-CN", _main)
