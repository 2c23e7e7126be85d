"""Shows schedules, and asks for the approval of a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from plansmith.errors import Misconfigured, Refused
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.schedules import Fire, Part, Schedule, parts
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.timing import Timing, check_timing, next_fires, zone_of
from plansmith.review.render import plan_lines
from plansmith.text import clip, padded, safe, text_width
from plansmith_cli.describe import done_so_far, run_json
from plansmith_cli.exit_codes import Exit
from plansmith_cli.questions import agrees, ask_line, read_choice
from plansmith_cli.session import Session
from plansmith_cli.ui.output import print_json


def instant(at: datetime) -> str:
    """Formats a time in UTC, as RFC 3339."""
    kept = "auto" if at.microsecond else "seconds"
    return at.astimezone(UTC).isoformat(timespec=kept).replace("+00:00", "Z")


def local(at: datetime, zone: str, locale: str) -> str:
    """Formats a time in a time zone."""
    there = at.astimezone(zone_of(zone))
    days = in_language(Sentence("Mon Tue Wed Thu Fri Sat Sun"), locale).split()
    return f"{days[there.weekday()]} {there:%Y-%m-%d %H:%M} {zone}"


def coming(schedule: Schedule, count: int) -> list[datetime]:
    """Returns the next fires of a schedule; none while it is paused."""
    if schedule.paused:
        return []
    after = max(schedule.settled, datetime.now(UTC))
    return next_fires(schedule.timing, after=after, anchor=schedule.created, count=count)


_SHOWN: Final = {
    *("id", "name", "reason", "request", "template", "inputs", "approved", "approved_by"),
    *("overlap", "missed", "window_minutes", "jitter_seconds", "max_failures", "by", "folder"),
}


def schedule_json(schedule: Schedule, *, count: int = 1) -> dict[str, Json]:
    """Returns a schedule as JSON."""
    shown: dict[str, Json] = schedule.model_dump(mode="json", include=_SHOWN)
    more: dict[str, Json] = {
        "state": "removed" if schedule.removed else schedule.state,
        "timing": schedule.timing.to_json() | {"timezone": schedule.timing.timezone},
        "plan": schedule.plan.to_json() if schedule.plan else None,
        "budget": schedule.budget.to_json(),
        "created": instant(schedule.created),
        "next": [instant(at) for at in coming(schedule, count)],
    }
    return shown | more


def fire_json(fire: Fire) -> dict[str, Json]:
    """Returns a past fire as JSON."""
    return {
        "due": instant(fire.due),
        "kind": fire.kind.value,
        "state": fire.state.value,
        "run": fire.run,
        "note": fire.note,
        "at": instant(fire.at),
        "ended": instant(fire.ended) if fire.ended else None,
    }


def list_lines(schedules: Sequence[Schedule], session: Session) -> Iterator[str]:
    """Yields one line per schedule, with its folder if that is another one."""
    here, locale = session.journals.folder, session.locale
    names = [clip(safe(each.name), 40) for each in schedules]
    width = max(map(text_width, names), default=0)
    for name, each in zip(names, schedules, strict=True):
        when: str = each.reason
        for at in coming(each, 1):
            when = Sentence("next {time}", time=local(at, each.timing.timezone, locale))
        timing = safe(in_language(each.timing.sentence, locale))
        state = padded(_state(each.state, session), 6)
        place = f"  {in_language(_folder(each), locale)}" if each.folder not in ("", here) else ""
        when = clip(safe(in_language(when, locale)), 80)
        yield f"{padded(name, width)}  {state}  {timing}  {when}{place}"


def _state(name: str, session: Session) -> str:
    return session.own_text(f"fire.{name}")


def _folder(schedule: Schedule) -> Sentence:
    return Sentence("fires in {folder}", folder=safe(schedule.folder))


def schedule_lines(schedule: Schedule, session: Session) -> Iterator[str]:
    """Yields the lines of `plansmith schedule show`."""
    timing = safe(in_language(schedule.timing.sentence, session.locale))
    yield f"{safe(schedule.name)}: {_state(schedule.state, session)}, {timing}"
    yield from (f"  {in_language(line, session.locale)}" for line in _about(schedule, session))
    yield ""
    if schedule.plan is not None:
        yield from plan_lines(schedule.plan, locale=session.locale)
    elif schedule.template:
        yield Sentence("template {name}", name=safe(schedule.template))
    else:
        request = clip(safe(schedule.request), 200)
        yield Sentence("planned anew each time: {request}", request=request)


def _about(schedule: Schedule, session: Session) -> Iterator[str]:
    if schedule.reason:
        yield clip(safe(in_language(schedule.reason, session.locale)), 200)
    who, made = safe(schedule.by) or "?", instant(schedule.created)
    yield Sentence("{id}, made by {who} at {time}", id=schedule.id, who=who, time=made)
    if schedule.folder:
        yield _folder(schedule)
    yield Sentence(
        "overlap {overlap}, missed {missed}, paused after {count} failures in a row",
        overlap=schedule.overlap,
        missed=schedule.missed,
        count=schedule.max_failures,
    )
    limits = ", ".join(f"{name} {value}" for name, value in schedule.budget.to_json().items())
    if limits:
        yield Sentence("each fire may take {limits}", limits=limits)
    if schedule.approved:
        yield Sentence(
            "runs unattended as plan {hash}, approved by {who}",
            hash=schedule.approved,
            who=safe(schedule.approved_by) or "?",
        )
    for at in coming(schedule, 5):
        yield Sentence("next {time}", time=local(at, schedule.timing.timezone, session.locale))


def fire_lines(fires: Sequence[Fire], zone: str, session: Session) -> Iterator[str]:
    """Yields one line per fire."""
    for fire in fires:
        why = clip(safe(in_language(fire.note, session.locale)), 120)
        kind = "" if fire.kind == "due" else f" ({_state(fire.kind.value, session)})"
        state = (
            f"{local(fire.due, zone, session.locale)}  {_state(fire.state.value, session)}{kind}"
        )
        yield "  ".join(filter(None, (state, fire.run, why)))


def schedules_json(made: Sequence[Schedule]) -> Json:
    """Returns one schedule as an object, several as a list."""
    return schedule_json(made[0]) if len(made) == 1 else [schedule_json(each) for each in made]


class Offer(NamedTuple):
    """A schedule to be approved: its plan and its fields."""

    plan: Plan
    fields: dict[str, Any]

    @property
    def timing(self) -> Timing:
        """When it would fire."""
        timing: Timing | None = self.fields.get("timing") or self.plan.schedule
        if timing is None:
            raise Misconfigured(
                Sentence("no times are given"), hint=Sentence("--cron, --daily, --every or --at")
            )
        return timing

    @property
    def is_several(self) -> bool:
        """Whether the steps of the plan have times of their own."""
        return bool(self.plan.schedules) and self.fields.get("timing") is None

    @property
    def parts(self) -> list[Part]:
        """What would be a schedule each, without what runs once."""
        if not self.is_several:
            return [Part(self.timing, self.plan)]
        return [part for part in parts(self.plan) if part.timing is not None]

    @property
    def timings(self) -> list[Timing]:
        """When it would fire, each time once."""
        return [part.timing for part in self.parts if part.timing is not None]


async def confirmed(session: Session, offer: Offer) -> bool:
    """Shows what would run when, and asks for approval; returns False without it."""
    await _refuse_unusable(session, offer)
    await session.refuse_what_cannot_run(offer.plan)
    session.say(*_lines(session, offer))
    given = vars(session.args).get("approve_plan")
    if given == offer.plan.hash:
        return True
    if given:
        session.say(Sentence("--approve-plan names another plan: this one is not approved"))
    if session.has_person:
        return agrees(
            session.own_text("Run this plan unattended at these times? y = yes, Enter = not now: ")
        )
    return False


def print_waiting(session: Session, offer: Offer) -> int:
    """Says that the schedule needs approval, and how to give it."""
    say_unapproved(session, offer)
    if vars(session.args).get("json"):
        now = session.smith.runs.journals.clock.now()
        shown: list[dict[str, Json]] = [
            {
                "timing": timing.to_json() | {"timezone": timing.timezone},
                "next": [instant(at) for at in next_fires(timing, after=now, count=3)],
            }
            for timing in offer.timings
        ]
        times: dict[str, Json] = {"times": [*shown]} if offer.is_several else shown[0]
        print_json({"hash": offer.plan.hash, **times, "plan": offer.plan.to_json()})
    return Exit.WAITING


def say_unapproved(session: Session, offer: Offer) -> None:
    """Names the command that approves a schedule."""
    unapproved = Sentence("Nothing is scheduled without your approval of this plan:")
    session.say(unapproved, f"  {safe(_approve_command(session, offer))}")


def _approve_command(session: Session, offer: Offer) -> str:
    approval = ("--approve-plan", offer.plan.hash)
    if "run" not in offer.fields:
        return f"… {' '.join(approval)}"
    flags = [] if offer.is_several else _flags(offer.timing)
    source = ("--run", str(offer.fields["run"]), *flags)
    return session.command("schedule", "add", *source, *approval)


def _lines(session: Session, offer: Offer) -> Iterator[str]:
    yield from plan_lines(offer.plan, locale=session.locale)
    yield ""
    now = session.smith.runs.journals.clock.now()
    for timing, plan in offer.parts:
        assert timing is not None  # noqa: S101
        steps = f"{', '.join(safe(step.id) for step in plan.steps)}: " if offer.is_several else ""
        when = safe(in_language(timing.sentence, session.locale))
        yield steps + session.own_text("It would run unattended, {timing}; next:", timing=when)
        for at in next_fires(timing, after=now, count=3):
            yield f"  {local(at, timing.timezone, session.locale)}"
    yield f"  {session.own_text('hash {hash}', hash=offer.plan.hash)}"


def _flags(timing: Timing) -> list[str]:
    """Returns the flags of a timing."""
    ways = {
        "--every": f"{timing.every_minutes}m" if timing.every_minutes else None,
        "--daily": timing.daily_at,
        "--cron": timing.cron,
        "--at": timing.once_at,
    }
    given = [word for flag, value in ways.items() if value for word in (flag, value)]
    return [*given, "--tz", timing.timezone]


async def _refuse_unusable(session: Session, offer: Offer) -> None:
    """Refuses times that cannot be computed, and plans that need a person."""
    for timing, plan in offer.parts:
        if timing is not None:
            check_timing(timing)
        await session.smith.schedules.require_unattended(plan)


async def create_approved(session: Session, offer: Offer, **behaviour: Any) -> list[Schedule]:
    """Creates the schedule with the approval of its plan; one for each time if it has several."""
    schedules, approval = session.smith.schedules, offer.plan.hash
    if not offer.is_several or "run" not in offer.fields:
        fields = offer.fields | behaviour
        return [await schedules.create(**fields, approve=approval, by=session.by)]
    if behaviour or offer.fields.get("name"):
        hint = Sentence(
            "leave it out, and change each schedule afterwards: plansmith schedule change"
        )
        raise Misconfigured(
            Sentence("a plan with several times takes no name and no settings"), hint=hint
        )
    return await schedules.create_each(offer.fields["run"], approve=approval, by=session.by)


async def offer_schedule(session: Session, run: Run) -> int | None:
    """Asks whether a planned request becomes a schedule; None to run it once, now."""
    if run.plan is None or not (run.plan.schedule or run.plan.schedules):
        return None
    timing = None if run.plan.schedules else run.plan.schedule
    offer = Offer(run.plan, {"run": run.id, "timing": timing})
    once = Sentence("to do it once: {command}", command=session.command("go", run.id))
    try:
        await _refuse_unusable(session, offer)
    except (Misconfigured, Refused) as error:
        why = Sentence("this cannot be a schedule: {error}", error=error.message)
        raise Refused(why, hint=once) from None
    if not session.has_person and vars(session.args).get("json"):
        print_json(run_json(run, session))
    session.say(*_lines(session, offer))
    if not session.has_person:
        say_unapproved(session, offer)
        session.say(safe(in_language(once, session.locale)))
        return Exit.WAITING
    prompt = session.own_text(
        "Keep it as a schedule? y = yes, o = only once, now, Enter = not now: "
    )
    typed = (ask_line(prompt) or "").strip()
    if typed.lower() in ("o", "once", "一次"):
        return None
    if read_choice(typed).kind != "yes":
        session.say(Sentence("not approved: {ran}", ran=done_so_far(run, session)))
        return Exit.WAITING
    made = await create_approved(session, offer)
    if vars(session.args).get("json"):
        print_json(schedules_json(made))
    session.say(
        *(
            Sentence("kept as the schedule {name}; this fires what is due:", name=safe(each.name))
            for each in made
        ),
        f"  {session.command('schedule', 'keep')}",
    )
    return Exit.OK
