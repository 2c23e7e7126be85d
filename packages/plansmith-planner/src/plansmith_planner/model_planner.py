"""The planner that uses models: makes plans for requests, and writes replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from plansmith.lazy import lazy_modules

if TYPE_CHECKING:
    from plansmith import ports
    from plansmith.check import rehearsal
    from plansmith.plan.data import Json
    from plansmith.plan.planning import Planned, PlanRequest, Tell
    from plansmith_planner import model_calls, pipeline, replies, stages
    from plansmith_planner import settings as planner_settings
    from plansmith_planner.context import background
else:
    lazy_modules(
        globals(),
        background="plansmith_planner.context.background",
        model_calls="plansmith_planner.model_calls",
        pipeline="plansmith_planner.pipeline",
        planner_settings="plansmith_planner.settings",
        rehearsal="plansmith.check.rehearsal",
        replies="plansmith_planner.replies",
        stages="plansmith_planner.stages",
    )

RULES: Final = "rules"  # the name of the model that plans by rules


class ModelPlanner:
    """Makes plans with one model, judges requests and writes replies with it or with others."""

    def __init__(
        self,
        model: ports.ChatModel,
        *,
        clock: ports.Clock,
        triage_model: ports.ChatModel | None = None,
        report_model: ports.ChatModel | None = None,
        context: Sequence[ports.ContextSource] = (),
        ranker: ports.Ranker | None = None,
        settings: planner_settings.PlannerSettings | None = None,
    ) -> None:
        self.model = model
        self.settings = settings or planner_settings.PlannerSettings()
        self._clock = clock
        self._triage_model = triage_model or model
        self._report_model = report_model or model
        self._context = list(context)
        self._ranker = ranker

    @property
    def name(self) -> str:
        """The name of the model that plans, or `rules`."""
        return self.model.name

    @property
    def judging_model(self) -> ports.ChatModel | None:
        """The model that judges messages and shortens conversations; none where rules plan."""
        return None if self._triage_model.name == RULES else self._triage_model

    async def make(
        self, request: PlanRequest, available: ports.Available, *, tell: Tell
    ) -> Planned:
        """Returns a checked plan, an answer, a question, or why there is none."""
        exchanges: list[dict[str, Json]] = []
        recorded = partial(model_calls.TranscribedModel, exchanges=exchanges)
        settings, most, sources = self.settings, request.options.max_steps, self._context
        if settings.background_search:
            sources = background.with_search(sources, available, self._clock)
        deps = stages.PlannerDeps(
            plan_model=recorded(self.model),
            triage_model=recorded(self._triage_model) if settings.triage else None,
            clock=self._clock,
            tools=available.tools,
            agents=available.agents,
            templates=available.templates,
            sources=sources,
            ranker=self._ranker,
            settings=settings if most is None else settings.replace(max_steps=most),
            usable=available.usable,
            rehearse=rehearsal.rehearsal_with(available.sources),
        )
        made = await pipeline.make_plan(request, deps=deps, tell=tell)
        asked = {str(each["model"]) for each in exchanges}
        by_model = bool(asked - {RULES})
        return replace(made, exchanges=tuple(exchanges), origin="model" if by_model else "rules")

    async def write(
        self, brief: ports.ReplyBrief, history: Sequence[ports.Message], call: ports.Call
    ) -> str:
        prompts = self.settings.prompts
        return await replies.write_reply(
            brief, history, call, model=self._report_model, prompts=prompts
        )
