"""SAGE's planner: turns a query and tools into a list of steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from plansmith.check.constraints import constraint_problems
from plansmith.check.names import Catalogue
from plansmith.clock import SystemClock
from plansmith.formats.dialect import left_behind
from plansmith.lazy import lazy_modules
from plansmith.plan.capability import tool_specs
from plansmith.plan.planning import Planned, PlanRequest, only_stands_in
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.sentence import in_language
from plansmith.ports import ChatModel, ContextBlock, ContextSource, Prompt
from plansmith_compat.calling import Tell, in_thread, told_by
from plansmith_compat.sage import drafting
from plansmith_compat.sage.dialect import write
from plansmith_compat.sage.drafting import NOTHING, Manifest, PlanStep
from plansmith_compat.sage.model import (
    AskingModel,
    GeneratorLike,
    answer_text,
    ask,
    is_model,
    need_generator,
)
from plansmith_compat.sage.operator import MapFunction, Scoped
from plansmith_compat.sage.profile import BaseProfile, briefing_of
from plansmith_planner.context.fence import fence
from plansmith_planner.draft_loop import rules_of
from plansmith_planner.fallback import salvage
from plansmith_planner.make import model_of
from plansmith_planner.model_calls import Transcript
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

if TYPE_CHECKING:
    from plansmith.plan.plan import Plan
    from plansmith.ports import Ranker
    from plansmith_planner.ranking import minilm
else:
    lazy_modules(globals(), minilm="plansmith_planner.ranking.minilm")

Scores: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
_MOST_TEXT: Final = 2000
_HOOKS: Final = ("_ask_llm", "_build_prompt", "_coerce_json_array", "_validate_steps")
_KEYS: Final = (
    "'profile_prompt' (or 'profile_system_prompt'), 'user_query' (or 'query') and "
    "'tools' (or 'registry')"
)


class Steps(list[PlanStep]):
    """SAGE's list of steps; `plan` is the whole plan, with what the list cannot express."""

    plan: Plan | None = None


class Wanted(NamedTuple):
    """What is planned: the profile as text, the query, and the tools that are shown."""

    profile: str
    query: str
    tools: Mapping[str, Any]


class Ranking:
    """A ranker made of a function."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one number per text; larger is closer."""
        return self._scores(query, texts)


