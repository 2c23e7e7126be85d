"""Runs the MCP server over standard input and output."""

from __future__ import annotations

from plansmith_server.ops.logs import Log
from plansmith_server.ports import Wiring
from plansmith_server.protocols.mcp import make_mcp
from plansmith_server.serve import make_state


async def run_stdio(wiring: Wiring) -> None:
    """Serves until the input ends; runs that are open then can be resumed later."""
    log = Log()
    log.capture_libraries()
    server_state = make_state(wiring, log=log)
    try:
        await make_mcp(server_state).run_stdio_async()
    finally:
        await server_state.close()
