"""The settings of a tenant: its own file, on top of what it takes from its server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith_cli.config import Settings, merge_tables, parse_settings, read_file
from plansmith_server.team.tenant_book import Tenant, tenant_store

# What a tenant takes from the settings of the server; everything else is its own.
_INHERITED: Final = {"models", "planner", "run", "budget", "review"}


class TenantSettings(Settings):
    """The settings of a tenant: its tools, agents and approvals are in its own folders."""

    records_folder: ClassVar[bool] = False
    tenant: Tenant

    def folder(self) -> Path:
        """Returns the folder that tools work in."""
        return self.tenant.folder

    def data(self) -> Path:
        """Returns the folder of approvals and agent cards."""
        return self.tenant.home

    def stages(self) -> Mapping[str, Settings]:
        """Returns the settings that nobody has set, and these."""
        return {"default": Settings(), "tenant": Settings.model_construct(None, **_fields(self))}


def tenant_settings(
    tenant: Tenant, base: Settings, changes: Mapping[str, Any] | None = None
) -> TenantSettings:
    """Returns the settings of a tenant on a server with the settings `base`.

    A settings file in the folder that its tools work in does not count.
    """
    own = read_file(tenant.config)
    if "store" in own:
        hint = Sentence("remove it: a tenant's store is beside that of the server")
        raise Misconfigured(Sentence("{path} cannot set the store", path=tenant.config), hint=hint)
    merged = merge_tables(base.model_dump(include=_INHERITED), own)
    whole = parse_settings(
        merge_tables(merged, dict(changes or {})),
        Sentence("the settings of the tenant {name}", name=tenant.name),
    )
    given = {"tenant": tenant, "store": tenant_store(base.store_url(), tenant.key)}
    return TenantSettings.model_validate(_fields(whole) | given)


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.model_fields}
