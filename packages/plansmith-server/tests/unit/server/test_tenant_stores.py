"""Stores of tenants: one database or folder, and no row of one is in another."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest
from tests.postgres import Server

from plansmith import Plan
from plansmith.app import Plansmith
from plansmith.errors import Misconfigured
from plansmith.store.urls import open_store
from plansmith_cli.doctor import diagnose
from plansmith_postgres.connection import schema_of
from plansmith_server.team.tenant_book import tenant_store

_numbers = count()
LOOK = Plan.model_validate({"goal": "x", "steps": [{"id": "a", "kind": "ask", "question": "Why?"}]})


async def filled(url: str) -> str:
    async with Plansmith(store=url) as smith:
        return (await smith.submit(LOOK, by="ann")).id


async def test_tenants_in_one_postgres_have_schemas_of_their_own(postgres_server: Server) -> None:
    base = postgres_server.new_database(f"tenants_{next(_numbers)}")
    urls = [base, tenant_store(base, "acme_1"), tenant_store(base, "zeta_2")]
    runs = [await filled(url) for url in urls]
    for url, run in zip(urls, runs, strict=True):
        store = open_store(url)
        try:
            assert [*await store.runs()] == [run]
            others = [each for each in runs if each != run]
            assert [len(await store.events(each)) for each in others] == [0, 0]
        finally:
            await store.close()
        assert {each.level for each in await diagnose(url)} == {"ok"}


async def test_what_happens_in_one_schema_wakes_nobody_in_another(postgres_server: Server) -> None:
    base = postgres_server.new_database(f"tenants_{next(_numbers)}")
    one, other = (tenant_store(base, key) for key in ("acme_1", "zeta_2"))
    await filled(one)
    await filled(other)
    store = open_store(other)
    try:
        position = await store.wait_news(-1)
        woken = asyncio.create_task(store.wait_news(position))
        await filled(one)
        own = await filled(other)
        await woken
        assert {each.run for each in await store.news(position)} == {own}
    finally:
        await store.close()


@pytest.mark.parametrize(
    "schema", ["public", "plansmith; DROP SCHEMA plansmith", "plansmith_A", "", "pg_catalog"]
)
def test_an_address_names_only_schemas_of_ours(schema: str) -> None:
    with pytest.raises(Misconfigured):
        schema_of(f"postgresql://ann@host/db?schema={schema}")


def test_the_store_of_a_tenant_is_beside_that_of_the_server(tmp_path: Path) -> None:
    found = tenant_store(f"sqlite:///{tmp_path / 'a b' / 'runs.db'}?synchronous=normal", "acme_1")
    assert found.endswith("runs.acme_1.db?synchronous=normal")
    assert open_store(found) is not None
    url = "postgresql://ann:pw@host/db?sslmode=require&schema=plansmith_old"
    assert tenant_store(url, "acme_1") == (
        "postgresql://ann:pw@host/db?sslmode=require&schema=plansmith_acme_1"
    )
    assert schema_of(tenant_store(url, "acme_1")) == (
        "postgresql://ann:pw@host/db?sslmode=require",
        "plansmith_acme_1",
    )
