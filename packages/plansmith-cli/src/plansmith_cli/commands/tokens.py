"""`plansmith tokens` and `tenants`: who may use a server, and the tenants it keeps apart."""

from __future__ import annotations

import argparse
import getpass
from datetime import datetime
from typing import Final

import msgspec

from plansmith.clock import SystemClock
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_cli.config import load_settings
from plansmith_cli.folders import data_folder
from plansmith_cli.options import AS_JSON, STORE, warn
from plansmith_cli.parser import command
from plansmith_cli.server_wiring import tenant_settings
from plansmith_cli.ui.output import own_text, print_as, tell, wrong
from plansmith_server.housekeeping import read_age
from plansmith_server.shown_settings import address
from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import ROLES, SCOPES, Member, Token, TokenFile

_DEFAULT: Final = "90d"
_URL: Final = "http://127.0.0.1:8765"


def _create(args: argparse.Namespace) -> None:
    now = SystemClock().now()
    lasts = None if args.expires == "never" else read_age(args.expires)
    made, secret = _tokens().create(
        args.name,
        [each.strip() for each in args.scope.split(",") if each.strip()],
        by=getpass.getuser(),
        now=now,
        lasts=lasts,
        member=_member(args),
    )
    # On stdout the token alone, for scripts.
    print_as(args, _json(made, now) | {"token": secret}, [secret])
    tell(_line(made, now), Sentence("The token is not shown again: keep it safe."))


def _list(args: argparse.Namespace) -> None:
    key, now = _tenant_key(args), SystemClock().now()
    found = [each for each in _tokens().all() if key in ("", each.tenant)]
    lines = [_line(each, now) for each in found] or [Sentence("There are no tokens.")]
    print_as(args, [_json(each, now) for each in found], lines)


def _link(args: argparse.Namespace) -> None:
    by, now = getpass.getuser(), SystemClock().now()
    secret = _tokens().new_link(by=by, now=now, member=_member(args))
    link = f"{args.url.rstrip('/')}/?token={secret}"
    print_as(args, {"link": link}, [link])
    tell(Sentence("It works once, and for ten minutes."))


def _revoke(args: argparse.Namespace) -> None:
    revoked = _tokens().revoke(args.name, tenant=_tenant_key(args))
    message = Sentence("{name} is revoked.", name=revoked.name)
    print_as(args, _json(revoked, SystemClock().now()), [message])


def _tokens() -> TokenFile:
    return TokenFile(data_folder() / "tokens.json")


def _member(args: argparse.Namespace) -> Member:
    return Member(user=args.user, tenant=_tenant_key(args), role=args.role or "")


def _tenant_key(args: argparse.Namespace) -> str:
    """Returns the key of the tenant that is named before or after the command; empty for none."""
    named = TenantBook(data_folder()).get(args.tenant) if args.tenant else args.within
    if args.within and named != args.within:
        raise wrong("two different tenants are named")
    return named.key if named else ""


def _line(token: Token, now: datetime) -> str:
    if token.expires is None:
        expiry = own_text("never expires")
    else:
        code = "tokens.until" if token.is_good(now) else "tokens.expired"
        expiry = own_text(code, time=f"{token.expires:%Y-%m-%d %H:%M} UTC")
    actor = own_text(f"tokens.as_{token.actor.kind}", name=token.actor.name)
    rights = token.role or ", ".join(token.scopes)
    tenant = own_text("tenant {name}", name=_tenant_name(token)) if token.tenant else ""
    kind = own_text(f"tokens.kind_{token.kind}")
    return "  ".join(filter(None, (token.name, kind, f"[{rights}]", expiry, actor, tenant)))


def _tenant_name(token: Token) -> str:
    return token.tenant.rpartition("_")[0]


