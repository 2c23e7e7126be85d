"""`plansmith mcp`: plans and runs as MCP tools, over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from plansmith.cli.exits import Exit
from plansmith.cli.options import add_parts, settings_of
from plansmith.cli.plans import FileCommand
from plansmith.errors import Misconfigured
from plansmith.wiring import load


def _configure(parser: argparse.ArgumentParser) -> None:
    add_parts(parser)


def _main(args: argparse.Namespace) -> int:
    asyncio.run(_run_stdio()(settings_of(args)))
    return Exit.OK


def _run_stdio() -> Any:
    try:
        return load("plansmith.server.stdio:run_stdio")
    except ModuleNotFoundError as error:
        hint = "pip install 'plansmith[mcp,server]'"
        raise Misconfigured(f"the MCP server needs the package {error.name}", hint=hint) from None


COMMAND = FileCommand(_configure, _main)
