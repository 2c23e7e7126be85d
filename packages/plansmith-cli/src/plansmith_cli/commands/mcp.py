"""`plansmith serve mcp` runs an MCP server over stdio."""

from __future__ import annotations

import argparse
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from plansmith.lazy import lazy_modules
from plansmith_cli.options import PARTS, settings_of
from plansmith_cli.parser import command
from plansmith_cli.ui.output import wrong
from plansmith_server.handshake import answer_handshake

if TYPE_CHECKING:
    from plansmith_cli import server_wiring
else:
    lazy_modules(globals(), server_wiring="plansmith_cli.server_wiring")


def _main(args: argparse.Namespace) -> None:
    # Clients do not wait long; the rest takes much longer to load.
    answer_handshake()
    run_stdio = _loaded("plansmith_server.protocols.mcp:run_stdio")
    _loaded("asyncio:run")(run_stdio(server_wiring.ServerWiring(settings_of(args))))


def _loaded(name: str) -> Any:
    try:
        return resolve_name(name)
    except ModuleNotFoundError as error:
        hint = resolve_name("plansmith_cli.extras:install_hint")("mcp", "server")
        raise wrong("the MCP server needs the package {name}", hint=hint, name=error.name) from None


COMMAND = command(PARTS, _main)
