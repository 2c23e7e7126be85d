"""Offering a schedule: nothing runs unattended before a person has seen it and said yes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from plansmith.cli.conduct import finish
from plansmith.cli.describe import ran
from plansmith.cli.exits import Exit
from plansmith.cli.output import print_json
from plansmith.cli.prompt import ask_line, read_choice
from plansmith.cli.schedule_view import instant, local, schedule_json
from plansmith.cli.session import Session
from plansmith.errors import Misconfigured, Refused
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.schedules import Schedule
from plansmith.plan.timing import Timing, check_timing, next_fires
from plansmith.review.render import plan_lines
from plansmith.runner.requested import refuse_missing
from plansmith.text import safe


class Offer(NamedTuple):
    """What would be scheduled: its plan, and the fields of the schedule to be."""

    plan: Plan
    fields: dict[str, Any]

    @property
    def timing(self) -> Timing:
        """When it would fire."""
        timing: Timing | None = self.fields.get("timing") or self.plan.schedule
        if timing is None:
            raise Misconfigured("it is not said when", hint="--cron, --daily, --every or --at")
        return timing


async def confirmed(session: Session, offer: Offer) -> bool:
    """Show what would run when, and take the person's word; false when there is none."""
    check_timing(offer.timing)
    await session.refuse_what_cannot_run(offer.plan)
    await session.smith.schedules.require_unattended(offer.plan)
    session.say(*_lines(session, offer))
    given = vars(session.args).get("approve_plan")
    if given == offer.plan.hash:
        return True
    if given:
        session.say("--approve-plan names another plan: this one is not approved")
    if session.has_person:
        return read_choice(ask_line(session.words["schedule_ask"]) or "").kind == "yes"
    return False


def waits(session: Session, offer: Offer) -> int:
    """Say what is needed before anything is scheduled."""
    session.say(session.words["schedule_waits"], f"  {safe(_approving(session, offer))}")
    if vars(session.args).get("json"):
        times = next_fires(offer.timing, after=session.smith.runs.journals.clock.now(), count=3)
        told: dict[str, Json] = {
            "hash": offer.plan.hash,
            "timing": offer.timing.to_json() | {"timezone": offer.timing.timezone},
            "next": [instant(at) for at in times],
            "plan": offer.plan.to_json(),
        }
        print_json(told)
    return Exit.WAITING


def _approving(session: Session, offer: Offer) -> str:
    approval = ("--approve-plan", offer.plan.hash)
    if "run" not in offer.fields:
        return f"… {' '.join(approval)}"
    source = ("--run", str(offer.fields["run"]), *_flags(offer.timing))
    return session.command("schedule", "add", *source, *approval)


def _lines(session: Session, offer: Offer) -> Iterator[str]:
    yield from plan_lines(offer.plan)
    yield ""
    yield session.words["schedule_is"].format(timing=safe(str(offer.timing)))
    now = session.smith.runs.journals.clock.now()
    for at in next_fires(offer.timing, after=now, count=3):
        yield f"  {local(at, offer.timing.timezone)}"
    yield f"  {session.words['hash'].format(hash=offer.plan.hash)}"


def _flags(timing: Timing) -> list[str]:
    """A timing as it is typed."""
    ways = {
        "--every": f"{timing.every_minutes}m" if timing.every_minutes else None,
        "--daily": timing.daily_at,
        "--cron": timing.cron,
        "--at": timing.once_at,
    }
    given = [word for flag, value in ways.items() if value for word in (flag, value)]
    return [*given, "--tz", timing.timezone]


async def kept(session: Session, offer: Offer, **behaviour: Any) -> Schedule:
    """The schedule, made under the approval that was given."""
    fields = offer.fields | behaviour
    return await session.smith.schedules.create(**fields, approve=offer.plan.hash, by=session.by)


async def offer_schedule(session: Session, run: Run) -> int | None:
    """Ask whether a planned request becomes a schedule; nothing when it is to run once, now."""
    if run.plan is None or run.plan.schedule is None:
        return None
    offer = Offer(run.plan, {"run": run.id, "timing": run.plan.schedule})
    try:
        refuse_missing(run.problems)
        check_timing(offer.timing)
        await session.smith.schedules.require_unattended(offer.plan)
    except (Misconfigured, Refused) as error:
        once = f"to do it once: {session.command('resume', run.id)}"
        raise Refused(f"this cannot be a schedule: {error}", hint=once) from None
    if not session.has_person:
        finish(session, run)
        session.say(*_lines(session, offer), session.words["schedule_waits"])
        session.say(f"  {safe(_approving(session, offer))}")
        return Exit.WAITING
    session.say(*_lines(session, offer))
    typed = (ask_line(session.words["schedule_or_once"]) or "").strip()
    if typed.lower() in ("o", "once", "一次"):
        return None
    if read_choice(typed).kind != "yes":
        session.say(session.words["not_now"].format(ran=ran(run, session)))
        return Exit.WAITING
    schedule = await kept(session, offer)
    if vars(session.args).get("json"):
        print_json(schedule_json(schedule))
    session.say(session.words["schedule_kept"].format(name=safe(schedule.name)))
    session.say(f"  {session.command('schedule', 'keep')}")
    return Exit.OK
