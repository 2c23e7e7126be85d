"""Reserves the budget before each call and settles it after; asks when a limit is reached."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple, TypedDict

from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import question_options as options
from plansmith.plan.briefs import total
from plansmith.plan.data import Json
from plansmith.plan.events import AnyBody, CancelAsked, LimitName, QuestionAsked, RunResumed
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock, Store, Usage

GUESSES: Final[Mapping[str, int]] = {"agent": 6000, "reply": 1500, "replan": 8000}
NOTHING_USED: Final = Usage()
_MAX_COST: Final = Decimal(10**12)
_NO_LIMITS: Final = (None, None, None, None)


def limit_question(run: Run, limit: LimitName, text: str) -> QuestionAsked:
    """Returns the question whether to go on beyond a limit; each time it has a new name."""
    name = f"{limit}:{run.grants.get(limit, 0) + 1}"
    return QuestionAsked(
        question=name, text=text, options=options.LIMIT_OPTIONS, kind="limit", limit=limit
    )


def events_after_limit(limit: LimitName, value: Json) -> list[AnyBody]:
    """Returns the events that follow from the answer to a question about a limit."""
    if value not in options.LIMIT_OPTIONS:
        raise Refused(
            Sentence("'{value}' is not one of {names}", value=value, names=[*options.LIMIT_OPTIONS])
        )
    bodies: list[AnyBody] = [RunResumed()] if limit in ("budget", "shared_budget") else []
    if value == options.STOP and limit not in ("replans", "iterations"):
        reason = Sentence("the limit of {limit}", limit=Sentence(f"limit.{limit}"))
        bodies.append(CancelAsked(reason=reason))
    return bodies


class Spent(TypedDict):
    """What a call used, as fields of an event; an unknown price is empty."""

    tokens: int
    cost: str


def spending(usage: Usage) -> Spent:
    """Returns what a call used, as fields of an event."""
    cost = "" if usage.cost is None else str(usage.cost)
    return {"tokens": usage.input_tokens + usage.output_tokens, "cost": cost}


class Reservation(NamedTuple):
    """The most that one call is expected to use."""

    tokens: int = 0
    money: Decimal = Decimal(0)


class Refusal(NamedTuple):
    """The limit that a call would exceed, and a text with the amount."""

    limit: LimitName
    amount: str


class Budget:
    """Counts what was spent against limits, as often as they were granted.

    Unknown prices count as zero; tokens still count. A budget may be part of a `shared` one.
    """

    def __init__(
        self,
        limits: BudgetLimits,
        *,
        shared: Budget | None = None,
        price_per_million: Decimal | None = None,
    ) -> None:
        self.limits, self._shared = limits, shared
        self._price = (price_per_million or Decimal(0)) / 1_000_000
        self.steps, self.tokens, self.money = 0, 0, Decimal(0)
        self.allowances = 1  # how often the limits may be used: once, and once for each grant
        self._reserved_tokens, self._reserved_money = 0, Decimal(0)

    @property
    def is_unlimited(self) -> bool:
        """Whether neither it nor a budget it is part of has a limit."""
        own = self.limits
        limits = own.money, own.tokens, own.steps, own.seconds
        return limits == _NO_LIMITS and (self._shared is None or self._shared.is_unlimited)

    def set_spent(self, *, calls: int, tokens: int, money: Decimal, grants: int = 0) -> None:
        """Sets what was spent, plus what running calls have reserved."""
        self.steps, self.allowances = calls, grants + 1
        self.tokens, self.money = tokens + self._reserved_tokens, money + self._reserved_money

    def reservation(self, tokens: int) -> Reservation:
        """Returns the reservation for this many tokens, at the highest price seen so far."""
        return Reservation(tokens, tokens * self._price)

    def reserve(self, reservation: Reservation, *, seconds: float = 0.0) -> Refusal | None:
        """Reserves the budget of a call; returns a refusal if a limit would be exceeded."""
        amount = self._used_up(reservation, seconds)
        if amount:
            return Refusal("budget", amount)
        refusal = self._shared.reserve(reservation) if self._shared is not None else None
        if refusal is not None:
            return Refusal("shared_budget", refusal.amount)
        self.steps += 1
        self._add(*reservation)
        self._reserved_tokens += reservation.tokens
        self._reserved_money += reservation.money
        return None

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Replaces what was reserved by what was used."""
        used, cost = usage.input_tokens + usage.output_tokens, usage.cost or Decimal(0)
        if used:
            self._price = max(self._price, cost / used)
        self._add(used - reservation.tokens, cost - reservation.money)
        self._reserved_tokens -= reservation.tokens
        self._reserved_money -= reservation.money
        if self._shared is not None:
            self._shared.settle(reservation, usage)

    def _add(self, tokens: int, money: Decimal) -> None:
        self.tokens += tokens
        self.money += money

    def _used_up(self, reservation: Reservation, seconds: float) -> str:
        limits, times = self.limits, self.allowances
        if limits.steps is not None and self.steps + 1 > limits.steps * times:
            return Sentence("{count} calls", count=limits.steps * times)
        if limits.seconds is not None and seconds > limits.seconds * times:
            return Sentence("{count} seconds", count=f"{limits.seconds * times:g}")
        if limits.tokens is not None and self.tokens + reservation.tokens > limits.tokens * times:
            return Sentence("{count} tokens", count=limits.tokens * times)
        if limits.money is not None and self.money + reservation.money > limits.money * times:
            return Sentence("${amount}", amount=str(limits.money * times))
        return ""


