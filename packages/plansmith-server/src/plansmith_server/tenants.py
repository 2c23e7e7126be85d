"""Serves each tenant by an application of its own, behind the one gate of the server.

An application has the store, the tools and the background runs of one tenant and no other, so
that no handler can reach those of another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from plansmith.errors import NotFound, PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith.ports import TENANT
from plansmith_server.app import Application
from plansmith_server.errors import HttpProblem
from plansmith_server.ops.logs import Log
from plansmith_server.ops.tasks import background_tasks
from plansmith_server.team.auth import grant_of
from plansmith_server.team.tenant_book import Tenant, TenantBook

_HINT: Final = Sentence("the server's log says why")


@dataclass(slots=True)
class _Serving:
    tenant: Tenant
    started: asyncio.Future[Application]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def end_streams(self) -> None:
        if self.started.done() and self.started.exception() is None:
            self.started.result().state.closing.set()


class Tenants:
    """Starts and stops the applications of tenants, also of those that come and go meanwhile."""

    def __init__(
        self, book: TenantBook, make: Callable[[Tenant], Application], *, log: Log
    ) -> None:
        self._book, self._make, self._log = book, make, log
        self._serving: dict[str, _Serving] = {}
        self._failed: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        try:
            async with background_tasks(self._watch()):
                yield
        finally:
            await asyncio.gather(*[self._stop(key) for key in [*self._serving]])

    def end_streams(self) -> None:
        for each in self._serving.values():
            each.end_streams()

    async def app(self, key: str) -> ASGIApp:
        if key not in self._serving:
            self._look()
        serving = self._serving.get(key)
        try:  # another tenant of its name has another key
            is_known = serving is not None and self._book.get(serving.tenant.name).key == key
        except NotFound:
            is_known = False
        if serving is None or not is_known:
            why = Sentence("the tenant of this token was removed")
            raise HttpProblem(401, "no_token", why)
        try:
            return await asyncio.shield(serving.started)
        except PlansmithError:
            why = Sentence("this tenant cannot be served now")
            raise HttpProblem(503, "not_ready", why, hint=_HINT) from None

    async def _watch(self) -> None:
        while True:
            try:
                for key in self._look():
                    await self._stop(key)
            except PlansmithError as error:
                self._log.warning("tenants_not_read", error=str(error))
            await asyncio.sleep(2.0)

    def _look(self) -> list[str]:
        """Starts new tenants; returns those that are served and were removed."""
        known = {each.key: each for each in self._book.all()}
        for key, tenant in known.items():
            if key not in self._serving:
                started = asyncio.get_running_loop().create_future()
                serving = self._serving[key] = _Serving(tenant, started)
                serving.task = asyncio.create_task(self._serve(serving), name=f"tenant {key}")
        return [key for key in self._serving if key not in known]

    async def _serve(self, serving: _Serving) -> None:
        tenant = serving.tenant
        TENANT.set(tenant.key)
        try:
            made = self._make(tenant)
            async with made.lifespan():
                serving.started.set_result(made)
                self._failed.pop(tenant.key, None)
                await serving.stop.wait()
        except Exception as error:  # noqa: BLE001 - one tenant must not take the others down
            if self._failed.get(tenant.key) != repr(error):  # logged once for each reason
                self._failed[tenant.key] = repr(error)
                self._log.failure("tenant_failed", tenant=tenant.name, error=repr(error))
            if not serving.started.done():
                why = Sentence("the tenant {name} is not served", name=tenant.name)
                serving.started.set_exception(NotFound(why))
                serving.started.exception()
        finally:
            # What failed is tried again at the next look.
            if self._serving.get(tenant.key) is serving:
                del self._serving[tenant.key]

    async def _stop(self, key: str) -> None:
        serving = self._serving.get(key)
        if serving is not None and serving.task is not None:
            serving.end_streams()
            serving.stop.set()
            await asyncio.gather(serving.task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class TenantSwitch:
    """Hands a request to the application of its client's tenant."""

    own: ASGIApp
    tenants: Tenants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request; without a tenant, by the server's own application."""
        key = grant_of(scope).tenant if scope["type"] == "http" else ""
        TENANT.set(key)
        try:
            app = await self.tenants.app(key) if key else self.own
        except HttpProblem as problem:
            app = problem.response()
        except PlansmithError:
            why = Sentence("tenants cannot be read now")
            app = HttpProblem(503, "not_ready", why, hint=_HINT).response()
        await app(scope, receive, send)
