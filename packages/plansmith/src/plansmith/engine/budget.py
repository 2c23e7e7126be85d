"""Reserves the budget before each call and settles it after; asks when a limit is reached."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan.briefs import total
from plansmith.plan.data import Json
from plansmith.plan.events import AnyBody, CancelAsked, LimitName, QuestionAsked, RunResumed
from plansmith.plan.fold import GO_ON
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock, PlanStore, Usage

STOP: Final = "stop"
OPTIONS: Final = (GO_ON, STOP)


def limit_question(run: Run, limit: LimitName, text: str) -> QuestionAsked:
    """Returns the question whether to go on beyond a limit; each time it has a new name."""
    number = run.grants.get(limit, 0) + 1
    name = f"{limit}:{number}"
    return QuestionAsked(question=name, text=text, options=OPTIONS, kind="limit", limit=limit)


def settle_limit(limit: LimitName, value: Json) -> list[AnyBody]:
    """Returns the events that follow from the answer to a question about a limit."""
    if value not in OPTIONS:
        raise Refused(Sentence("'{value}' is not one of {names}", value=value, names=[*OPTIONS]))
    paused = [RunResumed()] if limit in ("budget", "shared_budget") else list[AnyBody]()
    if value == GO_ON or limit in ("replans", "iterations"):
        return [*paused]
    return [
        *paused,
        CancelAsked(reason=Sentence("the limit of {limit}", limit=Sentence(f"limit.{limit}"))),
    ]


__all__ = ["Budget", "BudgetLimits", "CallReservations", "Refusal", "Reservation"]

GUESSES: Final[Mapping[str, int]] = {"agent": 6000, "reply": 1500, "replan": 8000}
_NO_LIMITS: Final = (None, None, None, None)
NOTHING_USED: Final = Usage()
_FREE: Final = frozenset({"ask", "map", "plan"})


def multiplied(limits: BudgetLimits, factor: int) -> BudgetLimits:
    """Returns the limits, multiplied."""
    if factor == 1:  # the usual case, before every call
        return limits
    given = ((name, value) for name, value in limits if value is not None)
    return BudgetLimits.model_construct(**{name: value * factor for name, value in given})


class Reservation(NamedTuple):
    """The most that one call is expected to use."""

    tokens: int = 0
    money: Decimal = Decimal(0)


def _add_up(one: Reservation, two: Reservation) -> Reservation:
    return Reservation(one.tokens + two.tokens, one.money + two.money)


class Refusal(NamedTuple):
    """The limit that a call would exceed, and a text with the amount."""

    limit: LimitName
    amount: str


class Budget:
    """Counts what was spent against limits. Unknown prices count as zero; tokens still count."""

    def __init__(
        self,
        limits: BudgetLimits,
        *,
        parent: Budget | None = None,
        price_per_million: Decimal | None = None,
    ) -> None:
        self.limits = limits
        self._parent = parent
        self._price = (price_per_million or Decimal(0)) / 1_000_000
        self._grants = 0
        self.steps = 0
        self.tokens = 0
        self.money = Decimal(0)
        self._reserved = Reservation()

    @classmethod
    def of_run(
        cls,
        limits: BudgetLimits,
        run: Run,
        *,
        parent: Budget | None = None,
        price_per_million: Decimal | None = None,
    ) -> Budget:
        """Returns the budget of a run with what it has spent; each extension adds the limit."""
        allowed = multiplied(limits, run.grants.get("budget", 0) + 1)
        budget = cls(allowed, parent=parent, price_per_million=price_per_million)
        budget.steps, budget.tokens, budget.money = run.calls, run.tokens, run.money
        return budget

    @property
    def is_unlimited(self) -> bool:
        """Whether neither it nor a budget it is part of has a limit."""
        own = self.limits
        limits = own.money, own.tokens, own.steps, own.seconds
        return limits == _NO_LIMITS and (self._parent is None or self._parent.is_unlimited)

    def restart(self, *, calls: int, tokens: int, money: Decimal, grants: int) -> None:
        """Sets what was spent, plus what running calls have reserved."""
        self.steps, self._grants = calls, grants
        self.tokens, self.money = tokens + self._reserved.tokens, money + self._reserved.money

    def reservation(self, tokens: int) -> Reservation:
        """Returns the reservation for this many tokens, at the highest price seen so far."""
        return Reservation(tokens, tokens * self._price)

    def reserve(self, reservation: Reservation, *, seconds: float = 0.0) -> Refusal | None:
        """Reserves the budget of a call; returns a refusal if a limit would be exceeded."""
        amount = self._used_up(reservation, seconds)
        if amount:
            return Refusal("budget", amount)
        if self._parent is not None:
            refusal = self._parent.reserve(reservation)
            if refusal is not None:
                return Refusal("shared_budget", refusal.amount)
        self._add(1, reservation.tokens, reservation.money)
        self._reserved = _add_up(self._reserved, reservation)
        return None

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Replaces what was reserved by what was used."""
        used = usage.input_tokens + usage.output_tokens
        cost = usage.cost or Decimal(0)
        if used:
            self._price = max(self._price, cost / used)
        self._add(0, used - reservation.tokens, cost - reservation.money)
        self._reserved = _add_up(
            self._reserved, Reservation(-reservation.tokens, -reservation.money)
        )
        if self._parent is not None:
            self._parent.settle(reservation, usage)

    def _add(self, steps: int, tokens: int, money: Decimal) -> None:
        self.steps += steps
        self.tokens += tokens
        self.money += money

    def _used_up(self, reservation: Reservation, seconds: float) -> str:
        limits = multiplied(self.limits, self._grants + 1)
        if limits.steps is not None and self.steps + 1 > limits.steps:
            return Sentence("{count} calls", count=limits.steps)
        if limits.seconds is not None and seconds > limits.seconds:
            return Sentence("{count} seconds", count=f"{limits.seconds:g}")
        if limits.tokens is not None and self.tokens + reservation.tokens > limits.tokens:
            return Sentence("{count} tokens", count=limits.tokens)
        if limits.money is not None and self.money + reservation.money > limits.money:
            return Sentence("${amount}", amount=str(limits.money))
        return ""


