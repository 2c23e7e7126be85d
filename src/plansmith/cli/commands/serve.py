"""`plansmith serve` runs the HTTP server; `plansmith mcp` runs an MCP server over stdio."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import webbrowser
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.extras import install_hint
from plansmith.cli.options import add_parts, positive, settings_of
from plansmith.config import data_folder
from plansmith.errors import Misconfigured
from plansmith.server.settings import Serve

PORT: Final = 8765
_MOST_DAYS: Final = 365


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"0 takes any free port (default: {PORT})"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument(
        "--token-file", metavar="FILE", help="the file with the token for API clients"
    )
    parser.add_argument(
        "--login-days",
        type=float,
        default=30.0,
        metavar="DAYS",
        help="how long an unused browser stays logged in (default: 30)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address (default: 127.0.0.1)")
    parser.add_argument(
        "--insecure-remote",
        action="store_true",
        help="allow other machines to connect, without TLS; needs --token-file",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="another host name to accept, such as that of a proxy; repeatable",
    )
    parser.add_argument(
        "--engine", choices=["dbos"], default="", help="have workers execute the runs, see worker"
    )
    parser.add_argument(
        "--concurrency",
        type=positive,
        default=0,
        metavar="N",
        help="with --engine: execute up to N runs here too (default: none)",
    )
    parser.add_argument("--telemetry", action="store_true", help="make OpenTelemetry spans")
    add_parts(parser)


def _main(args: argparse.Namespace) -> int:
    if args.insecure_remote and not args.token_file:
        hint = "name a file with --token-file; clients need its token"
        raise Misconfigured("a server that others can reach needs a token", hint=hint)
    if not 0 <= args.port < 65536:
        raise Misconfigured(f"{args.port} is not a port", hint="a port is 0 to 65535")
    if not 0 < args.login_days <= _MOST_DAYS:
        hint = f"more than 0, and at most {_MOST_DAYS}"
        raise Misconfigured(f"{args.login_days:g} is not a valid number of days", hint=hint)
    if args.concurrency and not args.engine:
        hint = "add --engine dbos, or set run.width and run.per_tool in the settings"
        raise Misconfigured("--concurrency needs --engine", hint=hint)
    wanted = Serve(
        token_file=Path(args.token_file or data_folder() / "server.token").expanduser(),
        tokens_file=data_folder() / "tokens.json",
        login_days=args.login_days,
        host=args.host,
        port=args.port,
        allow_hosts=tuple(args.allow_host),
        remote=args.insecure_remote,
        telemetry=args.telemetry,
        tenants=data_folder(),
        engine=args.engine,
        executes=args.concurrency,
    )

    def announce(link: str) -> None:
        sys.stderr.write(f"Plansmith is at {link}\nThe link works once. Ctrl-C ends the server.\n")
        sys.stderr.flush()
        if not args.no_browser:
            # In a thread: a browser that does not start must not block the server.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    asyncio.run(_run_server()(settings_of(args), wanted, announce))
    return Exit.OK


def _run_server() -> Any:
    try:
        return resolve_name("plansmith.server.serve:run_server")
    except ModuleNotFoundError as error:
        hint = install_hint("server")
        raise Misconfigured(f"the server needs the package {error.name}", hint=hint) from None


COMMAND = FileCommand(_configure, _main)


def _mcp_configure(parser: argparse.ArgumentParser) -> None:
    add_parts(parser)


def _mcp_main(args: argparse.Namespace) -> int:
    asyncio.run(_run_stdio()(settings_of(args)))
    return Exit.OK


def _run_stdio() -> Any:
    try:
        return resolve_name("plansmith.server.mcp_stdio:run_stdio")
    except ModuleNotFoundError as error:
        hint = install_hint("mcp", "server")
        raise Misconfigured(f"the MCP server needs the package {error.name}", hint=hint) from None


MCP = FileCommand(_mcp_configure, _mcp_main)
