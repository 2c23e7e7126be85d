"""`plansmith tokens`: make, list and revoke tokens for programs."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from datetime import datetime, timedelta
from typing import Final

from plansmith.adapters.clock import SystemClock
from plansmith.cli.commands.plans import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.config import data_folder
from plansmith.errors import Misconfigured
from plansmith.plan.data import Json
from plansmith.server.tokens import SCOPES, Token, TokenFile

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DEFAULT: Final = "90d"
_URL: Final = "http://127.0.0.1:8765"


def _configure(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(dest="deed", required=True, metavar="create|list|revoke|link")
    create = deeds.add_parser("create", help="a new token; it is printed this once")
    create.add_argument("name", metavar="NAME", help="what for: its deeds are told under this name")
    scopes = "; ".join(f"{name}: {what}" for name, what in SCOPES.items())
    create.add_argument("--scope", required=True, metavar="SCOPE,…", help=f"one or more. {scopes}")
    create.add_argument(
        "--expires",
        default=_DEFAULT,
        metavar="TIME",
        help=f"such as 12h, 30d or never (default: {_DEFAULT})",
    )
    listing = deeds.add_parser("list", help="all tokens, and the browsers that are logged in")
    revoke = deeds.add_parser("revoke", help="take a token or a log-in back, at once")
    revoke.add_argument("name", metavar="NAME")
    link = deeds.add_parser("link", help="a link that logs a browser in, once, as you")
    link.add_argument(
        "--url", default=_URL, help=f"where the server is, as it said (default: {_URL})"
    )
    for deed in (create, listing, revoke, link):
        deed.add_argument("--json", action="store_true", help="print as JSON")


def _main(args: argparse.Namespace) -> int:
    tokens, now = TokenFile(data_folder() / "tokens.json"), SystemClock().now()
    match args.deed:
        case "create":
            scopes = [each.strip() for each in args.scope.split(",") if each.strip()]
            lasts = _lasts(args.expires)
            made, secret = tokens.create(
                args.name, scopes, by=getpass.getuser(), now=now, lasts=lasts
            )
            # On stdout the token alone, for scripts; it is never shown again.
            _tell(args, _json(made, now) | {"token": secret}, [secret])
            sys.stderr.write(f"{_line(made, now)}\nThe token is shown this once: keep it safe.\n")
        case "list":
            found = tokens.all()
            lines = [_line(each, now) for each in found]
            _tell(args, [_json(each, now) for each in found], lines or ["There is no token."])
        case "link":
            secret = tokens.new_link(by=getpass.getuser(), now=now)
            where = f"{args.url.rstrip('/')}/?token={secret}"
            _tell(args, {"link": where}, [where])
            sys.stderr.write("It works once, and for ten minutes.\n")
        case _:
            gone = tokens.revoke(args.name)
            _tell(args, _json(gone, now), [f"{gone.name} is revoked."])
    return Exit.OK


def _lasts(text: str) -> timedelta | None:
    if text == "never":
        return None
    found = re.fullmatch(r"([1-9]\d{0,4})([mhdw])", text)
    if found is None:
        raise Misconfigured(f"{text!r} is no time", hint="write 12h, 30d, 8w or never")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _tell(args: argparse.Namespace, value: Json, lines: list[str]) -> None:
    if args.json:
        print_json(value)
    else:
        print_lines(lines)


def _line(token: Token, now: datetime) -> str:
    if token.expires is None:
        ends = "for good"
    else:
        word = "until" if token.is_good(now) else "expired at"
        ends = f"{word} {token.expires:%Y-%m-%d %H:%M} UTC"
    speaks = f"speaks as the {token.actor.kind} {token.actor.name}"
    return f"{token.name}  {token.kind}  [{', '.join(token.scopes)}]  {ends}  {speaks}"


def _json(token: Token, now: datetime) -> dict[str, Json]:
    shown = token.model_dump(mode="json", include={"name", "kind", "by", "created", "expires"})
    actor: dict[str, Json] = token.actor.to_json()
    return {**shown, "scopes": list(token.scopes), "good": token.is_good(now), "actor": actor}


COMMAND = FileCommand(_configure, _main)
