"""Makes what a server, a worker and an MCP server consist of, and the settings of tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from plansmith.app import Plansmith
from plansmith.arguments import Parts
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel
from plansmith.secrets import SecretBox
from plansmith_cli import wiring
from plansmith_cli.config import Settings, merge_tables, parse_settings, read_file
from plansmith_cli.team_smiths import TeamSmiths
from plansmith_cli.ui.output import wrong
from plansmith_server.team.tenant_book import Tenant, tenant_store

if TYPE_CHECKING:
    from plansmith_connect.a2a.registry import AgentRegistry

# What a tenant takes from the settings of the server; everything else is its own.
_INHERITED: Final = {"models", "planner", "run", "budget", "review"}


class TenantSettings(Settings):
    """The settings of a tenant: its tools, agents and approvals are in its own folders."""

    records_folder: ClassVar[bool] = False
    tenant: Tenant

    def folder(self) -> Path:
        return self.tenant.folder

    def data(self) -> Path:
        return self.tenant.home

    def stages(self) -> Mapping[str, Settings]:
        return {"default": Settings(), "tenant": Settings.model_construct(None, **_fields(self))}


def tenant_settings(
    tenant: Tenant, base: Settings, changes: Mapping[str, Any] | None = None
) -> TenantSettings:
    """Returns the settings of a tenant: its own file, on top of what it takes from its server.

    A settings file in the folder that its tools work in does not count.
    """
    own = read_file(tenant.config)
    if "store" in own:
        raise wrong(
            "{path} cannot set the store",
            "remove it: a tenant's store is beside that of the server",
            path=tenant.config,
        )
    merged = merge_tables(base.model_dump(include=_INHERITED), own)
    whole = parse_settings(
        merge_tables(merged, dict(changes or {})),
        Sentence("the settings of the tenant {name}", name=tenant.name),
    )
    given = {"tenant": tenant, "store": tenant_store(base.store_url(), tenant.key)}
    return TenantSettings.model_validate(_fields(whole) | given)


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.model_fields}


class ServerWiring:
    """The `Wiring` of a server whose settings are those of the command line."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def tenant(self) -> Tenant | None:
        return self.settings.tenant if isinstance(self.settings, TenantSettings) else None

    def make_smith(self, **parts: Unpack[Parts]) -> Plansmith:
        return wiring.make_smith(self.settings, **parts)

    def make_teams(
        self, smith: Plansmith, *, tell: Callable[[str], None], model: ChatModel | None
    ) -> TeamSmiths:
        return TeamSmiths(smith, self.settings, tell=tell, model=model)

    def make_agents(self) -> AgentRegistry | None:
        if not wiring.has_agents(self.settings):
            return None
        return wiring.make_agents(self.settings, secrets=SecretBox(self.settings.secrets))

    def of_tenant(self, tenant: Tenant) -> ServerWiring:
        return ServerWiring(tenant_settings(tenant, self.settings))
