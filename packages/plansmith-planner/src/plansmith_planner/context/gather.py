"""Collects what the planner should know besides the request and tools, as fenced data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from plansmith.plan.earlier import EarlierResult
from plansmith.plan.plan import Plan
from plansmith.plan.planning import PlanRequest
from plansmith.plan.run_options import Profile
from plansmith.plan.sentence import Sentence
from plansmith.plan.timing import zone_of
from plansmith.ports import Clock, ContextBlock, ContextSource, Message
from plansmith_planner.context.background import HEADING, Background
from plansmith_planner.context.fence import fence, indented
from plansmith_planner.context.history import TITLE, recall
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.context.token_budget import Fitted, Part, fit, rendered, rough_count
from plansmith_planner.language.numbers import WEEKDAYS
from plansmith_planner.settings import PlannerSettings

TIME: Final = "current time"
EARLIER: Final = "results of earlier messages"
FOLDER: Final = "folder"  # what is in the working folder, one line a file
FOLDER_NEAR: Final = "more of the folder"  # files the request may mean, if not all are told
_PREVIOUS: Final = "previous plan"
_CHANGES: Final = "changes the person asks for"
# Blocks from which no values may come: the time, and comments on an earlier plan.
_NO_FACTS: Final = frozenset({TIME, _PREVIOUS, _CHANGES})
_PROFILE: Final = ("name", "role", "backstory", "language", "tone")
_LEAST_SHARE: Final = 24  # tokens; a smaller share is useless
_MUST, _SHOULD, _MAY = 0, 1, 2


_NOTHING_KNOWN: Final = PlanRequest("")


class Context(Fitted):
    """The context of a prompt, and notes on what was cut or failed."""

    __slots__ = ()

    @property
    def facts(self) -> tuple[ContextBlock, ...]:
        """The blocks from which values may come: all but the time and comments on a plan."""
        return tuple(block for block in self.blocks if block.title not in _NO_FACTS)


class _Gathered(NamedTuple):
    """One part of the context; `missing` names it if it failed."""

    part: Part = Part(())
    notes: tuple[str, ...] = ()
    missing: str = ""


async def gather_context(
    query: str,
    *,
    clock: Clock,
    known: PlanRequest = _NOTHING_KNOWN,
    earlier: Sequence[EarlierResult] = (),
    sources: Sequence[ContextSource] = (),
    settings: PlannerSettings | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Context:
    """Collects all parts, stable ones first; leaves out sources that fail or are late.

    `earlier` are results of earlier runs that the plan may use.
    """
    settings = settings or PlannerSettings()
    profile, plan, tokens = known.options.profile, known.previous, settings.context_tokens
    # What stays the same from request to request comes first, the time last.
    before = [
        *_parts("profile", about(profile) if profile and profile != Profile() else "", _SHOULD),
        *_parts("constraints of the profile", constraints(profile) if profile else "", _MUST),
    ]
    behind = [
        # No plan is made again from the words of tools without a person.
        *_parts(EARLIER, earlier_text(earlier, words=plan is None), _SHOULD),
        *_parts(_PREVIOUS, plan_text(plan) if plan else "", _MUST),
        *_parts(_CHANGES, known.feedback, _MUST),
        *(Part((block,), _SHOULD) for block in known.findings),
        *_parts(TIME, time_text(clock, settings.timezone), _SHOULD),
    ]
    search = next((each for each in sources if isinstance(each, Background)), None)
    asking = len(sources) + bool(known.options.history)
    marks = rough_count(fence(HEADING, "", "source")) if asking else 0
    used = rough_count(rendered([block for part in (*before, *behind) for block in part.blocks]))
    share = max((tokens - used) // max(asking, 1) - marks, 0)
    tell(
        Sentence(
            "{count} sources to ask, {tokens} tokens for each", count=asking, tokens=f"{share:,}"
        )
    )
    *asked, background = await asyncio.gather(
        *(
            _ask(source, query, share, settings.source_seconds, clock)
            for source in sources
            if source is not search
        ),
        _background(query, search, share),
    )
    gathered = [*asked, _conversation(known.options.history, share), background]
    missing = [each.missing for each in gathered if each.missing]
    parts = [*before, *(each.part for each in gathered), *behind]
    fitted = fit(parts, tokens=tokens, missing=missing)
    notes = (*(note for each in gathered for note in each.notes), *fitted.notes)
    for note in notes:
        tell(note)
    return Context(fitted.blocks, fitted.text, notes)


async def _ask(
    source: ContextSource, query: str, share: int, seconds: float, clock: Clock
) -> _Gathered:
    name = type(source).__name__
    if share < _LEAST_SHARE:
        return _Gathered(notes=(f"no room is left for {name}: not asked",), missing=name)

    async def blocks() -> tuple[ContextBlock, ...]:
        found = await source.gather(query, token_limit=share)
        return tuple(block for block in found if block.text.strip())

    found = await with_timeout(blocks(), seconds=seconds, clock=clock)
    if isinstance(found, Failed):
        return _Gathered(notes=(f"{name} failed: {found.reason}",), missing=f"{name}: no answer")
    return _Gathered(Part(found, _MAY))


def _conversation(history: Sequence[Message], share: int) -> _Gathered:
    if not history:
        return _Gathered()
    recalled = recall(history, tokens=share)
    if recalled.text:
        part = Part((ContextBlock(TITLE, recalled.text),), _MAY, newest_last=True)
        return _Gathered(part, recalled.notes)
    count = len(history)
    note = Sentence("no room is left for the {count} messages of the conversation", count=count)
    return _Gathered(notes=(*recalled.notes, note), missing=TITLE)


async def _background(query: str, search: Background | None, share: int) -> _Gathered:
    if search is None:
        return _Gathered()
    if share < _LEAST_SHARE:
        note = "no room is left for background investigation"
        return _Gathered(notes=(note,), missing=HEADING)
    found = await search.investigate(query, tokens=share)
    return _Gathered(Part(found.blocks, _MAY), found.notes, HEADING if not found.blocks else "")


def _parts(title: str, text: str, rank: int) -> Iterator[Part]:
    if text.strip():
        yield Part((ContextBlock(title, text),), rank)


def about(profile: Profile) -> str:
    """Returns a profile as text, one fact per line, without its constraints."""
    given = {name: cast("str", getattr(profile, name)) for name in _PROFILE}
    facts = [f"{name}: {indented(value)}" for name, value in given.items() if value.strip()]
    return "\n".join([*facts, *_list("goals:", profile.goals), *_list("tasks:", profile.tasks)])


def constraints(profile: Profile) -> str:
    """Returns the constraints of a profile as text; empty if there are none."""
    hard = _list("hard constraints, the plan keeps every one:", profile.hard_constraints)
    soft = _list("soft constraints, kept where possible:", profile.soft_constraints)
    return "\n".join([*hard, *soft])


def _list(heading: str, texts: tuple[str, ...]) -> Iterator[str]:
    if texts:
        yield heading
        yield from (f"- {indented(text)}" for text in texts)


def earlier_text(results: Sequence[EarlierResult], *, words: bool = True) -> str:
    """Returns earlier results, one a line: how a plan names each, and what it is.

    Without `words`, nothing that a tool said is in it.
    """
    lines = [
        {"$from": each.name or each.ref, "is": each.kind, "request": each.request}
        | ({"begins": each.lines} if words else {})
        for each in results
    ]
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def plan_text(plan: Plan) -> str:
    """Returns a plan as JSON, one step per line."""
    value = plan.to_json()
    steps = value.pop("steps")
    head = json.dumps(value, ensure_ascii=False)[:-1]
    listed = steps if isinstance(steps, list) else []
    lines = ",\n".join(json.dumps(step, ensure_ascii=False) for step in listed)
    return f'{head}, "steps": [\n{lines}\n]}}'


def time_text(clock: Clock, timezone: str | None = None) -> str:
    """Returns the time with offset, weekday and time zone."""
    name = timezone or "UTC"
    now = clock.now().astimezone(zone_of(name))
    return f"{now.isoformat(timespec='seconds')} ({WEEKDAYS[now.weekday()]}, {name})"