def _json(token: Token, now: datetime) -> dict[str, Json]:
    fields = token.model_dump(mode="json", include={"name", "kind", "by", "created", "expires"})
    actor: dict[str, Json] = msgspec.to_builtins(token.actor)
    member = {"user": token.person, "tenant": _tenant_name(token), "role": token.role}
    scopes: list[Json] = [each for each in SCOPES if each in token.rights]
    return {**fields, **member, "scopes": scopes, "good": token.is_good(now), "actor": actor}


_CREATE: Final = f"""
NAME  its name, which the journal shows for what is done with it
--scope SCOPE,…  one or more. {"; ".join(f"{name}: {what}" for name, what in SCOPES.items())}
| --role  a set of scopes with a name
--expires TIME  such as 30m, 12h, 30d or never (default: {_DEFAULT})
"""
_LINK: Final = f"""
--url URL  the address of the server (default: {_URL})
--role  what may be done (default: everything)
"""
_MEMBER: Final = """
--user USER  whose it is (default: yours)
--tenant TENANT  the tenant it opens (default: none)
"""
_TENANT: Final = "--tenant TENANT  only those of this tenant\n"
_TYPED: Final = {"role": {"choices": [*ROLES]}, "user": {"default": ""}}
CREATE = command(
    _CREATE + _MEMBER + AS_JSON,
    _create,
    scope={"default": ""},
    expires={"default": _DEFAULT},
    **_TYPED,
)
LIST = command(_TENANT + AS_JSON, _list)
REVOKE = command("NAME\n" + _TENANT + AS_JSON, _revoke)
LINK = command(_LINK + _MEMBER + AS_JSON, _link, url={"default": _URL}, **_TYPED)


def _create_tenant(args: argparse.Namespace) -> None:
    made = TenantBook(data_folder()).create(args.name)
    created = Sentence(
        "{name} is created. Its settings: {file}", name=made.name, file=str(made.config)
    )
    command = f"plansmith tokens link --tenant {made.name} --user NAME --role admin"
    log_in = Sentence("To log its first user in: {command}", command=command)
    print_as(args, _tenant_json(made, args), [created, log_in])


def _list_tenants(args: argparse.Namespace) -> None:
    found = [_tenant_json(each, args) for each in TenantBook(data_folder()).all()]
    lines = [f"{each['name']}  {each['folder']}  {each['store']}" for each in found]
    print_as(args, [*found], lines or [Sentence("There are no tenants.")])


def _remove_tenant(args: argparse.Namespace) -> None:
    book = TenantBook(data_folder())
    tenant = book.get(args.name)
    store = _tenant_store(tenant, args)
    count = TokenFile(data_folder() / "tokens.json").revoke_tenant(tenant.key)
    folder = str(book.remove(args.name).home)
    revoked = Sentence(
        "{name} is removed; {count} tokens and log-ins are revoked.", name=tenant.name, count=count
    )
    kept = Sentence(
        "What it had is kept in {folder} and in its store, {store}.", folder=folder, store=store
    )
    print_as(args, {"name": tenant.name, "folder": folder, "store": store}, [revoked, kept])


def _tenant_json(tenant: Tenant, args: argparse.Namespace) -> dict[str, Json]:
    return {"name": tenant.name, "folder": str(tenant.home), "store": _tenant_store(tenant, args)}


def _tenant_store(tenant: Tenant, args: argparse.Namespace) -> str:
    """Returns where a tenant's runs are kept, without the password of a database."""
    # Those of the server, which a tenant that is named before the command does not change.
    folder = args.within.home.parent if args.within else None
    changes = {"store": args.store} if args.store else {}
    base = load_settings(folder=folder, changes=changes, tell=warn)
    url = tenant_settings(tenant, base).store
    schema = url.rpartition("schema=")[2] if "schema=" in url else ""
    return f"{address(url)} schema {schema}" if schema else address(url)


CREATE_TENANT = command("NAME  small letters, digits and _\n" + STORE + AS_JSON, _create_tenant)
TENANTS = command(STORE + AS_JSON, _list_tenants)
REMOVE_TENANT = command("NAME\n" + STORE + AS_JSON, _remove_tenant)
