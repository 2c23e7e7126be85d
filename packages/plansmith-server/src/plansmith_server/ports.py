"""What a server needs of the program that starts it: settings, and what is made as they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, Unpack

from plansmith.app import Plansmith
from plansmith.arguments import Parts
from plansmith.plan.data import Record
from plansmith.plan.run import Run
from plansmith.plan.run_options import TeamName
from plansmith.ports import ChatModel
from plansmith.secrets import SecretSource
from plansmith_connect.a2a.registry import AgentRegistry
from plansmith_planner.settings import Models
from plansmith_server.settings import NoticeSettings, OidcSettings, WorkerSettings
from plansmith_server.team.tenant_book import Tenant


class ServerSettings(Protocol):
    """The settings that a server reads."""

    models: Models
    secrets: dict[str, SecretSource]
    store: str
    workers: WorkerSettings
    keep_runs: str
    oidc: OidcSettings | None
    notices: dict[str, NoticeSettings]

    def store_url(self) -> str: ...

    def folder(self) -> Path: ...

    def stages(self) -> Mapping[str, Record]:
        """Returns the settings after each source of them, such as `default` and `project`."""
        ...


class Teams(Protocol):
    """Finds the Plansmith that continues a run: the server's own, or that of the run's team."""

    async def of_id(self, run_id: str) -> Plansmith: ...

    def of(self, run: Run) -> Plansmith:
        """Returns the Plansmith of a run; raises `OtherTeam` if its team cannot be made here."""
        ...

    def of_name(self, name: TeamName, database: str = "") -> Plansmith:
        """Returns the Plansmith of a team of these settings, for a new run."""
        ...

    def all(self) -> list[Plansmith]: ...

    async def close(self) -> None: ...


class Wiring(Protocol):
    """Makes the parts of a server, or of one of its tenants, as the settings say."""

    @property
    def settings(self) -> ServerSettings: ...

    @property
    def tenant(self) -> Tenant | None:
        """The tenant whose settings they are; None for those of the server."""
        ...

    def make_smith(self, **parts: Unpack[Parts]) -> Plansmith:
        """Makes the Plansmith; the given parts replace those of the settings."""
        ...

    def make_teams(
        self, smith: Plansmith, *, tell: Callable[[str], None], model: ChatModel | None
    ) -> Teams:
        """Makes what finds teams on the store of a Plansmith; `model` replaces their models."""
        ...

    def make_agents(self) -> AgentRegistry | None: ...

    def of_tenant(self, tenant: Tenant) -> Wiring: ...
