"""SAGE's planner: turns a query and tools into a list of steps, with any generator."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from plansmith import ports
from plansmith.check.constraints import constraint_problems
from plansmith.check.names import Catalogue
from plansmith.clock import SystemClock
from plansmith.errors import ModelFailed, PlansmithError
from plansmith.lazy import lazy_modules
from plansmith.plan.capability import tool_specs
from plansmith.plan.data import Json
from plansmith.plan.planning import Planned, PlanRequest, is_empty_fallback
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import in_language
from plansmith.ports import ChatModel, ContextBlock, Delta, Prompt
from plansmith_compat import calling
from plansmith_compat.calling import Tell, in_own_loop, in_thread
from plansmith_compat.reading import json_in, loads
from plansmith_compat.sage.dialect import is_step, write
from plansmith_compat.sage.operators import BaseProfile, MapFunction, briefing_of, with_settings
from plansmith_planner.context.fence import fence
from plansmith_planner.dialect import left_behind
from plansmith_planner.draft import Offer, draft_messages, rules_of, salvage
from plansmith_planner.language.locales import locale_of
from plansmith_planner.make import model_of
from plansmith_planner.model_calls import TranscribedModel, read_answer
from plansmith_planner.parse.reply import plan_fit
from plansmith_planner.pipeline import make_plan
from plansmith_planner.ranking.pick import shortlist
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

if TYPE_CHECKING:
    from plansmith.plan.plan import Plan
    from plansmith.ports import Ranker
    from plansmith_planner.ranking import minilm
else:
    lazy_modules(globals(), minilm="plansmith_planner.ranking.minilm")

PlanStep = dict[str, Any]
Manifest = Mapping[str, Mapping[str, Any]]
Scores: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
# What a list says that has no step.
NOTHING: Final[PlanStep] = {"type": "reply", "text": "（计划不可用）"}
_FENCE: Final = re.compile(r"\A```[^\n]*\n?(.*?)(?:```)?\Z", re.DOTALL)
_WRAPPERS: Final = ("steps", "plan")
_TEXT_KEYS: Final = ("text", "content", "generated", "answer", "output")
_MAX_TEXT: Final = 2000
_HOOKS: Final = ("_ask_llm", "_build_prompt", "_coerce_json_array", "_validate_steps")
_KEYS: Final = (
    "'profile_prompt' (or 'profile_system_prompt'), 'user_query' (or 'query') and "
    "'tools' (or 'registry')"
)


class Generator(Protocol):
    """A generator of SAGE: gets a query and messages, returns the query and a text."""

    def execute(self, data: Any) -> Any:
        """Returns a pair of query and text, or the text alone; may be async."""
        ...


GeneratorLike: TypeAlias = Generator | ChatModel | Callable[[Any], Any]


def is_model(given: object) -> bool:
    """Whether this is a model of ours; whatever has `execute` is a generator of SAGE."""
    return hasattr(given, "stream") and not callable(getattr(given, "execute", None))


def generator_of(given: GeneratorLike | str | None) -> GeneratorLike:
    """Returns a generator or a model, also by name or by the automatic choice."""
    if given is None or isinstance(given, str):
        return model_of(given)
    if is_model(given) or callable(getattr(given, "execute", None)) or callable(given):
        return given
    raise TypeError(
        "give a generator with execute([query, messages]), a function of such a list, "
        "or a model such as plansmith_planner.model('openai:gpt-5')"
    )


def ask(generator: GeneratorLike, data: Sequence[Any]) -> str:
    """Asks a generator and returns its text; `data` is the query and a list of messages."""
    if is_model(generator):
        messages = [ports.Message(each["role"], each["content"]) for each in data[1]]
        model = cast("ChatModel", generator)
        return in_own_loop(read_answer(model.stream(Prompt(messages)))).text
    answer = cast("Any", getattr(generator, "execute", generator))(data)
    return _answer_text(
        in_own_loop(calling.await_value(answer)) if inspect.isawaitable(answer) else answer
    )


def _answer_text(answer: object) -> str:
    """Returns the text of a generator's answer: a text, a pair, a table, or a plan as data."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Mapping):
        table = cast("Mapping[str, object]", answer)
        found = next((table[key] for key in _TEXT_KEYS if isinstance(table.get(key), str)), None)
        return str(found) if found else json.dumps(table, ensure_ascii=False, default=str)
    if isinstance(answer, (list, tuple)):
        items = cast("Sequence[object]", answer)
        steps = isinstance(answer, list) and any(isinstance(each, dict) for each in items)
        if items and not steps:
            return _answer_text(items[-1])
        return json.dumps(items, ensure_ascii=False, default=str) if answer != () else ""
    raise ModelFailed(f"the generator returned {type(answer).__name__}, not a text")


