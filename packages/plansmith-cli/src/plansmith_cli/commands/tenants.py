"""`plansmith tenants`: create, list and remove the tenants of a server."""

from __future__ import annotations

import argparse

from plansmith.files import data_folder
from plansmith.plan.data import Json
from plansmith_cli.command_table import Command
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import add_store, settings_of
from plansmith_cli.tenant_settings import tenant_settings
from plansmith_cli.ui.output import print_as
from plansmith_cli.ui.words import own_text
from plansmith_server.shown_settings import address
from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import TokenFile


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|remove")
    create = actions.add_parser("create", help="create a tenant: a store, a folder and settings")
    create.add_argument("name", metavar="NAME", help="small letters, digits and _")
    listing = actions.add_parser("list", help="list tenants, their folders and stores")
    remove = actions.add_parser(
        "remove", help="revoke all its tokens and set its folder aside; its store is kept"
    )
    remove.add_argument("name", metavar="NAME")
    for action in (create, listing, remove):
        add_store(action)
        action.add_argument("--json", action="store_true", help="print as JSON")


def _main(args: argparse.Namespace) -> int:
    book = TenantBook(data_folder())
    match args.action:
        case "create":
            made = book.create(args.name)
            told = own_text(
                "{name} is created. Its settings: {file}", name=made.name, file=str(made.config)
            )
            log_in = f"plansmith tokens link --tenant {made.name} --user NAME --role admin"
            print_as(
                args,
                _json(made, args),
                [told, own_text("To log its first user in: {command}", command=log_in)],
            )
        case "list":
            found = [_json(each, args) for each in book.all()]
            lines = [f"{each['name']}  {each['folder']}  {each['store']}" for each in found]
            print_as(args, [*found], lines or [own_text("There are no tenants.")])
        case _:
            gone = book.get(args.name)
            store = _store(gone, args)
            count = TokenFile(data_folder() / "tokens.json").revoke_tenant(gone.key)
            removed = book.remove(args.name)
            lines = [
                own_text(
                    "{name} is removed; {count} tokens and log-ins are revoked.",
                    name=gone.name,
                    count=count,
                )
            ]
            lines.append(
                own_text(
                    "What it had is kept in {folder} and in its store, {store}.",
                    folder=str(removed.home),
                    store=store,
                )
            )
            print_as(args, {"name": gone.name, "folder": str(removed.home), "store": store}, lines)
    return Exit.OK


def _json(tenant: Tenant, args: argparse.Namespace) -> dict[str, Json]:
    return {"name": tenant.name, "folder": str(tenant.home), "store": _store(tenant, args)}


def _store(tenant: Tenant, args: argparse.Namespace) -> str:
    """Returns where a tenant's runs are kept, without the password of a database."""
    url = tenant_settings(tenant, settings_of(args)).store
    schema = url.rpartition("schema=")[2] if "schema=" in url else ""
    return f"{address(url)} schema {schema}" if schema else address(url)


COMMAND = Command(_configure, _main)