class LLMPlanner(MapFunction):
    """Plans with a generator of SAGE or with one of our models.

    `generator` is an object with `execute([query, messages])`, a function, or a model, also by
    name; without one the automatic choice is made. `ranker` adds recall by meaning: "minilm", or
    a function of the query and texts. A subclass may override SAGE's hooks: `_top_k_tools`,
    `_build_prompt`, `_ask_llm`, `_coerce_json_array`, `_validate_steps`, `_tools_to_manifest`.

    After a call, `problems` has all problems of the plan, `failure` says why there is none, and
    `planned` is the whole result of planning, also what SAGE's list of steps cannot express.
    """

    topk_tools = Scoped[int]()
    planned: Planned | None = None
    problems: tuple[Problem, ...] = ()
    failure: str = ""
    ranker: Ranker | None = None
    memory: Any = None

    def __init__(
        self,
        generator: GeneratorLike | str | None = None,
        max_steps: int = 6,
        enable_repair: bool = True,  # noqa: FBT001, FBT002 - SAGE's own signature
        topk_tools: int = 6,
        *,
        model: ChatModel | str | None = None,
        ranker: Ranker | Scores | Literal["minilm"] | None = None,
    ) -> None:
        if generator is not None and model is not None:
            raise TypeError("give a generator or a model, not both")
        if max_steps < 1 or topk_tools < 1:
            raise ValueError("'max_steps' and 'topk_tools' must be positive")
        given = model if generator is None else generator
        if given is None or isinstance(given, str):
            given = model_of(given)
        need_generator(given)
        self.generator: GeneratorLike = given
        self.max_steps = max_steps
        self.enable_repair = enable_repair
        self.topk_tools = topk_tools
        self.ranker = _ranker(ranker)

    def plan(
        self, profile_system_prompt: str | BaseProfile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
        """Returns the steps; at least one."""
        steps: list[PlanStep] = []
        for event in self.plan_stream(profile_system_prompt, user_query, tools):
            if event["type"] == "plan":
                steps = event["steps"]
        return steps or [{**NOTHING}]

    def plan_stream(
        self, profile_system_prompt: str | BaseProfile, user_query: str, tools: Manifest
    ) -> Iterator[dict[str, Any]]:
        """Yields the stages of planning as thoughts, and at last the plan."""

        async def work(tell: Tell) -> None:
            def think(text: str) -> None:
                tell({"type": "thought", "content": text})

            steps = await self._make(profile_system_prompt, user_query, tools, think)
            tell({"type": "plan", "steps": steps})

        return told_by(work)

    async def aplan(
        self, profile_system_prompt: str | BaseProfile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
        """Does the same as `plan`, for async programs."""
        return await in_thread(self.plan, profile_system_prompt, user_query, tools)

    def execute(self, data: Any) -> list[PlanStep]:
        """Plans from a mapping or a triple; `topk` in a mapping applies to this call only."""
        parts: list[Any] = [*data] if isinstance(data, tuple) else []
        if len(parts) == 3:
            profile, query, tools = parts
            if not isinstance(profile, (str, BaseProfile)) or not isinstance(query, str):
                raise TypeError("the triple must be (profile prompt, query, tools or registry)")
            return self.plan(profile, query, self._tools_to_manifest(tools))
        if not isinstance(data, dict):
            raise TypeError(f"LLMPlanner.execute takes a triple or a mapping with {_KEYS}")
        return self._from_mapping(cast("dict[str, Any]", data))

    def _from_mapping(self, data: dict[str, Any]) -> list[PlanStep]:
        profile = data.get("profile_prompt") or data.get("profile_system_prompt")
        query = data.get("user_query") or data.get("query")
        tools = data.get("tools") if data.get("tools") is not None else data.get("registry")
        is_profile = isinstance(profile, (str, BaseProfile))
        if not is_profile or not isinstance(query, str) or tools is None:
            raise ValueError(f"LLMPlanner.execute needs {_KEYS}")
        topk = data.get("topk", self.topk_tools)
        if isinstance(topk, bool) or not isinstance(topk, int) or topk < 1:
            raise ValueError("'topk' must be a positive int")
        with LLMPlanner.__dict__["topk_tools"].during(self, topk):
            return self.plan(cast("str", profile), query, self._tools_to_manifest(tools))

    def _tools_to_manifest(self, tools_like: Any) -> dict[str, Any]:
        """Returns a mapping of tools, also from a registry with `describe()`."""
        if isinstance(tools_like, Mapping):
            return dict(cast("Mapping[str, Any]", tools_like))
        if callable(getattr(tools_like, "describe", None)):
            described = tools_like.describe()
            if isinstance(described, Mapping):
                return dict(cast("Mapping[str, Any]", described))
        raise TypeError("tools must be a mapping, or a registry whose describe() returns one")

    def _top_k_tools(self, user_query: str, tools: Manifest, k: int = 6) -> Mapping[str, Any]:
        """Returns the tools that the model is shown; a plan may use no others."""
        return drafting.top_k_tools(user_query, tools, k, ranker=self.ranker)

    def _build_prompt(
        self, profile_system_prompt: str, user_query: str, tools_subset: Manifest
    ) -> str:
        """Returns the prompt as one text."""
        return drafting.build_prompt(
            profile_system_prompt, user_query, tools_subset, self.max_steps
        )

    def _ask_llm(self, prompt: str, user_query: str) -> str:
        """Returns the model's answer to a prompt."""
        system = {"role": "system", "content": prompt}
        return ask(self.generator, [user_query, [system, {"role": "user", "content": user_query}]])

    def _coerce_json_array(self, text: str) -> list[Any] | None:
        """Returns the steps in the model's text; None if there are none."""
        return drafting.coerce_json_array(text)

    def _validate_steps(self, steps: Sequence[Any], tools: Manifest) -> list[PlanStep]:
        """Returns the steps that can be run; at least one reply."""
        return drafting.validate_steps(steps, tools)

    def _overrides(self, hook: str) -> bool:
        """Whether a subclass, or this object, has a hook of its own."""
        own = getattr(getattr(self, hook), "__func__", None)
        return own is not LLMPlanner.__dict__[hook]

    def plan_model(self, wanted: Wanted | None = None, *, query: str = "") -> ChatModel:
        """Returns the model that drafts plans, by way of the hooks.

        Without `wanted` the pipeline's own prompt is used, as for a new plan after a failure.
        """
        if is_model(self.generator) and not any(map(self._overrides, _HOOKS)):
            return cast("ChatModel", self.generator)
        name = type(self.generator).__name__
        return AskingModel(name, lambda prompt: self._asked(prompt, wanted, query))

    def _asked(self, prompt: Prompt, wanted: Wanted | None, query: str) -> str:
        """Asks for a draft or a repair through the hooks."""
        head = "\n\n".join(each.text for each in prompt.messages[:2])
        if wanted is not None and self._overrides("_build_prompt"):
            head = self._build_prompt(*wanted)
        more = [
            fence("your previous answer", each.text) if each.role == "assistant" else each.text
            for each in prompt.messages[2:]
        ]
        said: object = self._ask_llm("\n\n".join([head, *more]), wanted.query if wanted else query)
        text = answer_text(said)
        if not self._overrides("_coerce_json_array") and not self._overrides("_validate_steps"):
            return text  # the pipeline reads and checks it, and knows what to ask again
        steps = self._coerce_json_array(text)
        if steps is not None and wanted is not None and self._overrides("_validate_steps"):
            steps = self._validate_steps(steps, wanted.tools)
        return text if steps is None else json.dumps(steps, ensure_ascii=False, default=str)

    async def _make(
        self,
        profile: str | BaseProfile,
        query: str,
        tools: Manifest,
        tell: Callable[[str], None],
    ) -> list[PlanStep]:
        text = profile.render_system_prompt() if isinstance(profile, BaseProfile) else profile
        about = briefing_of(profile)
        shown = self._top_k_tools(query, tools, self.topk_tools)
        transcript = Transcript()
        deps = PlannerDeps(
            plan_model=transcript.of(self.plan_model(Wanted(str(text), query, shown))),
            clock=SystemClock(),
            # Only these, so that a tool that was not shown is as unknown as an invented one.
            tools=tool_specs(shown),
            sources=memory_sources(self.memory),
            settings=PlannerSettings(
                top_k=max(1, len(shown)),
                max_steps=self.max_steps,
                repairs=int(self.enable_repair),
                triage=False,
            ),
        )
        request = PlanRequest(query, profile=about, dialect="sage")
        planned = await make_plan(request, deps=deps, tell=tell)
        self.planned, self.problems, self.failure = planned, planned.problems, ""
        first = str(transcript.exchanges[0]["text"]) if transcript.exchanges else ""
        return self._steps(planned, first, lambda plan: _keeps_rules(plan, request, deps))

    def _steps(self, planned: Planned, text: str, keeps: Callable[[Plan], bool]) -> list[PlanStep]:
        """Returns the plan, its usable part, or the model's text as a reply."""
        plan, said = planned.plan, text.strip()[:_MOST_TEXT]
        if planned.metrics.degraded and planned.draft is None and said:
            return [{"type": "reply", "text": said}]
        if planned.metrics.degraded:
            plan = self._usable(planned, keeps)
        elif plan is not None and len(plan.steps) > self.max_steps:
            # Our limit does not count replies; SAGE's counts every step of the list.
            most, count = self.max_steps, len(plan.steps)
            cut = left_behind(f"the list holds {most} steps, the plan has {count}")
            self.problems += (cut,)
            plan = salvage(plan, (), max_steps=most)
        writing = write(plan) if plan is not None else None
        if plan is None or writing is None or not writing.value:
            told = [_told(each, planned.locale) for each in planned.problems]
            self.failure = "; ".join(dict.fromkeys(told)) or NOTHING["text"]
            return [{**NOTHING}]
        if plan.degraded:
            self.problems += (left_behind(plan.degraded),)
            self.failure = plan.degraded if only_stands_in(plan) else ""
        # Losses of the plan itself are left out: its goal is the query, which the caller has.
        self.problems += tuple(each for each in writing.lost if each.step is not None)
        steps = Steps(cast("list[PlanStep]", writing.value))
        steps.plan = plan
        return steps

    def _usable(self, planned: Planned, keeps: Callable[[Plan], bool]) -> Plan | None:
        """Returns as much of an unusable draft as can be used and keeps the rules."""
        draft = planned.draft
        if draft is None:
            return None
        parts = (
            salvage(draft, planned.problems, max_steps=n) for n in range(self.max_steps, 0, -1)
        )
        return next((part for part in parts if part is not None and keeps(part)), None)


class MemorySource:
    """A memory of SAGE, anything with `as_context()`, as background for the planner."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns what the memory tells, as data."""
        del query, token_limit
        text = str(await in_thread(self._memory.as_context) or "")
        return [ContextBlock("memory", text)] if text.strip() else []


def memory_sources(memory: Any) -> list[ContextSource]:
    """Returns the memory as a source of context; none if there is no memory."""
    return [MemorySource(memory)] if callable(getattr(memory, "as_context", None)) else []


def _told(flaw: Problem, locale: str) -> str:
    """Returns what is wrong and what to do about it."""
    hint = f" ({in_language(flaw.hint, locale)})" if flaw.hint else ""
    return in_language(flaw.message, locale) + hint


def _ranker(given: Any) -> Ranker | None:
    if given == "minilm":
        return minilm.MiniLmRanker()
    if given is None or hasattr(given, "scores"):
        return cast("Ranker | None", given)
    if callable(given):
        return Ranking(cast("Scores", given))
    raise TypeError("'ranker' is 'minilm', a function of (query, texts), or has scores(…)")


def _keeps_rules(plan: Plan, request: PlanRequest, deps: PlannerDeps) -> bool:
    """Whether a part of a plan keeps the hard rules of the profile and of the request."""
    found = constraint_problems(plan, Catalogue(deps.tools), rules_of(request, deps), deps.agents)
    return all(each.severity is not Severity.ERROR for each in found)


# SAGE's module has these as functions; programs import and test them.
_top_k_tools = drafting.top_k_tools
_build_prompt = drafting.build_prompt
_strip_code_fences = drafting.strip_code_fences
_coerce_json_array = drafting.coerce_json_array
_validate_steps = drafting.validate_steps
