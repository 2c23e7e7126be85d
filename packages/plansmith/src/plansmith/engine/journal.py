"""The journal of a run: checks events before it writes them, and waits while the store is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from plansmith.errors import EventMisfit, JournalDamaged, NotFound, StaleWriter, StoreAway
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json
from plansmith.plan.fold import apply, fitting
from plansmith.plan.preview import Preview
from plansmith.plan.run import ReportText, Run, RunStatus
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.plan.summary import RunSummary, summary_of
from plansmith.ports import Clock, Reply, Store

if TYPE_CHECKING:
    from plansmith.engine.lease import HeldClaim

_T = TypeVar("_T")
Write = Callable[[], Awaitable[None]]
_FIRST_WAIT_S: Final = 0.1
_MAX_WAIT_S: Final = 5.0
_CONFIRMATIONS: Final = 3
_MAX_RESULT: Final = 1000


class StoreRetry:
    """Repeats an operation, with growing waits, until the store answers."""

    def __init__(self, clock: Clock, tell: Callable[[str], None]) -> None:
        self._clock, self._tell = clock, tell
        self.trouble = ""

    async def until_done(
        self, action: Callable[[], Awaitable[_T]], away: StoreAway | None = None
    ) -> _T:
        """Returns the action's result once the store answers; until then `trouble` says why.

        `away` is the error of a first try that was made without this.
        """
        wait = _FIRST_WAIT_S
        while True:
            if away is not None:
                if not self.trouble:
                    self._tell(Sentence("waiting for the store: {why}", why=away))
                self.trouble = str(away)
                await self._clock.sleep(wait)
                wait = min(wait * 2, _MAX_WAIT_S)
            try:
                result = await action()
            except StoreAway as error:
                away = error
            else:
                self.answered()
                return result

    def answered(self) -> None:
        """Notes that the store answered again, if it was away."""
        if self.trouble:
            self._tell(Sentence("the store is back"))
            self.trouble = ""


class Damage(NamedTuple):
    """Why a journal is read no further; `beyond` are readable events after its last good one.

    `last` is the number of the last event that was written, even if it cannot be read.
    """

    error: JournalDamaged
    beyond: Sequence[e.Event]
    last: int


class Journal:
    """The journal of one run: `events` are those read and written so far, `run` is their fold.

    An append folds first, then writes, then keeps: memory never has what the store refused. If
    another writer was first, it raises `StaleWriter`: `catch_up`, and decide again.
    """

    def __init__(self, run_id: str, *, store: Store, clock: Clock) -> None:
        self.id = run_id
        self._store, self._clock = store, clock
        # The state of the run; of a damaged one, at its last good event.
        self.run = Run(id=run_id)
        # The summary that was stored with its last event, if this journal wrote it.
        self.summary: RunSummary | None = None
        self.events: list[e.Event] = []
        self.damage: Damage | None = None
        # The claim under which this process executes the run, if it does.
        self.claim: HeldClaim | None = None
        # Waits while the store is away, for whoever executes or plans the run.
        self.retry: StoreRetry | None = None

    @classmethod
    async def load(cls, run_id: str, *, store: Store, clock: Clock) -> Journal:
        """Loads the journal of a run; a damaged one up to its last good event.

        A damaged journal can be read; it accepts no event before it is repaired.
        """
        journal = cls(run_id, store=store, clock=clock)
        await journal.catch_up()
        if not journal.events:
            journal.require_sound()
            raise NotFound(
                Sentence("there is no run '{name}'", name=run_id),
                hint=Sentence("plansmith runs lists them"),
            )
        return journal

    async def catch_up(self) -> Sequence[e.Event]:
        """Reads and returns the events that others have written since."""
        start = len(self.events)
        self._take(*await self._read(start))
        return self.events[start:]

    async def refresh(self) -> bool:
        """Reads what came since; false if what was read before is not what the store has."""
        if self.damage is not None or not self.events:
            return False
        last = self.events[-1]
        events, number, why = await self._read(last.number - 1)
        if not events or events[0].hash != last.hash:
            return False
        self._take(events[1:], number, why)
        return True

    async def _read(self, after: int) -> tuple[Sequence[e.Event], int, str]:
        """Returns the readable events after a number, the last event's number, and the damage."""
        store = self._store
        try:
            events = await self._until_answered(lambda: store.events(self.id, after=after))
        except JournalDamaged as damage:
            sound = await self._until_answered(lambda: store.intact_part(self.id))
            return sound.events[after:], sound.last, sound.damage or damage.message
        return events, 0, ""

    async def _until_answered(self, action: Callable[[], Awaitable[_T]]) -> _T:
        return await (action() if self.retry is None else self.retry.until_done(action))

    def _take(self, events: Sequence[e.Event], last: int, why: str) -> None:
        """Takes events that were read; those up to the first that does not fit."""
        good, last = events, max(last, len(self.events) + len(events))
        try:
            self.run = apply(self.run, events)
        except JournalDamaged as misfit:
            why = misfit.message
            good = fitting(events, self.run)
            self.run = apply(self.run, good)
        self.events += good
        self._note_damage(why, events[len(good) :], last)

    def _note_damage(self, why: str, beyond: Sequence[e.Event], last: int) -> None:
        """Notes why the journal is read no further, also in the run; or that it is sound."""
        self.damage, text = None, ""
        if why:
            hint = Sentence("none of its events can be read: restore the store from a backup")
            if self.events:
                hint = Sentence(
                    "`plansmith store repair {run}` continues after event "
                    "{number} and keeps a copy of the rest",
                    run=self.id,
                    number=len(self.events),
                )
            error = JournalDamaged(why, hint=hint)
            self.damage, text = Damage(error, beyond, last), _text(error)
        if self.run.damage != text:
            self.run = self.run.replace(damage=text)

    def require_sound(self) -> None:
        """Raises `JournalDamaged` if the journal is damaged; it says why and what to do."""
        if self.damage is not None:
            raise self.damage.error

    def rewind(self, number: int, why: str) -> None:
        """Marks the journal as damaged from an event on, and goes back to before it."""
        events, self.events = self.events, self.events[: number - 1]
        self.run = apply(Run(id=self.id), self.events)
        self._note_damage(why, events[number - 1 :], len(events))

    def copy(self) -> Journal:
        """Returns a journal that has read the same, for another writer; it owns nothing."""
        copied = copy(self)
        vars(copied).update(events=[*self.events], claim=None, retry=None)
        return copied

    async def wait(self) -> None:
        """Returns when the store has an event that was not read yet."""
        await self._until_answered(lambda: self._store.wait(self.id, after=len(self.events)))

    async def value_of(self, body: e.AnyBody) -> Json:
        """Returns the stored value that an event refers to, if any."""
        match body:
            case e.StepDone(result=digest) | e.StepReplied(state=digest, permit=False):
                return await self.value(digest)
            case e.StepFailed(result=digest) if digest:
                return await self.value(digest)
            case _:
                return None

    async def value(self, digest: str) -> Json:
        """Returns a stored value by its hash."""
        return await self._until_answered(lambda: self._store.get(digest))

    async def append(
        self,
        *bodies: e.Entry,
        by: e.Actor = e.SYSTEM,
        values: Sequence[Json | Content] = (),
        at: datetime | None = None,
    ) -> list[e.Event]:
        """Writes events and the values they refer to, all or none, durable on return.

        An entry may name its actor, else it is `by`. `at` is their time, by default now.
        """
        self.require_sound()
        # Check: they fold, or nothing is stored.
        last = self.run.last
        events = self._next_events(bodies, by, at)
        try:
            later = apply(self.run, events)
        except JournalDamaged as misfit:
            hint = Sentence("nothing was stored; the run is unchanged")
            raise EventMisfit(misfit.message, hint=hint) from None
        # While steps of one plan run, nobody needs another summary.
        status = later.status
        same = status is RunStatus.RUNNING and later.plan is self.run.plan
        summary = None if same else summary_of(later)
        # Write, under the term of the claim.
        claim = self.claim
        term = claim.term if claim is not None else 0
        began = self.now()
        write = partial(
            self._store.append, events, values, status=status.value, summary=summary, term=term
        )
        try:
            await write()
        except (StaleWriter, StoreAway) as error:
            await self._write_after(error, events, write)
        if self.retry is not None and self.retry.trouble:
            self.retry.answered()
        # Keep.
        if self.run.last is last:  # else they were read back already
            self.run, self.summary = later, summary
            self.events += events
        await self.keep_claim(began)
        return events

    async def _write_after(
        self, error: StaleWriter | StoreAway, events: Sequence[e.Event], write: Write
    ) -> None:
        """Writes events once the store answers; raises the error if others were first."""
        try:
            if isinstance(error, StaleWriter) or self.retry is None:
                raise error
            await self.retry.until_done(partial(self._write_again, events, write), error)
        except StaleWriter:
            after = len(self.events)
            if await self._until_answered(lambda: self._store.events(self.id, after=after)):
                raise
            # Nothing follows ours: the end of the journal was set aside.
            raise JournalDamaged(
                Sentence("run {run} was repaired meanwhile", run=self.id),
                hint=Sentence("load the run again and repeat the decision"),
            ) from None

    async def _write_again(self, events: Sequence[e.Event], write: Write) -> None:
        """Writes events, unless exactly these are stored: then only the answer was lost."""
        try:
            await write()
        except StaleWriter:
            after = events[0].number - 1 if events else len(self.events)
            found = await self._store.events(self.id, after=after)
            if [each.hash for each in found[: len(events)]] != [each.hash for each in events]:
                raise

    def drop_claim(self) -> None:
        """Writes under no claim once it is released; under a lost one every write is refused."""
        if self.claim is not None and not self.claim.term:
            self.claim = None

    def now(self) -> float:
        """Returns the time by which claims are kept; 0 without a claim."""
        return self.claim.lease.now() if self.claim is not None else 0.0

    async def keep_claim(self, since: float) -> None:
        """Makes sure that this process still owns the run, if it may have been stopped since."""
        claim = self.claim
        if claim is None or not claim.lease.may_be_over(since):
            return
        for _ in range(_CONFIRMATIONS):  # it may be stopped again, or the store may be slow
            began = claim.lease.now()
            await self._until_answered(claim.confirm)
            if not claim.lease.may_be_over(began):
                return

    def _next_events(
        self, bodies: Sequence[e.Entry], by: e.Actor = e.SYSTEM, at: datetime | None = None
    ) -> list[e.Event]:
        """Returns the events that follow the last one."""
        at = at or self._clock.now()
        return e.next_events(bodies, run=self.id, by=by, at=at, last=self.run.last)

    def following(self, *entries: e.Entry) -> list[e.Event]:
        """Returns the events that could follow the last one, without those that do not fit."""
        if self._fits(entries):  # nearly always; one by one takes quadratic time
            return self._next_events(entries)
        accepted: list[e.Entry] = []
        for each in entries:
            accepted += [each] if self._fits([*accepted, each]) else []
        return self._next_events(accepted)

    def _fits(self, entries: Sequence[e.Entry]) -> bool:
        try:
            apply(self.run, self._next_events(entries))
        except JournalDamaged:
            return False
        return True

    @property
    def last(self) -> int:
        """Returns the number of the last event that was written, even if it cannot be read."""
        return len(self.events) if self.damage is None else self.damage.last

    @property
    def plan_hash(self) -> str:
        """Returns the hash of the run's plan; empty without one."""
        return self.run.plan.hash if self.run.plan is not None else ""

    def keep_results(self, whole: Run) -> None:
        """Keeps the short results of a run that was read, so that no answer reads them all again.

        Its reader could change lists and objects: these are read anew.
        """
        steps = self.run.steps
        read = {name: whole.steps[name].result for name in steps.index.unread}
        kept = {
            name: each
            for name, each in read.items()
            if not isinstance(each, dict | list) and len(str(each)) <= _MAX_RESULT
        }
        if kept and whole.last is self.run.last and not whole.damage:
            self.run = self.run.replace(steps=steps.with_results(kept))


