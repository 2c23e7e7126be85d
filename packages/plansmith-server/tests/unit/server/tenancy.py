"""Tenants of a server in tests: each with a tool, a marker of its own, and clients by role."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from tests.unit.server.house import ApiClient, House

from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import Member

TOOLS = """
from pathlib import Path
from plansmith import tool

HERE = Path(__file__).parent

@tool(effect="read")
def look(name: str) -> str:
    "Looks something up."
    return f"MARK saw {name}"

@tool(effect="write")
def note(text: str) -> str:
    "Writes a note."
    with (HERE / "notes.txt").open("a") as file:
        file.write(text + "\\n")
    return "written"
"""


def tenant(folder: Path, name: str, settings: str = "") -> Tenant:
    """Creates a tenant with two tools; `look` returns the name of the tenant."""
    made = TenantBook(folder).create(name)
    (made.home / "tools.py").write_text(TOOLS.replace("MARK", f"mark-of-{name}"))
    made.config.write_text(f'tools = ["tools.py"]\n{settings}')
    return made


def note(name: str, text: str = "hello") -> dict[str, Any]:
    """A step that writes a note."""
    return {"id": name, "kind": "tool", "tool": "note", "inputs": {"text": text}}


def look(name: str) -> dict[str, Any]:
    """A step that only reads."""
    return {"id": name, "kind": "tool", "tool": "look", "inputs": {"name": "x"}}


def notes(tenant: Tenant) -> list[str]:
    """What the tool `note` wrote."""
    path = tenant.home / "notes.txt"
    return path.read_text().splitlines() if path.exists() else []


class Client(ApiClient):
    """A user of a tenant."""

    @property
    def web(self) -> httpx.AsyncClient:
        return self.client

    async def until(self, run_id: str, *statuses: str) -> Any:
        """The run once it has one of the statuses, by its stream and not by the clock."""
        async with self.client.stream("GET", "/v1/events", params={"run": run_id}) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data:"):
                    continue
                run = await self.get(f"/v1/runs/{run_id}")
                if run["status"] in statuses:
                    return run
        raise AssertionError(f"the stream of {run_id} ended")


def secret(house: House, member: Member, *scopes: str, name: str = "") -> str:
    """The secret of a new token of a user."""
    now = house.server_state.smith.runs.journals.clock.now()
    name = name or f"{member.user}-{member.tenant}-{member.role or '-'.join(scopes)}"
    return house.tokens.create(name, scopes, by="root", now=now, lasts=None, member=member)[1]


@contextlib.asynccontextmanager
async def user(
    house: House, tenant: Tenant | None, name: str, role: str = "admin", token: str = ""
) -> AsyncIterator[Client]:
    """A user of a tenant with a token of a role."""
    member = Member(user=name, tenant=tenant.key if tenant else "", role=role)
    headers = {"Authorization": f"Bearer {secret(house, member, name=token)}"}
    async with httpx.AsyncClient(
        base_url=house.url, headers=headers, timeout=120, verify=False
    ) as web:
        yield Client(web)


@contextlib.asynccontextmanager
async def browser(
    house: House, tenant: Tenant | None, name: str, role: str = "admin"
) -> AsyncIterator[Client]:
    """A user of a tenant who followed a one-time link."""
    member = Member(user=name, tenant=tenant.key if tenant else "", role=role)
    now = house.server_state.smith.runs.journals.clock.now()
    link = house.tokens.new_link(by="root", now=now, member=member)
    async with house.browser(link) as web:
        yield Client(web)
