"""Stdio: the MCP server over standard input and output, for programs that start it themselves."""

from __future__ import annotations

from plansmith.config import Settings
from plansmith.server.logs import Log
from plansmith.server.mcp import make_mcp
from plansmith.server.serving import make_office


async def run_stdio(settings: Settings) -> None:
    """Serve until the input ends; runs that are under way then can be taken up later."""
    log = Log()
    log.take_over()
    office = make_office(settings, log=log)
    try:
        await make_mcp(office).run_stdio_async()
    finally:
        await office.conducting.close()
        await office.teams.close()
        await office.smith.close()
