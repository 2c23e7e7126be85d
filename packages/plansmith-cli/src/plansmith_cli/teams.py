"""Makes teams: a Plansmith with agents, tools, context and limits for one kind of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import unquote, urlsplit, urlunsplit

from plansmith import Call, Plansmith, ToolFailed, ToolSpec, ports
from plansmith.arguments import Parts
from plansmith.clock import SystemClock
from plansmith.plan.data import Json
from plansmith.plan.run_options import Team, TeamName
from plansmith.plan.sentence import Sentence
from plansmith.runs.replan import IterationRules
from plansmith.secrets import SecretBox
from plansmith.tools.functions import FunctionTool, FunctionTools
from plansmith_cli.config import Settings, load_settings
from plansmith_cli.ui.output import wrong
from plansmith_cli.wiring import known_agents, make_servers, make_smith, make_sources, make_tools
from plansmith_desk.agents.coder import coder
from plansmith_desk.agents.reflecting import Reflecting
from plansmith_desk.agents.researcher import researcher
from plansmith_desk.agents.sql_writer import sql_writer
from plansmith_desk.charts import ChartTools
from plansmith_desk.files.tools import FileTools, WorkspaceTools
from plansmith_desk.settings import BuiltinSettings
from plansmith_desk.web import FetchTools
from plansmith_planner.context.background import Background
from plansmith_planner.make import make_model

CALLS_AT_ONCE: Final = {"researcher": 4, "coder": 4, "sql_writer": 4}
# The shortlist must be long enough for every agent of a team and the person's tools.
_SHORTLIST_LENGTH: Final = 12
# A chart only draws the rows of a step in the approved plan.
_MAY_GET_DATA: Final = ("charts.draw",)
# Databases in files, which have no passwords.
_FILES: Final = ("sqlite", "duckdb")
Tell = Callable[[str], None]


class Given(TypedDict, total=False):
    """What may be given to a team: a model for all roles, a folder for charts and files, a store.

    `tell` gets messages for the person.
    """

    model: ports.ChatModel | None
    folder: Path | None
    tell: Tell
    store: ports.JournalStore | None


def research(settings: Settings | None = None, **given: Unpack[Given]) -> Plansmith:
    """Makes a team of researchers and coders that search documents, MCP servers and the web."""
    base = _Base(settings, **given)
    documents = _documents(base.settings.documents)
    web = base.settings.builtin
    readers: list[ports.ToolSource] = [FileTools(documents)] if documents else []
    if web.hosts or web.private:
        readers.append(FetchTools(web.hosts, private=web.private))
    readers += [*base.tools, *base.servers]
    if not readers:
        raise wrong(
            "there are no sources to research",
            "give a folder with --docs, or set up an MCP server that searches",
        )
    prompts = base.settings.planner.prompts
    team: list[ports.Agent] = [
        researcher(model=base.worker, sources=readers, prompts=prompts, asks=True),
        coder(model=base.worker, folder=documents or base.folder, prompts=prompts, asks=True),
    ]
    context = make_sources(base.settings.documents, tell=base.tell)
    if base.settings.planner.background_search:
        context.append(Background(readers, base.clock))
    agents = [Reflecting(agent=each, model=base.worker, prompts=prompts) for each in team]
    record = base.record("research")
    return base.smith(record, agents=agents, context=context, hidden=base.servers)


def data(
    settings: Settings | None = None,
    *,
    database: str | Mapping[str, str],
    sql_only: bool = False,
    **given: Unpack[Given],
) -> Plansmith:
    """Makes a team of a SQL writer and a coder; with `sql_only`, SQL is written but not run.

    `database` is an address, or several by name. The documents of the settings describe the data.
    With `sql_only`, ask with `plan(question, target="sql_writer")`.
    """
    base = _Base(settings, **given)
    named = {"": database} if isinstance(database, str) else dict(database)
    for each in named.values():  # refused now, and not in the middle of a plan
        path = Path(unquote(urlsplit(each).path)[1:])
        if each.partition(":")[0] in _FILES and not path.expanduser().is_file():
            raise wrong("there is no database {path}", "check the path", path=path)
    prompts = base.settings.planner.prompts
    knowledge = make_sources(base.settings.documents, tell=base.tell)
    writer = sql_writer(
        model=base.worker, database=database, knowledge=knowledge, run=not sql_only, prompts=prompts
    )
    agents: list[ports.Agent] = [writer]
    if not sql_only:
        agents.append(coder(model=base.worker, folder=base.folder, prompts=prompts, asks=True))
    addresses = {name: without_password(each) for name, each in named.items()}
    record = base.record(
        "data",
        database=addresses.get("", ""),
        databases={name: each for name, each in addresses.items() if name},
        password_needed=addresses != named,
        sql_only=sql_only,
    )
    context = [writer.sql, *knowledge]
    return base.smith(record, agents=agents, context=context, planned=base.servers)


def rebuild(team: Team, settings: Settings, **given: Unpack[Given]) -> Plansmith:
    """Makes the team that a run records, so that another process can continue the run."""
    settings = settings.replace(documents=tuple(map(Path, team.documents)))
    given["folder"] = Path(team.folder) if team.folder else None
    if team.name == "research":
        return research(settings, **given)
    named = team.databases or {"": team.database}
    addresses = {name: _with_password(team, each, settings) for name, each in named.items()}
    database = addresses if team.databases else addresses[""]
    return data(settings, database=database, sql_only=team.sql_only, **given)


def without_password(database: str) -> str:
    """Returns the address of a database without its password."""
    parts = urlsplit(database)
    if parts.password is not None:
        user, host = parts.netloc.rpartition("@")[::2]
        parts = parts._replace(netloc=f"{user.partition(':')[0]}@{host}")
    settings = parts.query.split("&")
    names = [unquote(each.partition("=")[0]).lower() for each in settings]
    kept = [
        each
        for name, each in zip(names, settings, strict=True)
        if name not in ("password", "sslpassword")
    ]
    # Written anew only where something is left out: `sqlite:///` would lose a slash.
    parts = parts._replace(query="&".join(kept)) if kept != settings else parts
    return urlunsplit(parts) if parts != urlsplit(database) else database


def _with_password(team: Team, address: str, settings: Settings) -> str:
    """Returns an address with its password, which only the settings have."""
    if not team.password_needed:
        return address
    known = settings.builtin.databases.values()
    found = [each for each in known if without_password(each) == address]
    if not found and urlsplit(address).scheme not in _FILES:
        raise wrong(
            "the password of {address} is not stored in runs",
            "add it with its password to [builtin.databases] of your settings",
            address=address,
        )
    return found[0] if found else address


class _Base:
    """The parts that every team is made from, of settings that are adjusted for a team."""

    def __init__(
        self,
        settings: Settings | None,
        *,
        model: ports.ChatModel | None = None,
        folder: Path | None = None,
        tell: Tell = lambda _: None,
        store: ports.JournalStore | None = None,
    ) -> None:
        given = settings or load_settings()
        if model is None and given.models.plan.model == "rules":
            raise wrong(
                "a team needs a language model, and none is set",
                "name a model with --model, such as openai:gpt-5, or set PLANSMITH_MODEL",
            )
        self.settings = settings = given.replace(
            run=given.run.replace(per_tool=CALLS_AT_ONCE | given.run.per_tool),
            planner=given.planner.replace(top_k=max(given.planner.top_k, _SHORTLIST_LENGTH)),
        )
        self.clock, self.secrets = clock, secrets = SystemClock(), SecretBox(settings.secrets)
        self.folder, self.tell = folder or settings.folder(), tell
        self.model, self.store = model, store
        servers = make_servers(settings, secrets=secrets, tell=tell)
        self.servers: list[ports.ToolSource] = [] if servers is None else [servers]
        self.worker = model or make_model(settings.models.role("agents"), clock=clock)
        # A team chooses its built-in tools itself, and uses the MCP servers in its own way.
        plain = settings.replace(builtin=BuiltinSettings(enabled=False), mcp={})
        tools = make_tools(plain, clock=clock, secrets=secrets, tell=tell)
        # Agents take only sources: the functions among the tools are one.
        functions = [each for each in tools if isinstance(each, FunctionTool)]
        others = [each for each in tools if not isinstance(each, FunctionTool)]
        self.tools: list[ports.ToolSource] = [FunctionTools(functions)] if functions else []
        self.tools += others

    def record(self, name: TeamName, **more: Any) -> Team:
        documents = tuple(str(each.resolve()) for each in self.settings.documents)
        folder = self.folder.resolve()
        is_working = folder == self.settings.folder().resolve()
        return Team(
            name=name, documents=documents, folder="" if is_working else str(folder), **more
        )

    def smith(
        self,
        team: Team,
        *,
        agents: Sequence[ports.Agent],
        context: Sequence[ports.ContextSource],
        planned: Sequence[ports.ToolSource] = (),
        hidden: Sequence[ports.ToolSource] = (),
    ) -> Plansmith:
        """Makes the Plansmith; plans use the `planned` sources, only agents the `hidden` ones."""
        writers: list[ports.ToolSource] = [ChartTools(self.folder), WorkspaceTools(self.folder)]
        files = writers if self.settings.builtin.write else []
        limits = self.settings.run
        parts = Parts(
            team=team,
            tell=self.tell,
            clock=self.clock,
            secrets=self.secrets,
            tools=[*files, *self.tools, *planned, *map(ForAgents, hidden)],
            agents=[*agents, *known_agents(self.settings, secrets=self.secrets)],
            context=context,
            limits=limits.replace(data_free=(*limits.data_free, *_MAY_GET_DATA)),
            iterations=IterationRules(partial_reply=True),
        )
        if (model := self.model) is not None:
            parts |= {"model": model, "triage_model": model, "report_model": model}
        if (store := self.store) is not None:  # of the caller, who closes it
            parts |= {"store": store, "shared_store": True}
        return make_smith(self.settings, **parts)


class ForAgents:
    """A source that only agents use, kept here so that it is closed with the team."""

    def __init__(self, source: ports.ToolSource) -> None:
        self._source = source

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns no tools, so that plans cannot name any."""
        return ()

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del arguments, call
        raise ToolFailed(Sentence("{tool} is for agents only", tool=tool))

    async def close(self) -> None:
        if isinstance(self._source, ports.Closing):
            await self._source.close()


def _documents(paths: Sequence[Path]) -> Path | None:
    if not paths:
        return None
    if len(paths) > 1 or not paths[0].is_dir():
        raise wrong(
            "the research team needs exactly one folder of documents",
            "give one folder; its subfolders are read too",
        )
    return paths[0]
