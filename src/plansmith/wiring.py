"""From settings to parts: the one table of what is loaded on demand, and its loader (floor 7)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Misconfigured, OtherTeam, PlansmithError

if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.config import Settings
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import Team
    from plansmith.ports import ChatModel

MODELS: Final = {
    "auto": "plansmith.adapters.models.choose:AutoModel",
    "choose": "plansmith.adapters.models.choose:choose",
    "choose_at": "plansmith.adapters.models.choose:choose_at",
    "checked": "plansmith.adapters.models.fact_checked:FactCheckedModel",
    "is_small": "plansmith.adapters.models.fact_checked:is_small",
    "rules": "plansmith.adapters.models.rules:rules_model",
    "shelf": "plansmith.adapters.models.local.files:ModelFolder",
    "demo": "plansmith.adapters.models.demo:demo_model",
    "local": "plansmith.adapters.models.local.embedded:embedded_model",
    "provider": "plansmith.adapters.models.provider:ProviderModel",
    "refusing": "plansmith.adapters.models.wrappers:RefusingModel",
    "recorded": "plansmith.adapters.models.recorded:RecordedModel",
    "retrying": "plansmith.adapters.models.wrappers:RetryingModel",
    "timed": "plansmith.adapters.models.wrappers:TimedModel",
    "limited": "plansmith.adapters.models.wrappers:LimitedModel",
}
CONTEXT: Final = {
    "documents": "plansmith.adapters.context.documents:DocumentSource",
}
TOOLS: Final = {
    "builtin": "plansmith.adapters.tools.builtin:builtin_sources",
    "mcp": "plansmith.adapters.tools.mcp.servers:McpServers",
    "mcp_settings": "plansmith.adapters.tools.mcp.settings:all_servers",
    "described": "plansmith.adapters.tools.toolset:DescribedTools",
    "function": "plansmith.adapters.tools.functions:FunctionTool",
}
PARTS: Final = {
    "smith": "plansmith.app:Plansmith",
    "settings": "plansmith.config:load_settings",
    "clock": "plansmith.adapters.clock:SystemClock",
    "secrets": "plansmith.adapters.secrets:SecretBox",
    "ranker": "plansmith.adapters.ranking.minilm:MiniLmRanker",
    "data_folder": "plansmith.config:data_folder",
    "approvals": "plansmith.adapters.approvals:ApprovalFile",
    "agents": "plansmith.adapters.agents.a2a.registry:AgentRegistry",
    "agent_choices": "plansmith.adapters.agents.a2a.registry:Choices",
    "agent_book": "plansmith.adapters.agents.a2a.book:AgentBook",
    "read_tools": "plansmith.dialects.tools:read_tools",
    "team": "plansmith.teams:rebuild",
    "sqlite_path": "plansmith.adapters.stores.urls:sqlite_path",
}


def load(dotted: str) -> Any:
    """The object at `package.module:name`, imported now."""
    module, _, name = dotted.partition(":")
    return getattr(import_module(module), name)


def make_model(settings: Any, *, clock: Any, tell: Callable[[str], None] = lambda _: None) -> Any:
    """A model of the settings: asked again when busy, limited in time and length.

    Nothing is reached before the first call, so a wrong key or name breaks no start. `tell` hears
    which model was found where none is named.
    """
    name: str = settings.model
    if name in ("demo", "rules"):
        return load(MODELS[name])()
    if name == "auto":
        return _auto(settings, clock=clock, tell=tell)
    if name == "local" or name.startswith("local:"):
        return load(MODELS["local"])(name.removeprefix("local").removeprefix(":"))
    if name.startswith("recorded:"):
        path = Path(name.removeprefix("recorded:"))
        if not path.is_file():
            raise Misconfigured(f"there is no recording {path}", hint="check the path")
        return load(MODELS["recorded"])(path)
    return _provided(settings, clock=clock)


def _provided(settings: Any, *, clock: Any) -> Any:
    """The model of a provider or a server."""
    name: str = settings.model
    if ":" not in name:
        known = "auto, local, rules, demo, recorded:FILE, or provider:name such as openai:gpt-5"
        raise Misconfigured(f"{name!r} is not the name of a model", hint=known)
    variable: str | None = settings.api_key_env
    if variable and not os.environ.get(variable):
        why, hint = f"the environment has no {variable}", f"export {variable}=…"
        return load(MODELS["refusing"])(name, why=why, hint=hint)
    provider = load(MODELS["provider"])(
        name,
        base_url=settings.base_url,
        api_key=os.environ[variable] if variable else None,
        timeout_s=settings.timeout_s,
        output=settings.output,
    )
    if load(MODELS["is_small"])(name):
        provider = load(MODELS["checked"])(provider)
    heard = load(MODELS["timed"])(provider, clock=clock, silence_s=settings.silence_s)
    tried = load(MODELS["retrying"])(heard, clock=clock, tries=settings.tries)
    return load(MODELS["limited"])(tried, context_tokens=settings.context_tokens)


def _auto(settings: Any, *, clock: Any, tell: Callable[[str], None]) -> Any:
    """A model that is looked for when it is first needed."""
    variable: str | None = settings.api_key_env
    if variable and not settings.base_url:
        hint = "name the model that the key is for, too"
        raise Misconfigured("api_key_env is set, and no model", hint=hint)

    def make(choice: Any) -> Any:
        found = {"model": choice.model, "base_url": choice.base_url}
        key = variable or choice.api_key_env
        return make_model(settings.replace(**found, api_key_env=key), clock=clock)

    async def choose() -> Any:
        if settings.base_url:
            key = os.environ.get(variable, "") if variable else ""
            return await load(MODELS["choose_at"])(settings.base_url, key=key)
        return await load(MODELS["choose"])(os.environ, shelf=load(MODELS["shelf"])())

    return load(MODELS["auto"])(choose, make, tell=tell)


def make_sources(documents: Sequence[Path], *, tell: Callable[[str], None]) -> list[Any]:
    """The context sources of the settings."""
    missing = [path for path in documents if not path.exists()]
    if missing:
        raise Misconfigured(f"there is no file or folder {missing[0]}", hint="check the path")
    return [load(CONTEXT["documents"])(documents, tell=tell)] if documents else []


def make_smith(
    settings: Any = None, *, tell: Callable[[str], None] = lambda _: None, **given: Any
) -> Any:
    """A Plansmith as the settings say; `tell` hears of the stages of planning.

    A part that is given takes the place of the one that the settings would make.
    """
    settings = settings or load(PARTS["settings"])()
    given.setdefault("folder", Path.cwd())
    clock = given.setdefault("clock", load(PARTS["clock"])())
    secrets = given.setdefault("secrets", load(PARTS["secrets"])(settings.secrets))
    models = settings.models
    demo = "model" not in given and models.plan.model == "demo"

    def say(text: str) -> None:
        smith.runs.planner.tell(text)  # by name: it changes while a run is shown

    parts: dict[str, Callable[[], Any]] = {
        "model": lambda: make_model(models.plan, clock=clock, tell=say),
        "triage_model": lambda: models.triage and make_model(models.triage, clock=clock, tell=say),
        "report_model": lambda: models.report and make_model(models.report, clock=clock, tell=say),
        "tools": lambda: make_tools(settings, clock=clock, secrets=secrets, tell=tell),
        "agents": lambda: known_agents(settings, secrets=secrets),
        # The demo's script has no other plan to offer.
        "limits": lambda: settings.run.replace(max_replans=0) if demo else settings.run,
        "store": lambda: make_store_url(settings),
        "ranker": lambda: load(PARTS["ranker"])() if settings.planner.semantic else None,
    }
    made = given | {name: make() for name, make in parts.items() if name not in given}
    if "context" not in made:
        made["context"] = [*make_sources(settings.documents, tell=tell), *_telling(made["tools"])]
    smith = load(PARTS["smith"])(
        settings=settings,
        policy=settings.review,
        budget=settings.budget,
        tell=tell,
        **made,
    )
    return smith


_MOST_KNOWN: Final = 10_000


class TeamSmiths:
    """Finds the Plansmith that goes on with a run: ours, or that of the team the run belongs to.

    A team is made when the first of its runs is met, over the same store, and kept.
    """

    def __init__(
        self,
        smith: Plansmith,
        settings: Settings,
        *,
        tell: Callable[[str], None] = lambda _: None,
        model: ChatModel | None = None,
    ) -> None:
        self._smith = smith
        self._settings = settings
        self._tell = tell
        self._model = model
        self._made: dict[Team, Plansmith] = {}
        self._ordinary: set[str] = set()

    async def of_id(self, run_id: str) -> Plansmith:
        """The Plansmith of the run of an id; what a run belongs to never changes."""
        if run_id in self._ordinary:
            return self._smith
        run = (await self._smith.runs.journals.load(run_id)).run
        if run.options.team is None:
            if len(self._ordinary) >= _MOST_KNOWN:
                self._ordinary.clear()
            self._ordinary.add(run_id)
        return self.of(run)

    def of(self, run: Run) -> Plansmith:
        """The Plansmith of a run; `OtherTeam` says why its team cannot be made here."""
        team, own = run.options.team, self._smith.runs.journals.team
        if team is None or (own is not None and own.name == team.name):
            return self._smith
        if team not in self._made:
            parts = {"store": self._smith.store, "model": self._model, "tell": self._tell}
            try:
                self._made[team] = load(PARTS["team"])(team, self._settings, **parts)
            except (ImportError, PlansmithError) as error:
                told = f"run {run.id} needs the {team.name} team, which cannot be made here"
                why = getattr(error, "message", error)
                hint = getattr(error, "hint", "pip install 'plansmith[all]'")
                raise OtherTeam(f"{told}: {why}", hint=hint) from None
        return self._made[team]

    async def close(self) -> None:
        """Let go of every team."""
        for each in self._made.values():
            await each.close()


def _telling(tools: Sequence[Any]) -> list[Any]:
    """Tables are both: tools, and something that a planner should know."""
    return [each for each in tools if hasattr(each, "gather")]


def make_store_url(settings: Any) -> str:
    """Where runs are kept; the folder of a new file is made."""
    url: str = settings.store_url()
    if url.startswith("sqlite:"):
        folder: Path = load(PARTS["sqlite_path"])(url).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "name another place with --store sqlite:///FILE"
            raise Misconfigured(f"cannot make {folder}: {error.strerror}", hint=hint) from None
    return url


def make_tools(
    settings: Any, *, clock: Any, secrets: Any, tell: Callable[[str], None] = lambda _: None
) -> list[Any]:
    """The tools of the settings: built-in ones, functions and descriptions in files, servers."""
    sources: list[Any] = []
    if settings.builtin.enabled:
        given = {name: each for name, each in settings.builtin if name != "enabled"}
        zone = settings.planner.timezone
        sources += load(TOOLS["builtin"])(Path.cwd(), zone=zone, clock=clock, **given)
    specs: list[Any] = []
    for path in settings.tools:
        if path.suffix == ".py":
            sources += python_tools(path)
        else:
            specs += load(PARTS["read_tools"])(_text(path))
    if specs:
        sources.append(load(TOOLS["described"])(specs))
    servers = make_servers(settings, secrets=secrets, tell=tell)
    return [*sources, servers] if servers is not None else sources


def make_servers(
    settings: Any, *, secrets: Any, tell: Callable[[str], None] = lambda _: None
) -> Any:
    """The MCP servers of the settings, or nothing where there are none."""
    if not settings.mcp.servers and not settings.mcp.files:
        return None
    found = load(TOOLS["mcp_settings"])(settings.mcp)
    for note in found.notes:
        tell(note)
    return load(TOOLS["mcp"])(
        {name: _started_apart(each) for name, each in found.servers.items()},
        approvals=_approvals(settings),
        environment=Places(secrets, "mcp"),
        tell=tell,
    )


def _started_apart(server: Any) -> Any:
    """A server that names no folder starts in an empty one.

    Where the person stands, `npx` and `python -m` would run what a stranger put there.
    """
    if not server.command or server.cwd:
        return server
    place: Path = load(PARTS["data_folder"])() / "servers"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return server.replace(cwd=str(place))


def known_agents(settings: Any, *, secrets: Any) -> list[Any]:
    """The A2A agents of the settings and those that were added by address."""
    kept: Path = load(PARTS["data_folder"])() / "agents"
    if not settings.agents and not kept.is_dir():
        return []
    return list(make_agents(settings, secrets=secrets).agents())


def make_agents(settings: Any, *, secrets: Any) -> Any:
    """The registry of A2A agents; nothing is reached before the first call."""

    def lookup(place: str, agent: str) -> str | None:
        return Places(secrets, agent).get(place)

    return load(PARTS["agents"])(
        settings=settings.agents,
        book=load(PARTS["agent_book"])(load(PARTS["data_folder"])() / "agents"),
        approvals=_approvals(settings),
        lookup=lookup,
    )


def _approvals(settings: Any) -> Any:
    path = settings.mcp.approvals or load(PARTS["data_folder"])() / "approvals.json"
    return load(PARTS["approvals"])(path)


class Places(Mapping[str, str]):
    """What `${…}` stands for in the settings of a server or an agent: a variable or a secret."""

    def __init__(self, secrets: Any, who: str) -> None:
        self._secrets = secrets
        self._who = who

    def __getitem__(self, place: str) -> str:
        kind, _, name = place.partition(":")
        return str(self._secrets.reveal(name, self._who)) if kind == "secret" else os.environ[place]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Misconfigured(f"cannot read {path}: {error.strerror}", hint="check it") from None


def python_tools(path: Path) -> list[Any]:
    """The functions of a Python file that are marked with `@tool`; the file is run for that."""
    spec = spec_from_file_location(f"plansmith_tools_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise Misconfigured(f"there is no file {path}", hint="check the path")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever the file raises is what is wrong with it
        raise Misconfigured(f"{path} cannot be run: {error}", hint="mend the file") from None
    kind: type = load(TOOLS["function"])
    found = [each for each in vars(module).values() if isinstance(each, kind)]
    if not found:
        raise Misconfigured(f"{path} has no tools", hint="mark functions with @tool")
    return found