def _text(damage: JournalDamaged) -> str:
    return with_hint(damage.message, damage.hint)


async def whole_run(store: Store, run: Run, results: Mapping[str, Json] | None = None) -> Run:
    """Returns a run with its results and stored report; loads results that are not given."""
    steps = run.steps
    if results is None:
        try:
            unread = {name: steps[name].result_hash for name in steps.index.unread}
            results = await _load(store, unread)
        except JournalDamaged as damage:
            # The rest of the run can still be shown.
            results = await readable_results(store, run)
            run = run.replace(damage=run.damage or _text(damage))
    run = run.replace(preview=await load_preview(store, run)) if run.previewed else run
    if run.answer_hash:
        run = run.replace(report_text=ReportText(str(await store.get(run.answer_hash))))
    return run.replace(steps=steps.with_results(results)) if results else run


async def load_preview(store: Store, run: Run) -> Preview | None:
    """Loads what a person sees of a plan before the approval, if it was previewed."""
    if run.previewed is None:
        return None
    found = Preview.model_validate(await store.get(run.previewed.content))
    return found.replace(hash=run.previewed.approval)


async def load_results(store: Store, run: Run) -> dict[str, Json]:
    """Loads the results of all finished steps, with one query."""
    done = {
        name: step.result_hash
        for name, step in run.steps.items()
        if step.result_hash and step.counts_as_done
    }
    return await _load(store, done)


async def _load(store: Store, digests: Mapping[str, str]) -> dict[str, Json]:
    if not digests:
        return {}
    return dict(zip(digests, await store.get_many([*digests.values()]), strict=True))


async def readable_results(store: Store, run: Run) -> dict[str, Json]:
    """Loads the results of a damaged run that can still be read."""
    results: dict[str, Json] = {}
    for name, step in run.steps.items():
        if step.counts_as_done and step.result_hash:
            with suppress(JournalDamaged):
                results[name] = await store.get(step.result_hash)
    return results


async def load_call_answers(store: Store, run: Run) -> dict[str, Reply]:
    """Loads the answers to questions of calls, with the state that the calls left."""
    return {
        name: Reply(step.reply.answer, await store.get(step.reply.state))
        for name, step in run.steps.items()
        if step.reply is not None
    }


async def load_values(store: Store, run: Run) -> dict[str, Json]:
    """Loads what references of a run's plan can use: its results, and those of earlier runs.

    A result of an earlier run that is gone or was altered is left out: what uses it fails.
    """
    values = await load_results(store, run)
    for ref, digest in run.pins.items():
        with suppress(JournalDamaged):
            values[ref] = await store.get(digest)
    return values
