"""`plansmith tenants`: create, list and remove the tenants of a server."""

from __future__ import annotations

import argparse

from plansmith.files import data_folder
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_cli.options import AS_JSON, STORE, settings_of
from plansmith_cli.parser import Verb, noun
from plansmith_cli.tenant_settings import tenant_settings
from plansmith_cli.ui.output import print_as
from plansmith_server.shown_settings import address
from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import TokenFile


def _create(args: argparse.Namespace) -> None:
    made = TenantBook(data_folder()).create(args.name)
    told = Sentence(
        "{name} is created. Its settings: {file}", name=made.name, file=str(made.config)
    )
    command = f"plansmith tokens link --tenant {made.name} --user NAME --role admin"
    log_in = Sentence("To log its first user in: {command}", command=command)
    print_as(args, _json(made, args), [told, log_in])


def _list(args: argparse.Namespace) -> None:
    found = [_json(each, args) for each in TenantBook(data_folder()).all()]
    lines = [f"{each['name']}  {each['folder']}  {each['store']}" for each in found]
    print_as(args, [*found], lines or [Sentence("There are no tenants.")])


def _remove(args: argparse.Namespace) -> None:
    book = TenantBook(data_folder())
    gone = book.get(args.name)
    store = _store(gone, args)
    count = TokenFile(data_folder() / "tokens.json").revoke_tenant(gone.key)
    folder = str(book.remove(args.name).home)
    revoked = Sentence(
        "{name} is removed; {count} tokens and log-ins are revoked.", name=gone.name, count=count
    )
    kept = Sentence(
        "What it had is kept in {folder} and in its store, {store}.", folder=folder, store=store
    )
    print_as(args, {"name": gone.name, "folder": folder, "store": store}, [revoked, kept])


def _json(tenant: Tenant, args: argparse.Namespace) -> dict[str, Json]:
    return {"name": tenant.name, "folder": str(tenant.home), "store": _store(tenant, args)}


def _store(tenant: Tenant, args: argparse.Namespace) -> str:
    """Returns where a tenant's runs are kept, without the password of a database."""
    url = tenant_settings(tenant, settings_of(args)).store
    schema = url.rpartition("schema=")[2] if "schema=" in url else ""
    return f"{address(url)} schema {schema}" if schema else address(url)


_GONE = "revoke all its tokens and set its folder aside; its store is kept"
COMMAND = noun(
    {
        "create": Verb(
            _create,
            "create a tenant: a store, a folder and settings",
            "NAME  small letters, digits and _\n" + STORE + AS_JSON,
        ),
        "list": Verb(_list, "list tenants, their folders and stores", STORE + AS_JSON),
        "remove": Verb(_remove, _GONE, "NAME\n" + STORE + AS_JSON),
    }
)
