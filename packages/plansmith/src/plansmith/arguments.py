"""The arguments of `Plansmith(...)`: what is wrong is said at once, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Self,
    TypeAlias,
    TypedDict,
    TypeGuard,
    TypeVar,
    Unpack,
    cast,
)

from plansmith import plugins
from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, PlanInvalid
from plansmith.lazy import lazy_modules
from plansmith.ports import Closing, Store
from plansmith.store.urls import open_store

if TYPE_CHECKING:
    import difflib
    from decimal import Decimal

    from plansmith import ports
    from plansmith.check import check_plan as checks
    from plansmith.check.constraints import Constraint
    from plansmith.engine.processes import Machine
    from plansmith.plan import limits
    from plansmith.plan.capability import AgentSpec, Tools, ToolSpec
    from plansmith.plan.data import Record
    from plansmith.plan.limits import BudgetLimits, Limits
    from plansmith.plan.plan import Plan
    from plansmith.plan.planning import Tell
    from plansmith.plan.problem import Problem
    from plansmith.plan.run_options import Team
    from plansmith.review import settings as review
    from plansmith.review.settings import ReviewPolicy
    from plansmith.runs.replan import IterationRules
    from plansmith.store import journals_only
    from plansmith.tools import functions
else:
    lazy_modules(
        globals(),
        checks="plansmith.check.check_plan",
        difflib="difflib",
        functions="plansmith.tools.functions",
        journals_only="plansmith.store.journals_only",
        limits="plansmith.plan.limits",
        review="plansmith.review.settings",
    )

T = TypeVar("T")
ToolLike: TypeAlias = "Callable[..., Any] | ports.ToolSource"


class Options(TypedDict, total=False):
    """The optional arguments of `Plansmith(...)`.

    Attributes:
        triage_model: Decides whether a request needs a plan; by default `model` does.
        report_model: Writes replies and reports; by default `model` does.
        context: Sources of background for planners: documents, schemas, searches.
        ranker: Ranks tools by meaning, for requests with many tools.
        templates: Plans that other plans can use, by name.
        policy: What needs a person's review.
        ask_also: Returns further reasons to review a plan.
        limits: How many steps run at once, how often calls are tried, how long a run waits.
        iterations: How a run is planned again once all steps of a plan have run.
        budget: What one run may use.
        shared_budget: What all runs together may use.
        price_per_million: The price of a million tokens in US dollars, if it is not known.
        tell: Called with each thing that happens, for a person to read.
        secrets: Values that tools get and nobody else sees.
        ids: Makes the ids of runs.
        folder: The folder that runs belong to.
        records_folder: Whether journals record where that folder is.
        team: The team of agents that runs need.
        shared_store: Whether others use the store too; `close` then leaves it open.
        machine: This machine, for stores that several machines use.
    """

    triage_model: ports.ChatModel | str | None
    report_model: ports.ChatModel | str | None
    context: Sequence[ports.ContextSource]
    ranker: ports.Ranker | None
    templates: Mapping[str, Plan]
    policy: ReviewPolicy
    ask_also: Callable[[Plan], Sequence[str]]
    limits: Limits
    iterations: IterationRules
    budget: BudgetLimits
    shared_budget: BudgetLimits
    price_per_million: Decimal | None
    tell: Tell
    secrets: ports.Secrets
    ids: Callable[[], str]
    folder: Path | str
    records_folder: bool
    team: Team | None
    shared_store: bool
    machine: Machine


class Parts(Options, total=False):
    """Parts of a Plansmith that a caller gives instead of those that settings describe."""

    model: ports.ChatModel | None
    tools: Sequence[ToolLike]
    agents: Sequence[ports.Agent]
    store: str | ports.JournalStore
    clock: ports.Clock


class Arguments(NamedTuple):
    """What a Plansmith was given, checked and resolved."""

    store: Store
    clock: ports.Clock
    sources: list[ports.ToolSource]
    agents: list[ports.Agent]
    planner: ports.Planner | None
    writer: ports.ReplyWriter | None
    options: Options

    @classmethod
    def checked(
        cls,
        model: ports.ChatModel | str | None,
        *,
        tools: Sequence[ToolLike],
        agents: Sequence[ports.Agent],
        store: str | ports.JournalStore,
        settings: Record | None,
        clock: ports.Clock | None,
        **more: Unpack[Options],
    ) -> Self:
        """Resolves names, URLs and functions; raises `Misconfigured` for what cannot be used."""
        options, clock = read_options(more), clock or SystemClock()
        given = {"clock": clock, "settings": settings, "options": options}
        models = [model, options.get("report_model"), options.get("triage_model")]
        made = plugins.load("planners", "default")(model, **given) if has_model(models) else None
        return cls(
            store=store_of(store),
            clock=clock,
            planner=made if model is not None else None,
            writer=made if has_model(models[:2]) else None,
            sources=sources_of(tools),
            agents=agents_of(agents),
            options=options,
        )

    async def close(self) -> None:
        """Closes the tools and agents, and the store unless another Plansmith shares it."""
        for part in (*self.sources, *self.agents):
            if isinstance(part, Closing):
                await part.close()
        if not self.options.get("shared_store"):
            await self.store.close()


def has_model(given: Sequence[ports.ChatModel | str | None]) -> bool:
    """Tells whether a model is among these; raises for what is neither a model nor a name."""
    for model in cast("Sequence[object]", given):
        is_model = not isinstance(model, type) and callable(getattr(model, "stream", None))
        if model is not None and not isinstance(model, str) and not is_model:
            hint = "give its name, such as 'openai:gpt-5', or an object with `name` and `stream`"
            raise Misconfigured(f"{model!r} is not a model", hint=hint)
    return any(each is not None for each in given)


def read_options(given: Mapping[str, Any]) -> Options:
    """Returns the options; checks their names, and the types of those that have records."""
    known = [*("model", "tools", "agents", "store", "settings", "clock"), *Options.__annotations__]
    for name in sorted(given.keys() - {*known}):
        near = difflib.get_close_matches(name, known, n=1)
        more = f": did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"
        raise TypeError(f"Plansmith has no option {name!r}{more}")
    for name in given.keys() & {"limits", "budget", "shared_budget", "policy"}:
        records = {"limits": limits.Limits, "policy": review.ReviewPolicy}
        kind = records.get(name, limits.BudgetLimits)
        if not isinstance(given[name], kind):
            raise TypeError(f"{name} must be a {kind.__name__}, such as {kind.__name__}()")
    options = cast("Options", {**given})
    if folder := options.get("folder"):
        options["folder"] = Path(folder).resolve()  # now: a program may change its folder
    return options


def store_of(given: str | ports.JournalStore) -> Store:
    """Returns a store by its URL, or the given one."""
    if isinstance(given, str):
        return open_store(given)
    if isinstance(given, type) or not callable(getattr(given, "append", None)):
        hint = "give a URL, such as 'sqlite:///runs.db', 'memory', or a store of yours"
        raise Misconfigured(f"{given!r} is not a store", hint=hint)
    return given if isinstance(given, Store) else journals_only.JournalsOnly(given)


def sources_of(tools: Sequence[ToolLike]) -> list[ports.ToolSource]:
    """Returns the tool sources among the tools, and one for all functions."""
    given = _listed(tools, "tools", "give a list of functions, such as tools=[weather]")
    sources: list[ports.ToolSource] = []
    plain: list[Callable[..., Any]] = []
    for each in given:
        if not isinstance(each, type) and hasattr(each, "tools") and hasattr(each, "call"):
            sources.append(cast("ports.ToolSource", each))
        elif _is_function(each):
            plain.append(each)
        else:
            hint = "give functions that have a name, marked with @tool, or tool sources"
            raise Misconfigured(f"{each!r} is not a tool", hint=hint)
    return [functions.FunctionTools(plain), *sources] if plain else sources


def check_plan(
    plan: Plan,
    tools: Tools | Sequence[ToolSpec | functions.FunctionTool[..., Any] | Callable[..., Any]],
    *,
    agents: Iterable[str | AgentSpec] | None = None,
    templates: Iterable[str] | None = None,
    max_steps: int | None = None,
    constraints: Iterable[Constraint] | None = None,
) -> list[Problem]:
    """Returns what is wrong with a plan: errors, warnings and notes.

    Args:
        plan: The plan.
        tools: Functions, specs of tools, or `{name: {"input_schema": …}}`.
        agents: Known agents; if omitted, agent names are not checked.
        templates: Known templates; if omitted, template names are not checked.
        max_steps: How many steps are allowed, not counting questions and replies.
        constraints: Rules that the plan must keep.

    Raises:
        Misconfigured: One of `tools` is not a tool.

    Examples:
        >>> from plansmith import check_plan, read_plan
        >>> plan = read_plan({"steps": [{"id": "have", "tool": "stok"}]})
        >>> print(check_plan(plan, {"stock": {}})[0])
        error PS101 unknown-tool: have.tool: there is no tool called 'stok' (did you mean 'stock'?)
    """
    known = tools if isinstance(tools, Mapping) else [*map(_spec_of, tools)]
    return checks.check_plan(
        plan,
        known,
        agents=agents,
        templates=templates,
        max_steps=max_steps,
        constraints=constraints,
    )


def _spec_of(given: ToolSpec | functions.FunctionTool[..., Any] | Callable[..., Any]) -> ToolSpec:
    if hasattr(given, "input_schema"):
        return cast("ToolSpec", given)
    if not _is_function(given):
        hint = "give functions that have a name, specs, or a table of specs by name"
        raise Misconfigured(f"{given!r} is not a tool", hint=hint)
    if isinstance(given, functions.FunctionTool):
        return given.spec
    return functions.tool(given).spec


def agents_of(agents: Sequence[ports.Agent]) -> list[ports.Agent]:
    """Returns the agents; refuses two of one name."""
    given = _listed(agents, "agents", "give a list of agents")
    wrong = [each for each in given if isinstance(each, type) or not hasattr(each, "spec")]
    if wrong:
        hint = "give objects with `spec` and `work`; docs/agents.md shows one"
        raise Misconfigured(f"{wrong[0]!r} is not an agent", hint=hint)
    names = [agent.spec.name for agent in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Misconfigured(f"two agents are called {twice!r}")
    return given


def require_plan(given: Plan | list[Problem], method: str) -> Plan:
    """Returns the plan; raises for the problems of an unreadable one, and for anything else."""
    if isinstance(given, list):
        raise PlanInvalid(given)
    if not hasattr(given, "steps"):
        takes = "a request in words or a Plan" if method == "do" else "a Plan"
        raise TypeError(f"{method} takes {takes}: read_plan makes one of a dictionary or a text")
    return given


def _listed(given: Iterable[T], name: str, hint: str) -> list[T]:
    """Returns the given things as a list; a single one, or a text, is none."""
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise Misconfigured(f"{name} takes a list, not {given!r}", hint=hint)
    return list(given)


def _is_function(each: object) -> TypeGuard[Callable[..., Any]]:
    is_source_class = isinstance(each, type) and hasattr(each, "call")
    is_nameless = getattr(each, "__name__", "") == "<lambda>"
    return callable(each) and not is_source_class and not is_nameless
