"""Asks a person at a terminal to decide on a plan and to answer the questions of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plansmith.plan.capability import Effect
from plansmith.review.policy import active_steps, effects
from plansmith.text import clip, safe
from plansmith_cli.consent import ask_all
from plansmith_cli.describe import done_so_far, review_lines
from plansmith_cli.editor import edit_in_editor
from plansmith_cli.questions import Choice, ask_line, read_choice

if TYPE_CHECKING:
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run
    from plansmith.plan.steps import StepFields
    from plansmith_cli.session import Session


class Prompts:
    """Asks for decisions and answers, each at a prompt of its own."""

    def approve(self, session: Session) -> str:
        """Returns the prompt under a plan."""
        return session.own_text(
            "Run this plan? y = yes, n = reject it, e = edit it, c TEXT = ask for changes, "
            "Enter = not now: "
        )

    asks_again = True  # what is neither a yes nor a no is not taken for either

    async def review(self, session: Session, run: Run) -> bool:
        """Shows the plan and asks for a decision; returns False if there is none."""
        if run.plan is None:
            return False
        await session.refuse_what_cannot_run(run.plan)
        given = vars(session.args).get("approve_plan")
        flag = "--approve-plan" if given == run.plan.hash else ""
        if not given and vars(session.args).get("yes_read_only"):
            # A plan made by rules is always reviewed; the flag approves it if it only reads.
            flag = "--yes-read-only" if await _only_reads(session, run) else ""
        if flag:
            session.tell(*await review_lines(run, session, flag=flag))
            await session.smith.decide(run.id, approve=run.plan.hash, by=session.by)
            return True
        session.say(*await review_lines(run, session))
        if given:
            session.say(
                session.own_text("--approve-plan names another plan: this one is not approved")
            )
        return session.has_person and await self._decide(session, run)

    async def answer(self, session: Session, run: Run) -> bool:
        """Asks the open questions; returns False if one stays open."""
        if not session.has_person:
            return False
        asked = [each for each in run.questions.values() if not self.leaves(each)]
        return await ask_all(session, run, asked) and len(asked) == len(run.questions)

    def leaves(self, asked: QuestionAsked) -> bool:
        """Tells whether a question is answered elsewhere; here none is."""
        del asked
        return False

    def put_off(self, session: Session, run: Run, choice: Choice) -> None:
        """Says that the plan was not decided on."""
        del choice
        session.say(session.own_text("not approved: {ran}", ran=done_so_far(run, session)))

    async def _decide(self, session: Session, run: Run) -> bool:
        choice = read_choice(ask_line(self.approve(session)) or "")
        while self.asks_again and choice.kind == "later" and choice.text:
            session.say(
                session.own_text(
                    "“{typed}” is neither y nor n, and only y runs the plan.",
                    typed=safe(clip(choice.text, 40)),
                )
            )
            choice = read_choice(ask_line(self.approve(session)) or "")
        digest = run.plan.hash if run.plan else ""
        match choice.kind:
            case "yes":
                await session.smith.decide(run.id, approve=digest, by=session.by)
                session.tell(session.own_text("approved"))
            case "no":
                await session.smith.decide(run.id, reject=True, by=session.by)
                session.say(session.own_text("rejected: {ran}", ran=done_so_far(run, session)))
            case "edit":
                await edit_in_editor(session, run, tells=False)
            case "changes":
                with session.planning():
                    await session.smith.request_changes(run.id, choice.text, by=session.by)
            case "later":
                self.put_off(session, run, choice)
                return False
        return True


async def _only_reads(session: Session, run: Run) -> bool:
    """Whether a plan changes nothing, and drops no approved change."""
    if run.plan is None or run.drops:
        return False
    steps = list(active_steps(run.plan, run.templates))
    return not await any_changes(session, steps)


async def any_changes(session: Session, steps: Sequence[StepFields]) -> bool:
    """Whether a step calls something that may change something."""
    callees = await session.smith.runs.intake.callees()
    agents = {spec.name: spec for spec in session.smith.runs.intake.agents()}
    return any(
        effect is not Effect.READ
        for step in steps
        for _, effect in effects(step, tools=callees.specs, agents=agents)
    )
