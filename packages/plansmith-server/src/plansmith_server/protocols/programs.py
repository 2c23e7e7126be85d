"""What programs may do with runs over MCP and A2A: all but decide for a person."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plansmith.errors import Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence, language_of
from plansmith.runs.decisions import answerable
from plansmith.runs.intake import NewRun
from plansmith_planner.threads.store import thread_of
from plansmith_planner.threads.thread import Thread, Turn
from plansmith_server.errors import in_reader_language
from plansmith_server.routes.conversations import open_conversation, say_in
from plansmith_server.state import ServerState
from plansmith_server.team.tokens import Token
from plansmith_server.views import JsonObject, awaits_review, question_view


def program(protocol: str, name: str, user: str = "") -> e.Actor:
    """Returns the actor of a client, such as `MCP client nightly`; cleans its name."""
    plain = "".join(each for each in " ".join(name.split()) if each.isprintable())
    return e.Actor(kind="program", name=f"{protocol} client {plain[:80]}".rstrip(), user=user)


def program_of(protocol: str, grant: Token) -> e.Actor:
    """Returns the actor of a client by its token."""
    return program(protocol, grant.name, grant.actor.identity)


@dataclass(frozen=True, slots=True)
class ProgramAccess:
    """Acts for a program; cannot approve, give permission or change limits."""

    state: ServerState
    who: e.Actor

    async def create(
        self, request: str = "", plan: Plan | None = None, *, dialect: str = "", **new: Any
    ) -> str:
        """Creates a run; a plan starts if it only reads, else a person is asked to review it."""
        options = RunOptions(dialect=dialect)
        if plan is not None:
            options = RunOptions(mode="read_only", dialect=dialect)
        made = NewRun(request, plan, options=options, by=self.who, **new)
        journal = await self.state.smith.runs.create(made)
        self.state.background.go_on(journal.id)
        return journal.id

    async def say(
        self, text: str, *, conversation: str, in_team: bool = False, **options: Any
    ) -> tuple[Thread, Turn]:
        """Says something in a conversation of this program; its run continues in the background.

        `in_team`: the team of the server's state plans it, not that of the last run.
        """
        found, thread = await open_conversation(self.state, conversation, fixed=in_team)
        return thread, await say_in(found, thread, text, by=self.who, **options)

    async def use(self, name: str, inputs: Mapping[str, Json], *, run_id: str = "") -> str:
        book = self.state.smith.templates
        plan, template = await book.plan(name, inputs), await book.get(name)
        origin = Origin(kind="template", id=template.full_name)
        return await self.create(plan=plan, run_id=run_id, origin=origin)

    async def start(self, run_id: str) -> None:
        """Starts a run whose plan is approved or needs no approval; others keep waiting."""
        run = await self.state.run(run_id)
        if run.status.over:
            raise Refused(Sentence("run {run} is over: {status}", run=run_id, status=run.status))
        if not awaits_review(run):  # else a person was asked: the status says so
            self.state.background.go_on(run_id)

    async def answer(self, run_id: str, question: str, value: Json) -> None:
        """Answers a question; refuses one that only a person may answer."""
        run = await self.state.run(run_id)
        if question not in run.questions:
            why = Sentence("run {run} has no open question '{name}'", run=run_id, name=question)
            raise StaleDecision(why)
        state = await self.state.for_run(run_id)
        await state.smith.runs.answer(run_id, question, value, by=self.who)
        self.state.background.go_on(run_id)

    async def answerable(self, run: Run) -> dict[str, e.QuestionAsked]:
        if not run.questions:
            return {}
        state = await self.state.for_run(run.id, acts=False)
        known = await state.smith.runs.registry.capabilities(run.plan, run.templates)
        return answerable(run, known)

    async def cancel(self, run_id: str) -> None:
        """Cancels a run, unless it is over or about to be."""
        run = await self.state.run(run_id)
        if run.status.over or run.cancel_asked:
            return
        state = await self.state.for_run(run_id, acts=False)
        await self.state.background.halt_planning(run_id)
        await state.smith.cancel(run_id, by=self.who)

    async def at_rest(self, run_id: str, *, seconds: float) -> Run:
        """Waits until the run ends, waits for someone, or the time is up; returns the run."""
        await self.state.wait(self.state.background.at_rest(run_id), seconds)
        return await self.state.run(run_id)

    async def status(self, run_id: str) -> JsonObject:
        run = await self.state.run(run_id)
        free = await self.answerable(run)
        is_for_person = awaits_review(run) or len(free) < len(run.questions)
        status: JsonObject = {
            "run": run.id,
            "status": run.status.value,
            "request": run.request,
            "reason": run.reason,
            "hash": run.plan.hash if run.plan else None,
            "steps": {name: state.status.value for name, state in run.steps.items()},
            "questions": [question_view(run, each) for each in free.values()],
            "for_a_person": "",
            "conversation": await thread_of(self.state.smith.store, run),
            "updated_at": run.updated_at,
        }
        if is_for_person:  # how: with the whole command, or on the page of a live server
            about, settings = self.state.about, self.state.settings
            others = await self.state.smith.runs.journals.ownership.processes()
            pages = [about.at, *(each.heartbeat.about.at for each in others if each.lives)]
            words = ["approve" if awaits_review(run) else "answer", run.id]
            if not about.at:  # the program is on this machine, and may know where
                words = ["-C", str(settings.folder()), *words]
                words += ["--store", settings.store] if settings.store.startswith("sqlite:") else []
            status["for_a_person"] = Sentence(
                "A person has to decide about run {run}: with `{command}`, or on its page ({page})",
                run=run.id,
                command=shlex.join(["plansmith", *words]),
                page=next((f"{each}/#/runs/{run.id}" for each in pages if each), "plansmith serve"),
            )
        translated: JsonObject = in_reader_language(status, language_of(run.locale))
        return translated
