"""Teams: ready settings of agents, tools, context and limits for one kind of work (floor 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from plansmith.adapters.agents.coder import coder
from plansmith.adapters.agents.reflecting import Reflecting
from plansmith.adapters.agents.researcher import researcher
from plansmith.adapters.agents.sql_writer import sql_writer
from plansmith.adapters.clock import SystemClock
from plansmith.adapters.secrets import SecretBox
from plansmith.adapters.tools.charts import ChartTools
from plansmith.adapters.tools.fetch import FetchTools
from plansmith.adapters.tools.files import FileTools
from plansmith.adapters.tools.functions import FunctionTool, FunctionTools
from plansmith.adapters.tools.workspace import WorkspaceTools
from plansmith.app import Plansmith
from plansmith.config import BuiltinSettings, Settings, load_settings
from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.run_options import Team
from plansmith.planner.context.background import Search, investigate
from plansmith.planner.context.token_budget import rough_count
from plansmith.ports import (
    Agent,
    Call,
    ChatModel,
    Clock,
    Closing,
    ContextBlock,
    ContextSource,
    PlanStore,
    ToolSource,
)
from plansmith.wiring import (
    known_agents,
    make_model,
    make_servers,
    make_smith,
    make_sources,
    make_tools,
)

AT_ONCE: Final = {"researcher": 4, "coder": 4, "sql_writer": 4}
# Room on the shortlist for every agent of a team beside the person's own tools.
OFFERED: Final = 12
# A chart shows the rows of a step in the plan that was approved: it does nothing with them.
HARMLESS: Final = ("charts.draw",)
Tell = Callable[[str], None]


def research(
    settings: Settings | None = None,
    *,
    model: ChatModel | None = None,
    folder: Path | None = None,
    tell: Tell = lambda _: None,
    store: PlanStore | None = None,
) -> Plansmith:
    """Researchers and coders over a folder of documents, MCP servers, and what else is set.

    `model` takes the place of every model of the settings, `store` that of their store; charts and
    files go to `folder`.
    """
    base = _Base.of(settings, model=model, folder=folder, tell=tell)
    documents = _documents(base.settings.documents)
    readers = _readers(base, documents)
    if not readers:
        hint = "give a folder with --docs, or set up an MCP server that searches"
        raise Misconfigured("there is nothing to do research in", hint=hint)
    prompts = base.settings.planner.prompts
    team: list[Agent] = [
        researcher(model=base.worker, sources=readers, prompts=prompts),
        coder(model=base.worker, folder=documents or base.folder, prompts=prompts),
    ]
    context = make_sources(base.settings.documents, tell=tell)
    if base.settings.planner.background_search:
        context.append(Background(readers, base.clock))
    agents = [Reflecting(agent=each, model=base.worker, prompts=prompts) for each in team]
    record = Team(name="research", documents=base.documents, folder=base.own_folder)
    return base.smith(record, store, agents=agents, context=context, hidden=base.servers)


def data(
    settings: Settings | None = None,
    *,
    database: str,
    model: ChatModel | None = None,
    folder: Path | None = None,
    sql_only: bool = False,
    tell: Tell = lambda _: None,
    store: PlanStore | None = None,
) -> Plansmith:
    """A SQL writer for one database, and a coder; with `sql_only`, statements that are not run.

    The documents of the settings are what is to be known about the data. Where only SQL is
    wanted, hand the question over with `plan(question, target="sql_writer")`.
    """
    base = _Base.of(settings, model=model, folder=folder, tell=tell)
    _find(database)
    prompts = base.settings.planner.prompts
    knowledge = make_sources(base.settings.documents, tell=tell)
    writer = sql_writer(
        model=base.worker,
        database=database,
        knowledge=knowledge,
        run=not sql_only,
        prompts=prompts,
    )
    agents: list[Agent] = [writer]
    if not sql_only:
        agents.append(coder(model=base.worker, folder=base.folder, prompts=prompts))
    address = without_password(database)
    record = Team(
        name="data",
        documents=base.documents,
        folder=base.own_folder,
        database=address,
        password_needed=address != database,
        sql_only=sql_only,
    )
    context = [writer.sql, *knowledge]
    return base.smith(record, store, agents=agents, context=context, shown=base.servers)


def rebuild(
    team: Team,
    settings: Settings,
    *,
    store: PlanStore,
    model: ChatModel | None = None,
    tell: Tell = lambda _: None,
) -> Plansmith:
    """The team that a run recorded, for a process that goes on with the run."""
    settings = settings.replace(documents=tuple(map(Path, team.documents)))
    folder = Path(team.folder) if team.folder else None
    if team.name == "research":
        return research(settings, model=model, folder=folder, tell=tell, store=store)
    return data(
        settings,
        database=_address(team, settings),
        sql_only=team.sql_only,
        model=model,
        folder=folder,
        tell=tell,
        store=store,
    )


def without_password(database: str) -> str:
    """The address of a database as a journal may keep it."""
    parts = urlsplit(database)
    if parts.password is not None:
        user, host = parts.netloc.rpartition("@")[::2]
        parts = parts._replace(netloc=f"{user.partition(':')[0]}@{host}")
    settings = parts.query.split("&")
    kept = [each for each in settings if not _is_password(each.partition("=")[0])]
    # Written anew only where something is left out: `sqlite:///` would lose a slash.
    parts = parts._replace(query="&".join(kept)) if kept != settings else parts
    return urlunsplit(parts) if parts != urlsplit(database) else database


def _is_password(setting: str) -> bool:
    return unquote(setting).lower() in ("password", "sslpassword")


def _address(team: Team, settings: Settings) -> str:
    """The address with its password, which only the settings have."""
    if not team.password_needed:
        return team.database
    known = settings.builtin.databases.values()
    found = [each for each in known if without_password(each) == team.database]
    if not found:
        hint = "name it with its password among [builtin.databases] of your settings"
        raise Misconfigured(f"the password of {team.database} is not kept in runs", hint=hint)
    return found[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Base:
    """What every team is made from."""

    settings: Settings
    folder: Path
    clock: Clock
    secrets: SecretBox
    own: Sequence[ToolSource]
    servers: Sequence[ToolSource]
    worker: ChatModel
    model: ChatModel | None
    tell: Tell

    @classmethod
    def of(
        cls, settings: Settings | None, *, model: ChatModel | None, folder: Path | None, tell: Tell
    ) -> _Base:
        """The settings with the limits of a team, and the parts that they lead to."""
        given = settings or load_settings()
        if model is None and given.models.plan.model in ("demo", "rules"):
            hint = "name a model with --model, such as openai:gpt-5, or set PLANSMITH_MODEL"
            raise Misconfigured("a team needs a language model, and none is set", hint=hint)
        settings = given.replace(
            run=given.run.replace(per_tool=AT_ONCE | given.run.per_tool),
            planner=given.planner.replace(top_k=max(given.planner.top_k, OFFERED)),
        )
        clock, secrets = SystemClock(), SecretBox(settings.secrets)
        # A team has its own choice of built-in tools, and puts the servers where they belong.
        plain = settings.replace(builtin=BuiltinSettings(enabled=False), mcp={})
        servers = make_servers(settings, secrets=secrets, tell=tell)
        return cls(
            settings=settings,
            folder=folder or Path.cwd(),
            clock=clock,
            secrets=secrets,
            own=_sources(make_tools(plain, clock=clock, secrets=secrets, tell=tell)),
            servers=[] if servers is None else [servers],
            worker=model or make_model(settings.models.role("agents"), clock=clock),
            model=model,
            tell=tell,
        )

    @property
    def own_folder(self) -> str:
        """Where files go, if not to the folder of the process."""
        folder = self.folder.resolve()
        return "" if folder == Path.cwd().resolve() else str(folder)

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents of the settings, wherever the next process starts."""
        return tuple(str(each.resolve()) for each in self.settings.documents)

    def smith(
        self,
        team: Team,
        store: PlanStore | None,
        *,
        agents: Sequence[Agent],
        context: Sequence[ContextSource],
        shown: Sequence[ToolSource] = (),
        hidden: Sequence[ToolSource] = (),
    ) -> Plansmith:
        """The team as a Plansmith; `hidden` are the sources that only agents use."""
        writers: list[ToolSource] = [ChartTools(self.folder), WorkspaceTools(self.folder)]
        files = writers if self.settings.builtin.write else []
        limits = self.settings.run
        models: dict[str, Any] = {}
        if self.model is not None:
            models = dict.fromkeys(("model", "triage_model", "report_model"), self.model)
        # Whoever gives a store uses it for other runs too, and closes it.
        own = {} if store is None else {"store": store, "shared_store": True}
        made: Plansmith = make_smith(
            self.settings,
            team=team,
            tell=self.tell,
            clock=self.clock,
            secrets=self.secrets,
            tools=[*files, *self.own, *shown, *map(ForAgents, hidden)],
            agents=[*agents, *known_agents(self.settings, secrets=self.secrets)],
            context=context,
            limits=limits.replace(data_free=(*limits.data_free, *HARMLESS)),
            **models,
            **own,
        )
        return made


