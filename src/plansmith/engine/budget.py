"""Reserves the budget before each call and settles it after; asks when a limit is reached."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import AnyBody, CancelAsked, LimitName, QuestionAsked, RunResumed
from plansmith.plan.fold import GO_ON
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.planner.model_calls import total
from plansmith.ports import Clock, PlanStore, Usage

STOP: Final = "stop"
OPTIONS: Final = (GO_ON, STOP)


# The name that programs of earlier releases import.
RunLimits = Limits


def limit_question(run: Run, limit: LimitName, text: str) -> QuestionAsked:
    """Ask whether to go on beyond a limit; each time is a question of its own."""
    number = run.grants.get(limit, 0) + 1
    name = f"{limit}:{number}"
    return QuestionAsked(question=name, text=text, options=OPTIONS, kind="limit", limit=limit)


def settle_limit(limit: LimitName, value: Json) -> list[AnyBody]:
    """What follows from the person's word on a limit."""
    if value not in OPTIONS:
        raise Refused(f"{value!r} is not one of {', '.join(OPTIONS)}")
    paused = [RunResumed()] if limit in ("budget", "shared_budget") else list[AnyBody]()
    if value == GO_ON or limit in ("replans", "iterations"):
        return [*paused]
    return [*paused, CancelAsked(reason=Sentence("cancel.limit", limit=Sentence(f"limit.{limit}")))]


__all__ = ["Budget", "BudgetLimits", "Refusal", "Reservation", "RunBudget"]

GUESSES: Final[Mapping[str, int]] = {"agent": 6000, "reply": 1500, "replan": 8000}
_FREE: Final = frozenset({"ask", "map", "plan"})


def times(limits: BudgetLimits, factor: int) -> BudgetLimits:
    """The same limits, several times over."""
    if factor == 1:  # the usual case, before every call
        return limits
    given = ((name, value) for name, value in limits if value is not None)
    return BudgetLimits.model_construct(**{name: value * factor for name, value in given})


class Reservation(NamedTuple):
    """What one call may take at most."""

    tokens: int = 0
    money: Decimal = Decimal(0)


def _sum(one: Reservation, two: Reservation) -> Reservation:
    return Reservation(one.tokens + two.tokens, one.money + two.money)


class Refusal(NamedTuple):
    """The limit that stands in the way of a call, and in words what is used up."""

    limit: LimitName
    amount: str


class Budget:
    """What is left. A price that nobody knows counts nothing: then the token limit holds."""

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
        """The budget of a run that has been going on: each granted extension adds the limit."""
        allowed = times(limits, run.grants.get("budget", 0) + 1)
        budget = cls(allowed, parent=parent, price_per_million=price_per_million)
        budget.steps, budget.tokens, budget.money = run.calls, run.tokens, run.money
        return budget

    def restart(self, *, calls: int, tokens: int, money: Decimal, grants: int) -> None:
        """Begin from what is known to be spent; what calls under way may take comes on top."""
        self.steps, self._grants = calls, grants
        self.tokens, self.money = tokens + self._reserved.tokens, money + self._reserved.money

    def wish(self, tokens: int) -> Reservation:
        """What a call of about so many tokens may take, at the highest price seen so far."""
        return Reservation(tokens, tokens * self._price)

    def reserve(self, wish: Reservation, *, seconds: float = 0.0) -> Refusal | None:
        """Take a call's share, or say which limit stands in the way; nothing is taken then."""
        amount = self._used_up(wish, seconds)
        if amount:
            return Refusal("budget", amount)
        if self._parent is not None:
            refusal = self._parent.reserve(wish)
            if refusal is not None:
                return Refusal("shared_budget", refusal.amount)
        self._add(1, wish.tokens, wish.money)
        self._reserved = _sum(self._reserved, wish)
        return None

    def settle(self, wish: Reservation, usage: Usage) -> None:
        """Replace what was reserved by what was used."""
        used = usage.input_tokens + usage.output_tokens
        cost = usage.cost or Decimal(0)
        if used:
            self._price = max(self._price, cost / used)
        self._add(0, used - wish.tokens, cost - wish.money)
        self._reserved = _sum(self._reserved, Reservation(-wish.tokens, -wish.money))
        if self._parent is not None:
            self._parent.settle(wish, usage)

    def _add(self, steps: int, tokens: int, money: Decimal) -> None:
        self.steps += steps
        self.tokens += tokens
        self.money += money

    def _used_up(self, wish: Reservation, seconds: float) -> str:
        limits = times(self.limits, self._grants + 1)
        if limits.steps is not None and self.steps + 1 > limits.steps:
            return Sentence("amount.calls", count=limits.steps)
        if limits.seconds is not None and seconds > limits.seconds:
            return Sentence("amount.seconds", count=f"{limits.seconds:g}")
        if limits.tokens is not None and self.tokens + wish.tokens > limits.tokens:
            return Sentence("amount.tokens", count=limits.tokens)
        if limits.money is not None and self.money + wish.money > limits.money:
            return Sentence("amount.money", amount=str(limits.money))
        return ""


