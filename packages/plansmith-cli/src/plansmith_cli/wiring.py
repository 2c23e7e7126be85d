"""Makes a Plansmith and its parts from settings; loads what is optional or slow on demand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from pydantic import BaseModel

from plansmith import plugins
from plansmith.app import Plansmith
from plansmith.arguments import Parts
from plansmith.clock import SystemClock
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE, beside, protect
from plansmith.secrets import SecretBox
from plansmith.store.urls import sqlite_path
from plansmith_cli.config import Settings, load_settings
from plansmith_cli.folders import config_folder, state_folder
from plansmith_cli.trust import command_files, paths_in
from plansmith_cli.ui.output import read_file, wrong
from plansmith_connect.approvals import ApprovalFile
from plansmith_connect.mcp.settings import all_servers
from plansmith_planner.make import make_model

if TYPE_CHECKING:
    from plansmith.check import rehearsal
    from plansmith.plan.capability import ToolSpec
    from plansmith.plan.planning import Tell
    from plansmith.ports import Agent, Clock, ContextSource, Secrets, ToolMaker, ToolSource
    from plansmith.tools import functions
    from plansmith_cli import tool_lists
    from plansmith_connect.a2a import registry
    from plansmith_connect.mcp import servers as mcp_servers
    from plansmith_desk import folder_brief, toolset
    from plansmith_planner import instant as instant_rules
    from plansmith_planner.context import documents as document_files
    from plansmith_planner.language import locales
else:
    lazy_modules(
        globals(),
        document_files="plansmith_planner.context.documents",
        folder_brief="plansmith_desk.folder_brief",
        functions="plansmith.tools.functions",
        instant_rules="plansmith_planner.instant",
        locales="plansmith_planner.language.locales",
        mcp_servers="plansmith_connect.mcp.servers",
        registry="plansmith_connect.a2a.registry",
        rehearsal="plansmith.check.rehearsal",
        tool_lists="plansmith_cli.tool_lists",
        toolset="plansmith_desk.toolset",
    )


# The name under which the built-in tools are brought, and of their settings.
_BUILTIN: Final = "builtin"


def make_sources(documents: Sequence[Path], *, tell: Tell) -> list[ContextSource]:
    """Makes the context sources of the settings."""
    missing = [path for path in documents if not path.exists()]
    if missing:
        raise wrong("there is no file or folder {path}", "check the path", path=missing[0])
    return [document_files.DocumentSource(documents, tell=tell)] if documents else []


def make_smith(settings: Settings | None = None, **parts: Unpack[Parts]) -> Plansmith:
    """Makes a Plansmith as the settings say; the given parts replace those of the settings."""
    settings = settings or load_settings()
    protect(_started_with(settings))
    tell = parts.setdefault("tell", lambda _: None)
    clock = parts.setdefault("clock", SystemClock())
    secrets = parts.setdefault("secrets", SecretBox(settings.secrets))
    parts.setdefault("folder", settings.folder())
    parts.setdefault("records_folder", settings.records_folder)
    parts.setdefault("policy", settings.review)
    parts.setdefault("budget", settings.budget)
    parts.setdefault("limits", settings.run)
    if "tools" not in parts:
        parts["tools"] = make_tools(settings, clock=clock, secrets=secrets, tell=tell)
    if "agents" not in parts:
        parts["agents"] = known_agents(settings, secrets=secrets)
    if "store" not in parts:
        parts["store"] = make_store_url(settings)
    if "context" not in parts:
        # Some tools are context sources too: databases tell a planner what is in them.
        telling = [each for each in parts["tools"] if hasattr(each, "gather")]
        documents = make_sources(settings.documents, tell=tell)
        folder = [folder_brief.FolderBrief(settings.folder())] if settings.builtin.enabled else []
        parts["context"] = [*documents, *cast("list[ContextSource]", telling), *folder]

    models = settings.models
    roles = {"model": models.plan, "triage_model": models.triage, "report_model": models.report}
    given: dict[str, Any] = {
        name: make_model(role, clock=clock, tell=tell)
        for name, role in roles.items()
        if name not in parts and role
    }
    return Plansmith(settings=settings.planner, **parts, **given)


def _started_with(settings: Settings) -> Iterator[Path]:
    """Yields the files and folders that settings name, but for documents, which may change."""
    named = paths_in({**_table(settings), "documents": []})
    for path in (Path(name).expanduser() for _, name in named):
        yield from (path, *path.glob("*"))
    yield from (settings.folder() / PROJECT_FILE, settings.data(), config_folder(), state_folder())
    if settings.store_url().startswith("sqlite:"):
        yield from beside([sqlite_path(settings.store_url())])


def _table(value: Any) -> Any:
    """Returns settings as a table; pydantic would first load what serialises them."""
    if isinstance(value, BaseModel):
        return {name: _table(each) for name, each in value if each is not None}
    if isinstance(value, dict):
        return {name: _table(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_table(each) for each in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, Path) else value


def make_store_url(settings: Settings) -> str:
    """Returns the URL of the store of runs; makes the folder of a SQLite file."""
    url = settings.store_url()
    if url.startswith("sqlite:"):
        folder = sqlite_path(url).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise wrong(
                "cannot make {folder}: {why}",
                "name another file with --store sqlite:///FILE",
                folder=folder,
                why=error.strerror,
            ) from None
    return url


def make_tools(
    settings: Settings, *, clock: Clock, secrets: Secrets, tell: Tell = lambda _: None
) -> list[functions.FunctionTool[..., Any] | ToolSource]:
    """Makes the tools: built-in ones, those of installed packages, of files, and MCP servers."""
    sources: list[functions.FunctionTool[..., Any] | ToolSource] = []
    if settings.builtin.enabled:
        sources += builtin_tools(settings, clock=clock)
    for name in plugins.names("tools"):
        if name != _BUILTIN:
            sources += _plugin_tools(name, settings, clock)
    specs: list[ToolSpec] = []
    for path in settings.tools:
        if path.suffix == ".py":
            sources += python_tools(path)
        else:
            specs += tool_lists.read_tools(read_file(str(path)).decode("utf-8", "replace"))
    if specs:
        sources.append(toolset.DescribedTools(specs))
    servers = make_servers(settings, secrets=secrets, tell=tell)
    return [*sources, servers] if servers is not None else sources


def builtin_tools(settings: Settings, *, clock: Clock | None = None) -> list[ToolSource]:
    """Makes the built-in tools for this folder; there are none without their package."""
    if _BUILTIN not in plugins.names("tools"):
        return []
    given = {name: each for name, each in settings.builtin if name != "enabled"}
    return _plugin_tools(_BUILTIN, settings, clock or SystemClock(), **given)


def _plugin_tools(name: str, settings: Settings, clock: Clock, **more: Any) -> list[ToolSource]:
    make: ToolMaker = plugins.load("tools", name)
    return [*make(settings.folder(), zone=settings.planner.timezone, clock=clock, **more)]


async def rules_plan(request: str, settings: Settings) -> bool:
    """Tells whether the built-in tools answer a request by rules, so that no model is needed."""
    if not settings.builtin.enabled or not settings.planner.triage:
        return False
    clock = SystemClock()
    listed = [(each, await each.tools()) for each in builtin_tools(settings, clock=clock)]
    found = await instant_rules.instant(
        request,
        tools=[spec for _, specs in listed for spec in specs],
        rehearse=rehearsal.rehearsal_with(
            {spec.name: source for source, specs in listed for spec in specs}
        ),
        locale=locales.locale_of(request),
    )
    return found is not None


def make_servers(
    settings: Settings, *, secrets: Secrets, tell: Tell = lambda _: None
) -> mcp_servers.McpServers | None:
    """Makes the MCP servers of the settings, each in a folder of its own; None without any."""
    if not settings.mcp.servers and not settings.mcp.files:
        return None
    found = all_servers(settings.mcp)
    for note in found.notes:
        tell(note)
    own, servers = settings.data() / "servers", dict(found.servers)
    for name, server in found.servers.items():
        if server.command and not server.cwd and not server.folder:
            # In the working folder, `npx` and `python -m` would run whatever code lies there.
            own.mkdir(parents=True, exist_ok=True, mode=0o700)
            servers[name] = server.replace(cwd=str(own))
        protect(command_files(dict(servers[name]), settings.data()))
    return mcp_servers.McpServers(
        servers, approvals=_approvals(settings), environment=_Lookup(secrets, "mcp"), tell=tell
    )


def known_agents(settings: Settings, *, secrets: Secrets) -> list[Agent]:
    """Returns the A2A agents of the settings and those that were added by address."""
    return make_agents(settings, secrets=secrets).agents() if has_agents(settings) else []


def has_agents(settings: Settings) -> bool:
    """Tells whether the settings name A2A agents, or some were added by address."""
    return bool(settings.agents) or (settings.data() / "agents").is_dir()


def make_agents(settings: Settings, *, secrets: Secrets) -> registry.AgentRegistry:
    """Makes the registry of A2A agents; contacts none of them."""
    return registry.AgentRegistry(
        settings=settings.agents,
        book=registry.AgentBook(settings.data() / "agents"),
        approvals=_approvals(settings),
        lookup=lambda place, agent: _Lookup(secrets, agent).get(place),
    )


def _approvals(settings: Settings) -> ApprovalFile:
    return ApprovalFile(settings.mcp.approvals or settings.data() / "approvals.json")


class _Lookup(Mapping[str, str]):
    """Looks up `${…}` in the settings of a server or an agent: a variable or a secret."""

    def __init__(self, secrets: Secrets, who: str) -> None:
        self._secrets, self._who = secrets, who

    def __getitem__(self, place: str) -> str:
        kind, _, name = place.partition(":")
        return self._secrets.reveal(name, self._who) if kind == "secret" else os.environ[place]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def python_tools(path: Path) -> list[functions.FunctionTool[..., Any]]:
    """Runs a Python file and returns its functions that are marked with `@tool`."""
    spec = spec_from_file_location(f"plansmith_tools_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise wrong("there is no file {file}", "check the path", file=path)
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is what is wrong with the file
        ended = Sentence("it ended with {code}", code=str(error))
        why = error if isinstance(error, Exception) else ended
        raise wrong(
            "{file} cannot be run: {error}", "fix the error in the file", file=path, error=why
        ) from None
    found: list[functions.FunctionTool[..., Any]] = [
        each for each in vars(module).values() if isinstance(each, functions.FunctionTool)
    ]
    if not found:
        raise wrong("{file} has no tools", "mark functions with @tool", file=path)
    return found