class AskingModel:
    """A model made of a blocking function; turns whatever it raises into `ModelFailed`."""

    def __init__(self, generator: object, ask: Callable[[Prompt], str]) -> None:
        self.name = type(generator).__name__
        self._ask = ask

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        try:
            text = await in_thread(self._ask, prompt)
        except PlansmithError:
            raise
        except Exception as error:  # noqa: BLE001 - a generator may raise anything
            raise ModelFailed(f"the generator failed: {type(error).__name__}: {error}") from None
        yield ports.TextDelta(text)
        yield ports.ModelDone(ports.Usage(), self.name)


def wording_model(generator: GeneratorLike, query: str | None, profile: str) -> ChatModel:
    """Returns the model that words answers; as in SAGE, a summarizer gets None for the query."""
    if is_model(generator):
        return cast("ChatModel", generator)

    def word(prompt: Prompt) -> str:
        system = {"role": "system", "content": profile}
        text = ask(generator, [query, [system, {"role": "user", "content": prompt.text}]])
        # Some generators answer with the plan again: then its reply is what is said.
        found = coerce_json_array(text) or ()
        steps = [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]
        replies = [str(each.get("text") or "") for each in steps if each.get("type") == "reply"]
        return replies[-1] if replies else text

    return AskingModel(generator, word)


def top_k_tools(
    user_query: str, tools: Manifest, k: int = 6, *, ranker: Ranker | None = None
) -> dict[str, Any]:
    """Returns the k tools that fit best, in any language; `ranker` adds nearness in meaning."""
    if not tools:
        return {}
    picks = shortlist(user_query, tool_specs(tools), k=k, ranker=ranker)
    return {pick.name: tools[pick.name] for pick in picks}


def build_prompt(
    profile_system_prompt: str, user_query: str, tools_subset: Manifest, max_steps: int = 6
) -> str:
    """Returns the whole prompt as one text: rules, tools, profile and query."""
    messages = draft_messages(
        user_query,
        offer=Offer(tool_specs(tools_subset)),
        context=fence("profile", profile_system_prompt),
        max_steps=max_steps,
        locale=locale_of(user_query, ""),
        shape="sage",
    )
    return "\n\n".join(each.text for each in messages)


def strip_code_fences(text: str) -> str:
    """Returns a text without the fence that stands around all of it."""
    fenced = _FENCE.match(text.strip())
    return (fenced[1] if fenced else text).strip()


def coerce_json_array(text: str) -> list[Any] | None:
    """Returns the list of steps in a text, bare, wrapped or amid prose; None if there is none."""
    value: Any = loads(strip_code_fences(text))
    if value is None:
        value = json_in(text, fits=plan_fit)
        if isinstance(value, list) and not any(map(is_step, cast("list[Json]", value))):
            return None  # words in brackets
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        value = next((table[key] for key in _WRAPPERS if isinstance(table.get(key), list)), None)
    return [*cast("Sequence[Any]", value)] if isinstance(value, list) else None


def validate_steps(steps: Sequence[Any], tools: Manifest) -> list[PlanStep]:
    """Returns the steps that SAGE could run; one reply that says so where none is left."""
    made = (_valid(cast("PlanStep", each), tools) for each in steps if isinstance(each, dict))
    return [each for each in made if each] or [{**NOTHING}]


def _valid(step: PlanStep, tools: Manifest) -> PlanStep | None:
    text, name, arguments = step.get("text"), step.get("name"), step.get("arguments", {})
    if step.get("type") == "reply":
        reply = isinstance(text, str) and text.strip()
        return {"type": "reply", "text": reply} if reply else None
    known = step.get("type") == "tool" and isinstance(name, str) and name in tools
    if not known or not isinstance(arguments, dict):
        return None
    schema: Any = tools[cast("str", name)].get("input_schema") or {}
    if any(each not in arguments for each in schema.get("required") or ()):
        return None
    return {"type": "tool", "name": name, "arguments": cast("dict[str, Any]", arguments)}


class Steps(list[PlanStep]):
    """SAGE's list of steps; `plan` is the whole plan, with what the list cannot express."""

    plan: Plan | None = None


