"""The tools and agents that plans of this folder may use, for `plansmith check`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, NamedTuple

from plansmith.cli.options import warn
from plansmith.cli.output import read_file
from plansmith.config import load_settings
from plansmith.dialects.tools import read_tools
from plansmith.errors import PlansmithError
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.ports import Closing
from plansmith.wiring import PARTS, known_agents, load, make_tools, python_tools

HERE: Final = "the tools of this folder"


class Known(NamedTuple):
    """What a plan is checked against, and where that comes from; `flaw` says why it is unknown."""

    tools: list[ToolSpec] | None
    agents: list[AgentSpec] | None = None
    source: str = ""
    flaw: str = ""


def known_tools(name: str | None) -> Known:
    """The tools of a file, or those that are built in and set up for this folder."""
    if name is None:
        try:
            return asyncio.run(_of_folder())
        except PlansmithError as error:
            return Known(None, flaw=str(error))
    if name.endswith(".py"):
        return Known(asyncio.run(_listed(python_tools(Path(name)))), source=name)
    return Known(read_tools(read_file(name).decode("utf-8", "replace")), source=name)


async def _of_folder() -> Known:
    settings = load_settings(tell=warn)
    secrets = load(PARTS["secrets"])(settings.secrets)
    sources = make_tools(settings, clock=load(PARTS["clock"])(), secrets=secrets)
    agents = [agent.spec for agent in known_agents(settings, secrets=secrets)]
    return Known(await _listed(sources), agents, HERE)


async def _listed(sources: list[Any]) -> list[ToolSpec]:
    try:
        return [spec for source in sources for spec in await source.tools()]
    finally:
        for source in sources:
            if isinstance(source, Closing):
                await source.close()
