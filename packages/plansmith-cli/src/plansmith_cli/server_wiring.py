"""Makes what a server, a worker and an MCP server consist of, as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from plansmith.app import Plansmith
from plansmith.ports import ChatModel
from plansmith.runs.options import Parts
from plansmith.secrets import SecretBox
from plansmith_cli import wiring
from plansmith_cli.config import Settings
from plansmith_cli.team_smiths import TeamSmiths
from plansmith_cli.tenant_settings import TenantSettings, tenant_settings
from plansmith_server.team.tenant_book import Tenant

if TYPE_CHECKING:
    from plansmith_connect.a2a.registry import AgentRegistry


class ServerWiring:
    """The `Wiring` of a server whose settings are those of the command line."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def tenant(self) -> Tenant | None:
        """The tenant whose settings they are; None for those of the server."""
        return self.settings.tenant if isinstance(self.settings, TenantSettings) else None

    def make_smith(self, **parts: Unpack[Parts]) -> Plansmith:
        """Makes the Plansmith; the given parts replace those of the settings."""
        return wiring.make_smith(self.settings, **parts)

    def make_teams(
        self, smith: Plansmith, *, tell: Callable[[str], None], model: ChatModel | None
    ) -> TeamSmiths:
        """Makes what finds teams on the store of a Plansmith; `model` replaces their models."""
        return TeamSmiths(smith, self.settings, tell=tell, model=model)

    def make_agents(self) -> AgentRegistry | None:
        """Makes the registry of A2A agents; None if there are no agents."""
        if not wiring.has_agents(self.settings):
            return None
        return wiring.make_agents(self.settings, secrets=SecretBox(self.settings.secrets))

    def of_tenant(self, tenant: Tenant) -> ServerWiring:
        """Returns the wiring of a tenant of this server."""
        return ServerWiring(tenant_settings(tenant, self.settings))