class RunBudget:
    """The budget of one run as its conductor uses it: a reservation a call."""

    def __init__(self, budget: Budget | None, run: Run, clock: Clock) -> None:
        self._budget = budget
        self._run = run
        self._clock = clock
        self._wishes: dict[str, Reservation] = {}
        self._spent: dict[str, Usage] = {}

    def reserve(self, name: str, kind: str) -> Refusal | None:
        """Take the share of a call, or say which limit stands in the way."""
        if self._budget is None or kind in _FREE:
            return None
        started = self._run.started_at or self._clock.now()
        wish = self._budget.wish(GUESSES.get(kind, 0))
        seconds = (self._clock.now() - started).total_seconds()
        refusal = self._budget.reserve(wish, seconds=seconds)
        if refusal is None:
            self._wishes[name] = wish
        return refusal

    def spend(self, name: str, usage: Usage) -> None:
        """A call says what it has used; what no call can use would make room for others."""
        tokens = (usage.input_tokens, usage.output_tokens)
        cost = usage.cost if usage.cost is not None else Decimal(0)
        if min(tokens) < 0 or not cost.is_finite() or cost < 0:
            raise ValueError(f"no call uses {usage.input_tokens} tokens for ${cost}")
        self._spent[name] = total(self._spent.get(name, Usage()), usage)

    def settle(self, name: str) -> Usage:
        """A call is over: what it used takes the place of what was reserved."""
        usage = self._spent.pop(name, Usage())
        wish = self._wishes.pop(name, None)
        if self._budget is not None and wish is not None:
            self._budget.settle(wish, usage)
        return usage

    def close(self) -> None:
        """Settle every call that was left behind: nothing stays reserved for it."""
        for name in [*self._wishes]:
            self.settle(name)

    def question(self, refusal: Refusal) -> QuestionAsked:
        """Ask the person whether to go on."""
        if refusal.limit == "shared_budget":
            text = Sentence("question.shared_budget", amount=refusal.amount)
        else:
            text = Sentence("question.budget", amount=refusal.amount)
        return limit_question(self._run, refusal.limit, text)


class _Spent(NamedTuple):
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    grants: int = 0


class Spending:
    """Counts from journals, reading again only those that went on since the last time."""

    def __init__(self, store: PlanStore, clock: Clock, shared: Budget) -> None:
        self._store = store
        self._clock = clock
        self._shared = shared
        self._position = 0
        self._spent: dict[str, _Spent] = {}

    async def count(self) -> None:
        """Bring the shared budget up to what the store knows, where it has a limit at all."""
        if self._shared.limits == BudgetLimits():
            return
        moved: set[str] = set()
        while news := await self._store.news(self._position):
            moved |= {each.run for each in news}
            self._position = news[-1].position
        for run in moved:
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