class ForAgents:
    """A source that agents use and plans do not; closed with everything else."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source

    async def tools(self) -> Sequence[ToolSpec]:
        """None that a plan could name."""
        return ()

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Nobody is asked here."""
        del arguments, call
        raise ToolFailed(f"{tool} is for agents only")

    async def close(self) -> None:
        """Let go of the source."""
        if isinstance(self._source, Closing):
            await self._source.close()


@dataclass(frozen=True, slots=True)
class Background:
    """A search on the request before there is a plan, as context for the planner."""

    sources: Sequence[ToolSource]
    clock: Clock

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """What the first source that can search has found; without a result, why there is none."""
        for source in self.sources:
            if any(spec.search for spec in await source.tools()):
                found = await investigate(
                    query,
                    search=Search(source),
                    clock=self.clock,
                    tokens=token_limit,
                    count=rough_count,
                )
                if not found.blocks and found.notes:
                    raise ToolFailed("; ".join(found.notes))
                return found.blocks
        raise ToolFailed("no tool is marked as search", hint="set up an MCP server that searches")


def _sources(tools: Sequence[Any]) -> list[ToolSource]:
    """Functions and sources as sources alone, which is what agents take."""
    functions = [each for each in tools if isinstance(each, FunctionTool)]
    others = [each for each in tools if not isinstance(each, FunctionTool)]
    return [FunctionTools(functions), *others] if functions else others


def _documents(paths: Sequence[Path]) -> Path | None:
    """The one folder that researchers read, if there is one."""
    if not paths:
        return None
    if len(paths) > 1 or not paths[0].is_dir():
        hint = "give one folder; what is below it is read too"
        raise Misconfigured("the research team reads one folder of documents", hint=hint)
    return paths[0]


def _readers(base: _Base, documents: Path | None) -> list[ToolSource]:
    """What researchers search and read."""
    web = base.settings.builtin
    files = [FileTools(documents)] if documents else []
    pages = [FetchTools(web.hosts, private=web.private)] if web.hosts or web.private else []
    return [*files, *pages, *base.own, *base.servers]


def _find(database: str) -> None:
    """Say at the start that a file is not there, and not in the middle of a plan."""
    scheme, path = database.partition(":")[0], Path(unquote(urlsplit(database).path)[1:])
    if scheme in ("sqlite", "duckdb") and not path.expanduser().is_file():
        raise Misconfigured(f"there is no database {path}", hint="check the path")