class CallReservations:
    """The budget of one run as its executor uses it: one reservation a call."""

    def __init__(self, budget: Budget | None, run: Run, clock: Clock) -> None:
        # A budget without limits refuses nothing: not worth counting before every call.
        self._budget = None if budget is None or budget.is_unlimited else budget
        self.is_limited = self._budget is not None
        self._run = run
        self._clock = clock
        self._reservations: dict[str, Reservation] = {}
        self._spent: dict[str, Usage] = {}

    def reserve(self, name: str, kind: str) -> Refusal | None:
        """Reserves the budget of a call; returns a refusal if a limit would be exceeded."""
        if self._budget is None or kind in _FREE:
            return None
        started = self._run.started_at or self._clock.now()
        reservation = self._budget.reservation(GUESSES.get(kind, 0))
        seconds = (self._clock.now() - started).total_seconds()
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
        if min(tokens) < 0 or not cost.is_finite() or cost < 0:
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
        if refusal.limit == "shared_budget":
            text = Sentence(
                "The budget of all runs, {amount}, is used up. Go on with as much again?",
                amount=refusal.amount,
            )
        else:
            text = Sentence(
                "The budget, {amount}, is used up. Go on with as much again?", amount=refusal.amount
            )
        return limit_question(self._run, refusal.limit, text)


class _Spent(NamedTuple):
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    grants: int = 0


class Spending:
    """Counts what all runs have spent; reads only the journals that changed since last time."""

    def __init__(self, store: PlanStore, clock: Clock, shared: Budget) -> None:
        self._store = store
        self._clock = clock
        self._shared = shared
        self._position = 0
        self._spent: dict[str, _Spent] = {}

    async def count(self) -> None:
        """Updates the shared budget from the store, if it has a limit."""
        if self._shared.limits == BudgetLimits():
            return
        changed: set[str] = set()
        while news := await self._store.news(self._position):
            changed |= {each.run for each in news}
            self._position = news[-1].position
        for run in changed:
            self._spent[run] = await self._of(run)
        every = self._spent.values()
        self._shared.restart(
            calls=sum(each.calls for each in every),
            tokens=sum(each.tokens for each in every),
            money=sum((each.money for each in every), Decimal(0)),
            grants=sum(each.grants for each in every),
        )

    async def _of(self, run_id: str) -> _Spent:
        try:
            journal = await Journal.load(run_id, store=self._store, clock=self._clock)
        except JournalDamaged:
            return self._spent.get(run_id, _Spent())
        run: Run = journal.run
        return _Spent(run.calls, run.tokens, run.money, run.grants.get("shared_budget", 0))


class RunBudgets:
    """Returns the budget of each run, and counts what all runs of the store have spent."""

    def __init__(
        self,
        store: PlanStore,
        clock: Clock,
        *,
        price_per_million: Decimal | None = None,
        limits: BudgetLimits | None = None,
        shared: BudgetLimits | None = None,
    ) -> None:
        self.limits = limits or BudgetLimits()
        self._price = price_per_million
        self._shared = Budget(shared or BudgetLimits())
        self._has_shared = self._shared.limits != BudgetLimits()
        self._spending = Spending(store, clock, self._shared)

    async def count(self) -> None:
        """Updates the shared budget from the store."""
        if self._has_shared:
            await self._spending.count()

    def of(self, run: Run) -> Budget:
        """Returns the budget of a run: by its own limits if it has some, else by the default."""
        limits = run.options.budget or self.limits
        return Budget.of_run(limits, run, parent=self._shared, price_per_million=self._price)
