"""Uses an MCP server from npm in a plan, once a person has approved it and each of its tools.

Run it: `python mcp_from_npm.py` (npx fetches the server); `python mcp_from_npm.py COMMAND …` starts
one that is installed. An `ApprovalFile` instead of `Approvals` remembers what was approved.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from plansmith import Plansmith, read_plan
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers
from plansmith_connect.mcp.settings import ServerSettings

NPX = ["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31"]


async def main(folder: Path) -> None:
    command, *args = sys.argv[1:] or NPX
    # Trusted: what the server says of its tools is believed, so that its reads count as reads.
    server = ServerSettings(command=command, args=(*args, str(folder)), trusted=True)
    async with McpServers({"notes": server}, approvals=Approvals()) as servers:
        for _ in ("the server", "its tools"):
            for waiting in await servers.pending():  # a person reads waiting.text
                servers.approve(waiting.name, waiting.hash, by="ada")
        for spec in await servers.tools():
            if spec.name in ("notes.read_text_file", "notes.write_file"):
                print(spec.name, spec.effect.value)

        inputs = {"path": str(folder / "note.txt")}
        steps = [{"id": "note", "tool": "notes.read_text_file", "inputs": inputs}]
        run = await Plansmith(tools=[servers]).do(read_plan({"goal": "Read", "steps": steps}))
        print(run.status, run.result("note"))


notes = Path(tempfile.mkdtemp()).resolve()
(notes / "note.txt").write_text("buy milk\n", encoding="utf-8")
asyncio.run(main(notes))

# Prints:
# notes.read_text_file read
# notes.write_file final
# done {'content': 'buy milk\n'}
