"""Names of MCP tools: `server.tool`, in letters every model can write, and back without loss."""

from __future__ import annotations

import re
from typing import Final

# A letter that is not plain becomes _xHEX_; a plain text that looks like that is marked as well.
_ODD_IN_SERVER: Final = re.compile(r"[^A-Za-z0-9_-]|_(?=x[0-9a-f]+[^A-Za-z0-9-])")
_ODD_IN_TOOL: Final = re.compile(r"[^A-Za-z0-9_.-]|_(?=x[0-9a-f]+[^A-Za-z0-9.-])")
_MARKED: Final = re.compile(r"_x([0-9a-f]+)_")
MOST_LETTERS: Final = 200


def full_name(server: str, tool: str) -> str:
    """The name of a server's tool in plans; two different pairs never share one."""
    return f"{server_name(server)}.{_ODD_IN_TOOL.sub(_mark, tool)}"


def server_name(server: str) -> str:
    """The name of a server in plans: no dot, so that the first dot ends it."""
    return _ODD_IN_SERVER.sub(_mark, server)


def wire_names(name: str) -> tuple[str, str]:
    """The server and the tool that a full name stands for, as they call themselves."""
    server, _, tool = name.partition(".")
    return _plain(server), _plain(tool)


def _mark(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):x}_"


def _plain(text: str) -> str:
    return _MARKED.sub(lambda found: _letter(found[1], found[0]), text)


def _letter(digits: str, marked: str) -> str:
    number = int(digits, 16)
    return chr(number) if number <= 0x10FFFF else marked
