"""`plansmith tokens`: create, list and revoke tokens, and make log-in links."""

from __future__ import annotations

import argparse
import getpass
import re
from datetime import datetime, timedelta
from typing import Final

import msgspec

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured
from plansmith.files import data_folder
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_cli.command_table import Command
from plansmith_cli.exit_codes import Exit
from plansmith_cli.ui.output import print_as
from plansmith_cli.ui.words import own_text, tell
from plansmith_server.team.tenant_book import TenantBook
from plansmith_server.team.tokens import ROLES, SCOPES, Member, Token, TokenFile

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DEFAULT: Final = "90d"
_URL: Final = "http://127.0.0.1:8765"


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke|link")
    create = actions.add_parser("create", help="create a token; it is printed only once")
    create.add_argument(
        "name", metavar="NAME", help="its name, which the journal shows for what is done with it"
    )
    scopes = "; ".join(f"{name}: {what}" for name, what in SCOPES.items())
    rights = create.add_mutually_exclusive_group(required=True)
    rights.add_argument("--scope", default="", metavar="SCOPE,…", help=f"one or more. {scopes}")
    rights.add_argument("--role", choices=[*ROLES], help="a set of scopes with a name")
    create.add_argument(
        "--expires",
        default=_DEFAULT,
        metavar="TIME",
        help=f"such as 12h, 30d or never (default: {_DEFAULT})",
    )
    listing = actions.add_parser("list", help="list tokens and logged-in browsers")
    revoke = actions.add_parser("revoke", help="revoke a token or a log-in")
    revoke.add_argument("name", metavar="NAME")
    link = actions.add_parser("link", help="make a one-time link that logs a browser in as you")
    link.add_argument("--url", default=_URL, help=f"the address of the server (default: {_URL})")
    link.add_argument("--role", choices=[*ROLES], help="what may be done (default: everything)")
    for action in (create, link):
        action.add_argument("--user", default="", help="whose it is (default: yours)")
        action.add_argument("--tenant", default="", help="the tenant it opens (default: none)")
    for action in (create, listing, revoke, link):
        action.add_argument("--json", action="store_true", help="print as JSON")


def _main(args: argparse.Namespace) -> int:
    tokens, now = TokenFile(data_folder() / "tokens.json"), SystemClock().now()
    match args.action:
        case "create":
            scopes = [each.strip() for each in args.scope.split(",") if each.strip()]
            lasts = _lifetime(args.expires)
            made, secret = tokens.create(
                args.name,
                scopes,
                by=getpass.getuser(),
                now=now,
                lasts=lasts,
                member=_member(args),
            )
            # On stdout the token alone, for scripts.
            print_as(args, _json(made, now) | {"token": secret}, [secret])
            tell(_line(made, now), own_text("The token is not shown again: keep it safe."))
        case "list":
            found = tokens.all()
            lines = [_line(each, now) for each in found] or [own_text("There are no tokens.")]
            print_as(args, [_json(each, now) for each in found], lines)
        case "link":
            secret = tokens.new_link(by=getpass.getuser(), now=now, member=_member(args))
            link = f"{args.url.rstrip('/')}/?token={secret}"
            print_as(args, {"link": link}, [link])
            tell(own_text("It works once, and for ten minutes."))
        case _:
            revoked = tokens.revoke(args.name)
            print_as(args, _json(revoked, now), [own_text("{name} is revoked.", name=revoked.name)])
    return Exit.OK


def _member(args: argparse.Namespace) -> Member:
    """Returns for whom a token or a link is."""
    key = TenantBook(data_folder()).get(args.tenant).key if args.tenant else ""
    return Member(user=args.user, tenant=key, role=args.role or "")


def _lifetime(text: str) -> timedelta | None:
    if text == "never":
        return None
    found = re.fullmatch(r"([1-9]\d{0,4})([mhdw])", text)
    if found is None:
        hint = Sentence("write 12h, 30d, 8w or never")
        raise Misconfigured(Sentence("'{text}' is not a duration", text=text), hint=hint)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _line(token: Token, now: datetime) -> str:
    if token.expires is None:
        ends = own_text("never expires")
    else:
        code = "tokens.until" if token.is_good(now) else "tokens.expired"
        ends = own_text(code, time=f"{token.expires:%Y-%m-%d %H:%M} UTC")
    actor = own_text(f"tokens.as_{token.actor.kind}", name=token.actor.name)
    rights = token.role or ", ".join(token.scopes)
    tenant = own_text("tenant {name}", name=_tenant_name(token)) if token.tenant else ""
    kind = own_text(f"tokens.kind_{token.kind}")
    return "  ".join(filter(None, (token.name, kind, f"[{rights}]", ends, actor, tenant)))


def _tenant_name(token: Token) -> str:
    """Returns the name of a token's tenant, which is its key without the random part."""
    return token.tenant.rpartition("_")[0]


def _json(token: Token, now: datetime) -> dict[str, Json]:
    shown = token.model_dump(mode="json", include={"name", "kind", "by", "created", "expires"})
    actor: dict[str, Json] = msgspec.to_builtins(token.actor)
    told = {"user": token.person, "tenant": _tenant_name(token), "role": token.role}
    scopes: list[Json] = [each for each in SCOPES if each in token.rights]
    return {**shown, **told, "scopes": scopes, "good": token.is_good(now), "actor": actor}


COMMAND = Command(_configure, _main)