class CallReservations:
    """The budget of one run as its executor uses it: one reservation a call."""

    def __init__(self, budget: Budget | None, journal: Journal, clock: Clock) -> None:
        # A budget without limits refuses nothing: not worth counting before every call.
        self._budget = None if budget is None or budget.is_unlimited else budget
        self.is_limited = self._budget is not None
        self._journal, self._clock = journal, clock
        self._reservations: dict[str, Reservation] = {}
        self._spent: dict[str, Usage] = {}

    def reserve(self, name: str, kind: str) -> Refusal | None:
        """Reserves the budget of a call; returns a refusal if a limit would be exceeded."""
        if self._budget is None:
            return None
        now, run = self._clock.now(), self._journal.run
        seconds = (now - (run.started_at or now)).total_seconds()
        self._budget.allowances = run.grants.get("budget", 0) + 1
        reservation = self._budget.reservation(GUESSES.get(kind, 0))
        refusal = self._budget.reserve(reservation, seconds=seconds)
        if refusal is None:
            self._reservations[name] = reservation
        return refusal

    def spend(self, name: str, usage: Usage) -> None:
        """Adds what a call has used; negative amounts are an error."""
        tokens = (usage.input_tokens, usage.output_tokens)
        cost = usage.cost if usage.cost is not None else Decimal(0)
        if any(type(each) is not int for each in tokens):  # whatever a tool has put there
            raise ValueError(f"tokens are whole numbers, not {tokens}")
        is_amount = type(cost) is Decimal and cost.is_finite() and 0 <= cost <= _MAX_COST
        if min(tokens) < 0 or not is_amount:
            raise ValueError(f"a call cannot use {usage.input_tokens} tokens for ${cost}")
        self._spent[name] = total(self._spent.get(name, NOTHING_USED), usage)

    def settle(self, name: str) -> Usage:
        """Ends a call: replaces its reservation by what it used, and returns that."""
        if not self._spent and not self._reservations:
            return NOTHING_USED
        usage = self._spent.pop(name, NOTHING_USED)
        reservation = self._reservations.pop(name, None)
        if self._budget is not None and reservation is not None:
            self._budget.settle(reservation, usage)
        return usage

    def close(self) -> None:
        """Settles every call that has not ended, so that nothing stays reserved."""
        for name in [*self._reservations]:
            self.settle(name)

    def question(self, refusal: Refusal) -> QuestionAsked:
        """Returns the question whether to go on beyond the limit."""
        text = Sentence(
            "The {limit}, {amount}, is used up. Go on with as much again?",
            limit=Sentence(f"limit.{refusal.limit}"),
            amount=refusal.amount,
        )
        return limit_question(self._journal.run, refusal.limit, text)


class RunBudgets:
    """Returns the budget of each run, and counts what all runs of the store have spent."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        price_per_million: Decimal | None = None,
        limits: BudgetLimits | None = None,
        shared: BudgetLimits | None = None,
    ) -> None:
        self.limits = limits or BudgetLimits()
        self._store, self._clock, self._price = store, clock, price_per_million
        self._shared = Budget(shared or BudgetLimits())
        self._position = 0
        self._spent: dict[str, tuple[int, int, Decimal, int]] = {}

    async def count(self) -> None:
        """Updates the shared budget, if it has a limit, from the journals that changed."""
        if self._shared.is_unlimited:
            return
        changed: set[str] = set()
        while news := await self._store.news(self._position):
            changed |= {each.run for each in news}
            self._position = news[-1].position
        for name in changed:
            try:
                journal = await Journal.load(name, store=self._store, clock=self._clock)
            except JournalDamaged:
                continue  # it counts as it was
            run = journal.run
            grants = run.grants.get("shared_budget", 0)
            self._spent[name] = run.calls, run.tokens, run.money, grants
        spent = self._spent.values()
        self._shared.set_spent(
            calls=sum(calls for calls, _, _, _ in spent),
            tokens=sum(tokens for _, tokens, _, _ in spent),
            money=sum((money for _, _, money, _ in spent), Decimal(0)),
            grants=sum(grants for _, _, _, grants in spent),
        )

    def of(self, run: Run) -> Budget:
        """Returns the budget of a run with what it has spent, by its own limits if it has some."""
        limits = run.options.budget or self.limits
        budget = Budget(limits, shared=self._shared, price_per_million=self._price)
        budget.set_spent(calls=run.calls, tokens=run.tokens, money=run.money)
        return budget