class LLMPlanner(MapFunction):
    """Plans with a generator of SAGE or with one of our models.

    `generator` is an object with `execute([query, messages])`, a function, or a model, also by
    name; without one the automatic choice is made. `ranker` adds recall by meaning: "minilm", or
    a function of the query and texts. A subclass may override SAGE's hooks: `_top_k_tools`,
    `_build_prompt`, `_ask_llm`, `_coerce_json_array`, `_validate_steps`, `_tools_to_manifest`.

    After a call, `problems` has all problems of the plan, `failure` says why there is none, and
    `planned` is the whole result of planning, also what SAGE's list of steps cannot express.
    """

    planned: Planned | None = None
    problems: tuple[Problem, ...] = ()
    failure: str = ""
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
        self.generator = generator_of(model if generator is None else generator)
        self.max_steps = max_steps
        self.enable_repair = enable_repair
        self.topk_tools = topk_tools
        self.ranker = _ranker(ranker)

    def plan(
        self, profile_system_prompt: str | BaseProfile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
        """Returns the steps; at least one."""
        return in_own_loop(self._make(profile_system_prompt, user_query, tools, lambda _: None))

    def plan_stream(
        self, profile_system_prompt: str | BaseProfile, user_query: str, tools: Manifest
    ) -> Iterator[dict[str, Any]]:
        """Yields the stages of planning as thoughts, and at last the plan."""

        async def work(tell: Tell) -> None:
            def think(text: str) -> None:
                tell({"type": "thought", "content": text})

            steps = await self._make(profile_system_prompt, user_query, tools, think)
            tell({"type": "plan", "steps": steps})

        return calling.stream_events(work)

    async def aplan(
        self, profile_system_prompt: str | BaseProfile, user_query: str, tools: Manifest
    ) -> list[PlanStep]:
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
        with with_settings(self, topk_tools=topk) as planner:
            return planner.plan(cast("str", profile), query, planner._tools_to_manifest(tools))  # noqa: SLF001 - its own

    def _tools_to_manifest(self, tools_like: Any) -> dict[str, Any]:
        """Returns a mapping of tools, also from a registry with `describe()`."""
        describe = getattr(tools_like, "describe", None)
        found = describe() if callable(describe) else tools_like
        if not isinstance(found, Mapping):
            raise TypeError("tools must be a mapping, or a registry whose describe() returns one")
        return dict(cast("Mapping[str, Any]", found))

    def _top_k_tools(self, user_query: str, tools: Manifest, k: int = 6) -> Mapping[str, Any]:
        """Returns the tools that the model is shown; a plan may use no others."""
        return top_k_tools(user_query, tools, k, ranker=self.ranker)

    def _build_prompt(
        self, profile_system_prompt: str, user_query: str, tools_subset: Manifest
    ) -> str:
        return build_prompt(profile_system_prompt, user_query, tools_subset, self.max_steps)

    def _ask_llm(self, prompt: str, user_query: str) -> str:
        system = {"role": "system", "content": prompt}
        return ask(self.generator, [user_query, [system, {"role": "user", "content": user_query}]])

    def _coerce_json_array(self, text: str) -> list[Any] | None:
        return coerce_json_array(text)

    def _validate_steps(self, steps: Sequence[Any], tools: Manifest) -> list[PlanStep]:
        return validate_steps(steps, tools)

    def _overrides(self, hook: str) -> bool:
        own = getattr(getattr(self, hook), "__func__", None)
        return own is not LLMPlanner.__dict__[hook]

    def plan_model(self, query: str, profile: str = "", tools: Manifest | None = None) -> ChatModel:
        """Returns the model that drafts plans, by way of the hooks.

        Without `tools` the pipeline's own prompt is used, as for a new plan after a failure.
        """
        if is_model(self.generator) and not any(map(self._overrides, _HOOKS)):
            return cast("ChatModel", self.generator)

        def ask_model(prompt: Prompt) -> str:
            head = "\n\n".join(each.text for each in prompt.messages[:2])
            if tools is not None and self._overrides("_build_prompt"):
                head = self._build_prompt(profile, query, tools)
            more = [
                fence("your previous answer", each.text) if each.role == "assistant" else each.text
                for each in prompt.messages[2:]
            ]
            text = _answer_text(self._ask_llm("\n\n".join([head, *more]), query))
            return self._read(text, tools)

        return AskingModel(self.generator, ask_model)

    def _read(self, text: str, tools: Manifest | None) -> str:
        """Has hooks of a program read an answer; else the pipeline knows what to ask again."""
        validates = self._overrides("_validate_steps")
        if not validates and not self._overrides("_coerce_json_array"):
            return text
        steps = self._coerce_json_array(text)
        if steps is not None and tools is not None and validates:
            steps = self._validate_steps(steps, tools)
        return text if steps is None else json.dumps(steps, ensure_ascii=False, default=str)

    async def _make(
        self, profile: str | BaseProfile, query: str, tools: Manifest, tell: Callable[[str], None]
    ) -> list[PlanStep]:
        text = profile.render_system_prompt() if isinstance(profile, BaseProfile) else profile
        offered = self._top_k_tools(query, tools, self.topk_tools)
        exchanges: list[dict[str, Json]] = []
        deps = PlannerDeps(
            plan_model=TranscribedModel(self.plan_model(query, str(text), offered), exchanges),
            clock=SystemClock(),
            # Only these, so that a tool that was not shown is as unknown as an invented one.
            tools=tool_specs(offered),
            sources=[calling.KnownContext(self._memory_blocks)],
            settings=PlannerSettings(
                top_k=max(1, len(offered)),
                max_steps=self.max_steps,
                repairs=int(self.enable_repair),
                triage=False,
            ),
        )
        request = PlanRequest(query, RunOptions(profile=briefing_of(profile), dialect="sage"))
        planned = await make_plan(request, deps=deps, tell=tell)
        self.planned, self.problems, self.failure = planned, planned.problems, ""
        first = str(exchanges[0]["text"]) if exchanges else ""
        rules, known = rules_of(request, deps), Catalogue(deps.tools)

        def keeps(part: Plan) -> bool:
            """Whether a part of a plan keeps the hard rules of the profile and of the request."""
            found = constraint_problems(part, known, rules, deps.agents)
            return all(each.severity is not Severity.ERROR for each in found)

        return self._steps(planned, first, keeps)

    async def _memory_blocks(self) -> list[ContextBlock]:
        """Returns what the memory tells, anything with `as_context()`, as data."""
        as_context = getattr(self.memory, "as_context", None)
        text = str(await in_thread(as_context) or "") if callable(as_context) else ""
        return [ContextBlock("memory", text)] if text.strip() else []

    def _steps(self, planned: Planned, text: str, keeps: Callable[[Plan], bool]) -> list[PlanStep]:
        """Returns the plan, its usable part, or the model's text as a reply."""
        plan, reply = planned.plan, text.strip()[:_MAX_TEXT]
        if planned.figures.degraded and planned.draft is None and reply:
            return [{"type": "reply", "text": reply}]
        if planned.figures.degraded:
            plan = self._usable(planned, keeps)
        elif plan is not None and len(plan.steps) > self.max_steps:
            # Our limit does not count replies; SAGE's counts every step of the list.
            most, count = self.max_steps, len(plan.steps)
            self.problems += (left_behind(f"the list holds {most} steps, the plan has {count}"),)
            plan = salvage(plan, (), max_steps=most)
        writing = write(plan) if plan is not None else None
        if plan is None or writing is None or not writing.value:
            messages = dict[str, None]()
            for each in planned.problems:
                hint = f" ({in_language(each.hint, planned.locale)})" if each.hint else ""
                messages[in_language(each.message, planned.locale) + hint] = None
            self.failure = "; ".join(messages) or NOTHING["text"]
            return [{**NOTHING}]
        if plan.degraded:
            self.problems += (left_behind(plan.degraded),)
            self.failure = plan.degraded if is_empty_fallback(plan) else ""
        # Losses of the plan itself are left out: its goal is the query, which the caller has.
        self.problems += tuple(each for each in writing.lost if each.step is not None)
        steps = Steps(cast("list[PlanStep]", writing.value))
        steps.plan = plan
        return steps

    def _usable(self, planned: Planned, keeps: Callable[[Plan], bool]) -> Plan | None:
        draft, most = planned.draft, self.max_steps
        sizes = range(most, 0, -1) if draft is not None else ()
        parts = (salvage(cast("Plan", draft), planned.problems, max_steps=n) for n in sizes)
        return next((part for part in parts if part is not None and keeps(part)), None)


def _ranker(given: Any) -> Ranker | None:
    if given == "minilm":
        return minilm.MiniLmRanker()
    if given is None or hasattr(given, "scores"):
        return cast("Ranker | None", given)
    if callable(given):
        return cast("Ranker", SimpleNamespace(scores=given))
    raise TypeError("'ranker' is 'minilm', a function of (query, texts), or has scores(…)")


# SAGE's module has these as functions; programs import and test them.
_top_k_tools = top_k_tools
_build_prompt = build_prompt
_strip_code_fences = strip_code_fences
_coerce_json_array = coerce_json_array
_validate_steps = validate_steps
