"""How planning went: the figures of one request, and of many as shares and averages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from plansmith.ports import Usage

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.planning_events import PlanningFigures


@dataclass(frozen=True, slots=True)
class PlanMetrics:
    """How planning one request went."""

    parsed: bool = False
    parsed_at_once: bool = False
    enough_context: bool = False
    degraded: bool = False
    steps: int = 0
    repairs: int = 0
    iterations: int = 1
    usage: Usage = field(default_factory=Usage)
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_json(self) -> dict[str, Json]:
        """Returns the metrics as plain JSON."""
        return {
            "parsed": self.parsed,
            "parsed_at_once": self.parsed_at_once,
            "enough_context": self.enough_context,
            "degraded": self.degraded,
            "steps": self.steps,
            "repairs": self.repairs,
            "iterations": self.iterations,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cached_tokens": self.usage.cached_tokens,
            "cost_usd": None if self.usage.cost is None else str(self.usage.cost),
            "seconds": {name: round(each, 3) for name, each in self.seconds.items()},
        }

    @classmethod
    def of(cls, figures: PlanningFigures) -> PlanMetrics:
        """Returns the metrics stored in a journal."""
        cost = None if figures.cost_usd is None else Decimal(figures.cost_usd)
        tokens = figures.input_tokens, figures.output_tokens
        return cls(
            parsed=figures.parsed,
            parsed_at_once=figures.parsed_at_once,
            enough_context=figures.enough_context,
            degraded=figures.degraded,
            steps=figures.steps,
            repairs=figures.repairs,
            iterations=figures.iterations,
            usage=Usage(*tokens, cached_tokens=figures.cached_tokens, cost=cost),
            seconds=figures.seconds,
        )


class MetricTotals:
    """Metrics of many requests, as shares and averages."""

    def __init__(self) -> None:
        self._all: list[PlanMetrics] = []

    def add(self, metrics: PlanMetrics) -> None:
        """Adds the metrics of one request."""
        self._all.append(metrics)

    def to_json(self) -> dict[str, Json]:
        """Returns averages: parse success, steps, iterations, time, tokens and cost."""
        count = len(self._all)
        if not count:
            return {"requests": 0}
        plans = [each for each in self._all if each.parsed]
        costs = [each.usage.cost for each in self._all]
        known = [cost for cost in costs if cost is not None]
        return {
            "requests": count,
            "parse_success": len(plans) / count,
            "parsed_at_once": sum(each.parsed_at_once for each in self._all) / count,
            "enough_context": sum(each.enough_context for each in plans) / max(1, len(plans)),
            "degraded": sum(each.degraded for each in self._all) / count,
            "mean_steps": sum(each.steps for each in plans) / max(1, len(plans)),
            "mean_iterations": sum(each.iterations for each in self._all) / count,
            "mean_repairs": sum(each.repairs for each in self._all) / count,
            "mean_seconds": sum(sum(each.seconds.values()) for each in self._all) / count,
            "tokens": sum(each.usage.input_tokens + each.usage.output_tokens for each in self._all),
            "cost_usd": str(sum(known, Decimal(0))) if known else None,
            "requests_of_unknown_cost": len(costs) - len(known),
        }
