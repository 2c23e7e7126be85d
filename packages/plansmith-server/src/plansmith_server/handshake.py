"""Answers the handshake of `plansmith serve mcp` before the rest of the program is loaded."""

from __future__ import annotations

import io
import json
import os
import sys
from importlib.metadata import version
from typing import Any, Final, cast

ABOUT: Final = (
    "Plansmith turns a request into a checked plan and runs it. plan_create plans, run_start "
    "starts it, run_status and run_result return its state and results. With a conversation, "
    "plan_create knows what came before. A plan that changes anything waits until a person "
    "approves it; no tool here can approve."
)
_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_ABLE: Final[dict[str, Any]] = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}


def answer_handshake() -> None:
    """Answers a client's first message; the server still reads it when it is loaded.

    From then on no other code reads or writes messages: descriptor 0 is empty, and 1 is stderr.
    """
    sys.stdin, output = os.fdopen(os.dup(0)), _Output(os.dup(1), "wb")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(output))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    seen = cast("io.BufferedReader", sys.stdin.buffer).peek()
    answer = handshake_answer(seen.partition(b"\n")[0])
    if answer:
        output.write(answer)
        output.skips = True


def handshake_answer(line: bytes) -> bytes:
    """Returns what the server answers to `initialize`; nothing to another or a cut message."""
    try:
        request = json.loads(line)
        wanted, number = request["params"]["protocolVersion"], request["id"]
    except (ValueError, KeyError, TypeError):
        return b""
    if request.get("method") != "initialize":
        return b""
    result = {
        "capabilities": _ABLE,
        "instructions": ABOUT,
        "protocolVersion": wanted if wanted in _VERSIONS else _VERSIONS[-1],
        "serverInfo": {"name": "plansmith", "title": "Plansmith", "version": version("plansmith")},
    }
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n"


class _Output(io.FileIO):
    """A file that may skip the next line, since it was written before."""

    skips = False

    def write(self, data: Any, /) -> int:
        if not self.skips:
            return super().write(data)
        skipped, end, _ = bytes(data).partition(b"\n")
        self.skips = not end
        return len(skipped + end)
