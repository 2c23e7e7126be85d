"""Shows schedules, and asks for the approval of a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from plansmith import Misconfigured, Plan, Refused, Run
from plansmith.plan.data import Json, json_text
from plansmith.plan.limits import Bound
from plansmith.plan.sentence import Sentence
from plansmith.plan.timed_plans import TimedPlan, plans_by_time
from plansmith.plan.timing import Timing, next_fires, require_valid_timing, zone_of
from plansmith.schedules.schedule import Fire, Schedule
from plansmith.text import clip, safe
from plansmith_cli.command_table import Exit
from plansmith_cli.describe import done_so_far, run_json
from plansmith_cli.interactive import require_runnable, say_unapproved
from plansmith_cli.keyboard import agrees, ask_line, read_choice
from plansmith_cli.session import Session
from plansmith_cli.ui.output import json_of, own, own_text, print_json, refused, wrong
from plansmith_cli.ui.render import plan_lines
from plansmith_cli.ui.terminal import padded, text_width

_JSON_FIELDS: Final = {
    *("id", "name", "reason", "request", "template", "inputs", "approved", "approved_by"),
    *("overlap", "missed", "window_minutes", "jitter_seconds", "max_failures", "by", "folder"),
}


# The flags of a time, and the fields that they set.
WAYS: Final = {
    "every": "every_minutes",
    "daily": "daily_at",
    "cron": "cron",
    "at": "once_at",
    "tz": "timezone",
}


def instant(at: datetime) -> str:
    """Formats a time in UTC, as RFC 3339."""
    kept = "auto" if at.microsecond else "seconds"
    return at.astimezone(UTC).isoformat(timespec=kept).replace("+00:00", "Z")


def local(at: datetime, zone: str) -> str:
    """Formats a time in a time zone."""
    there = at.astimezone(zone_of(zone))
    days = own_text("Mon Tue Wed Thu Fri Sat Sun").split()
    return f"{days[there.weekday()]} {there:%Y-%m-%d %H:%M} {zone}"


def schedule_json(schedule: Schedule, *, count: int = 1) -> dict[str, Json]:
    """Returns a schedule as JSON."""
    fields: dict[str, Json] = schedule.model_dump(mode="json", include=_JSON_FIELDS)
    more: dict[str, Json] = {
        "state": "removed" if schedule.removed else schedule.state,
        "timing": schedule.timing.to_json() | {"timezone": schedule.timing.timezone},
        "plan": schedule.plan.to_json() if schedule.plan else None,
        "budget": schedule.budget.to_json(),
        "bounds": {name: each.to_json() for name, each in schedule.bounds.items()},
        "created": instant(schedule.created),
        "next": [instant(at) for at in schedule.next_times(datetime.now(UTC), count=count)],
    }
    return fields | more


def schedules_json(made: Sequence[Schedule]) -> Json:
    """Returns one schedule as an object, several as a list."""
    return schedule_json(made[0]) if len(made) == 1 else [schedule_json(each) for each in made]


def fire_json(fire: Fire) -> dict[str, Json]:
    """Returns a past fire as JSON."""
    times = {"due": instant(fire.due), "at": instant(fire.at)}
    ended = instant(fire.ended) if fire.ended else None
    return json_of(fire, "kind state run note", **times, ended=ended)


def list_lines(schedules: Sequence[Schedule], here: str) -> Iterator[str]:
    """Yields one line per schedule, with its folder if that is another one."""
    names = [clip(safe(each.name), 40) for each in schedules]
    width = max(map(text_width, names), default=0)
    for name, each in zip(names, schedules, strict=True):
        when = own(each.reason)
        for at in each.next_times(datetime.now(UTC), count=1):
            when = own_text("next {time}", time=local(at, each.timing.timezone))
        state = padded(own_text(f"fire.{each.state}"), 6)
        place = f"  {own(_folder(each))}" if each.folder not in ("", here) else ""
        timing = safe(own(each.timing.sentence))
        yield f"{padded(name, width)}  {state}  {timing}  {clip(safe(when), 80)}{place}"


def _folder(schedule: Schedule) -> Sentence:
    return Sentence("fires in {folder}", folder=safe(schedule.folder))


def schedule_lines(schedule: Schedule, locale: str) -> Iterator[str]:
    """Yields the lines of `plansmith schedule show`."""
    timing = safe(own(schedule.timing.sentence))
    yield f"{safe(schedule.name)}: {own_text(f'fire.{schedule.state}')}, {timing}"
    yield from (f"  {own(line)}" for line in _about(schedule))
    yield ""
    if schedule.plan is not None:
        yield from plan_lines(schedule.plan, locale=locale)
    elif schedule.template:
        yield Sentence("template {name}", name=safe(schedule.template))
    else:
        request = clip(safe(schedule.request), 200)
        yield Sentence("planned anew each time: {request}", request=request)


def _about(schedule: Schedule) -> Iterator[str]:
    if schedule.reason:
        yield clip(safe(own(schedule.reason)), 200)
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
    yield from _bound_lines(schedule.bounds)
    if schedule.approved:
        yield Sentence(
            "runs unattended as plan {hash}, approved by {who}",
            hash=schedule.approved,
            who=safe(schedule.approved_by) or "?",
        )
    for at in schedule.next_times(datetime.now(UTC)):
        yield Sentence("next {time}", time=local(at, schedule.timing.timezone))


def fire_lines(fires: Sequence[Fire], zone: str) -> Iterator[str]:
    """Yields one line per fire."""
    for fire in fires:
        kind = "" if fire.kind == "due" else f" ({own_text(f'fire.{fire.kind.value}')})"
        state = f"{local(fire.due, zone)}  {own_text(f'fire.{fire.state.value}')}{kind}"
        yield "  ".join(filter(None, (state, fire.run, clip(safe(own(fire.note)), 120))))


def _bound_lines(bounds: Mapping[str, Bound]) -> Iterator[str]:
    for tool, bound in bounds.items():
        only: dict[str, Json] = {name: [*values] for name, values in bound.only.items()}
        yield Sentence(
            "each fire may call {tool} {most} times with values of other tools, only: {values}",
            tool=safe(tool),
            most=bound.most,
            values=safe(json_text(only)) if only else "*",
        )


class Offer(NamedTuple):
    """A schedule to be approved: its plan and its fields."""

    plan: Plan
    fields: dict[str, Any]

    @property
    def is_several(self) -> bool:
        return bool(self.plan.schedules) and self.fields.get("timing") is None

    @property
    def bounds(self) -> dict[str, Bound]:
        given: dict[str, Any] = self.fields.get("bounds") or {}
        return {tool: Bound.model_validate(each) for tool, each in given.items()}

    @property
    def timed_plans(self) -> list[tuple[Timing, Plan]]:
        """What would be a schedule each: when, and what; without what runs once."""
        if self.is_several:
            every: list[TimedPlan] = plans_by_time(self.plan)
            return [(timed.timing, timed.plan) for timed in every if timed.timing is not None]
        timing: Timing | None = self.fields.get("timing") or self.plan.schedule
        if timing is None:
            raise wrong("no times are given", "--cron, --daily, --every or --at")
        return [(timing, self.plan)]

    async def show(self, session: Session) -> None:
        """Shows what would run when, and why that is asked; refuses what cannot run unattended."""
        for timing, plan in self.timed_plans:
            require_valid_timing(timing)
            await session.smith.schedules.require_unattended(plan, self.bounds)
        await require_runnable(session, self.plan)
        lines = [*plan_lines(self.plan, locale=session.locale), ""]
        now = session.smith.runs.journals.clock.now()
        for timing, plan in self.timed_plans:
            steps = ", ".join(safe(step.id) for step in plan.steps)
            when = safe(own(timing.sentence))
            line = own_text("It would run unattended, {timing}; next:", timing=when)
            lines.append(f"{steps}: {line}" if self.is_several else line)
            fires = next_fires(timing, after=now, count=3)
            lines += [f"  {local(at, timing.timezone)}" for at in fires]
        lines += (safe(own(line)) for line in _bound_lines(self.bounds))
        asked = await session.smith.runs.intake.review(self.plan)
        lines += [f"  ! {safe(own(why))}" for each in asked for why in each.reasons]
        session.say(*lines, f"  {own_text('hash {hash}', hash=self.plan.hash)}")

    def say_unapproved(self, session: Session) -> None:
        approval = ("--approve-plan", self.plan.hash)
        command = f"… {' '.join(approval)}"
        if "run" in self.fields:
            flags = [] if self.is_several else _flags(self.timed_plans[0][0])
            source = ("--run", str(self.fields["run"]), *flags)
            command = session.command("schedule", "add", *source, *approval)
        unapproved = Sentence("Nothing is scheduled without your approval of this plan:")
        session.say(unapproved, f"  {safe(command)}")


def _flags(timing: Timing) -> list[str]:
    ways = {f"--{flag}": getattr(timing, name) for flag, name in WAYS.items()}
    return [word for flag, value in ways.items() if value for word in (flag, str(value))]


async def is_confirmed(session: Session, offer: Offer) -> bool:
    """Shows what would run when, and asks for approval; without it, says how to give it."""
    await offer.show(session)
    given = session.given("approve_plan")
    if given == offer.plan.hash:
        return True
    if given:
        say_unapproved(session, given, offer.plan.hash)
    prompt = own_text("Run this plan unattended at these times? y = yes, Enter = not now: ")
    if agrees(prompt, asks=session.has_person):
        return True
    offer.say_unapproved(session)
    if session.given("json"):
        now = session.smith.runs.journals.clock.now()
        occurrences: list[dict[str, Json]] = [
            {
                "timing": timing.to_json() | {"timezone": timing.timezone},
                "next": [instant(at) for at in next_fires(timing, after=now, count=3)],
            }
            for timing, _ in offer.timed_plans
        ]
        times: dict[str, Json] = {"times": [*occurrences]} if offer.is_several else occurrences[0]
        print_json({"hash": offer.plan.hash, **times, "plan": offer.plan.to_json()})
    return False


async def create_approved(session: Session, offer: Offer, **behaviour: Any) -> list[Schedule]:
    """Creates the schedule with the approval of its plan; one for each time if it has several."""
    schedules, approval = session.smith.schedules, offer.plan.hash
    if not offer.is_several or "run" not in offer.fields:
        fields = offer.fields | behaviour
        return [await schedules.create(**fields, approve=approval, by=session.by)]
    if behaviour or offer.fields.get("name"):
        raise wrong(
            "a plan with several times takes no name and no settings",
            "leave it out, and change each schedule afterwards: plansmith schedule change",
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
        await offer.show(session)
    except (Misconfigured, Refused) as error:
        raise refused(
            "this cannot be a schedule: {error}", hint=once, error=error.message
        ) from None
    if not session.has_person:
        if session.given("json"):
            print_json(run_json(run, session))
        offer.say_unapproved(session)
        session.say(safe(own(once)))
        return Exit.WAITING
    prompt = own_text("Keep it as a schedule? y = yes, o = only once, now, Enter = not now: ")
    choice = read_choice(ask_line(prompt) or "")
    if choice.text.lower() in ("o", "once", "一次"):
        return None
    if choice.kind != "yes":
        session.say(Sentence("not approved: {ran}", ran=done_so_far(run)))
        return Exit.WAITING
    made = await create_approved(session, offer)
    if session.given("json"):
        print_json(schedules_json(made))
    kept = [
        Sentence("kept as the schedule {name}; this fires what is due:", name=safe(each.name))
        for each in made
    ]
    session.say(*kept, f"  {session.command('schedule', 'keep')}")
    return Exit.OK
