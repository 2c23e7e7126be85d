"""The commands, and the subjects under which `--help` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A row of the command table."""

    dotted: str
    summary: str


COMMANDS: Final = {
    "ask": Entry("ask:ASK", "plan a request, run the plan, print the report"),
    "chat": Entry("chat:COMMAND", "talk: requests that know what came before"),
    "plan": Entry("ask:PLAN", "make a plan for a request, without running it"),
    "research": Entry("team:RESEARCH", "have a team of agents research a question"),
    "data": Entry("team:DATA", "have a team of agents query a database"),
    "run": Entry("run:RUN", "run a plan file, or continue a run"),
    "watch": Entry("run:WATCH", "follow a run"),
    "approve": Entry("decide:APPROVE", "approve the plan of a run"),
    "reject": Entry("decide:REJECT", "reject the plan of a run"),
    "answer": Entry("decide:ANSWER", "answer a question of a run"),
    "edit": Entry("decide:EDIT", "edit the plan of a run in $EDITOR"),
    "changes": Entry("decide:CHANGES", "describe changes to a plan, and plan again"),
    "undo": Entry("decide:UNDO", "go back to the previous plan"),
    "pause": Entry("decide:PAUSE", "pause a run"),
    "resume": Entry("run:RESUME", "continue a run, also after a crash"),
    "retry": Entry("run:RETRY", "continue a run from what is done"),
    "rerun": Entry("run:RERUN", "run the plan of a run again from the start"),
    "skip": Entry("decide:SKIP", "skip a step, and the steps that need it"),
    "cancel": Entry("decide:CANCEL", "cancel a run"),
    "runs": Entry("runs:COMMAND", "list runs"),
    "threads": Entry("threads:COMMAND", "list, show, undo or delete conversations"),
    "report": Entry("report:COMMAND", "print the report of a run as text, HTML or JSON"),
    "templates": Entry("templates:COMMAND", "save plans and use them again"),
    "schedule": Entry("schedule:COMMAND", "run plans at set times, unattended"),
    "replay": Entry("report:REPLAY", "replay a run offline and compare it"),
    "show": Entry("plans:SHOW", "show a plan file or a run, or convert it"),
    "check": Entry("plans:CHECK", "check a plan file"),
    "diff": Entry("plans:DIFF", "compare two plan files step by step"),
    "graph": Entry("plans:GRAPH", "draw a plan's graph"),
    "import": Entry("plans:IMPORT", "read a plan of another system's format"),
    "export": Entry("plans:EXPORT", "write a plan or a run in such a format, or as a program"),
    "schema": Entry("plans:SCHEMA", "print the JSON Schema of a plan"),
    "serve": Entry("serve:COMMAND", "serve the web page and the HTTP API"),
    "worker": Entry("worker:WORKER", "execute the runs of a shared store, without HTTP"),
    "workers": Entry("worker:WORKERS", "list servers and workers, and what they execute"),
    "mcp": Entry("mcp:COMMAND", "offer plans and runs as MCP tools, over stdio"),
    "tokens": Entry("tokens:COMMAND", "create and revoke tokens for your server"),
    "tenants": Entry("tenants:COMMAND", "create and remove the tenants of a server"),
    "tools": Entry("tools:COMMAND", "list, search, show, approve or call tools"),
    "agents": Entry("agents:COMMAND", "list, add, show or approve A2A agents"),
    "model": Entry("model:COMMAND", "download, choose and check an embedded model"),
    "trust": Entry("trust:COMMAND", "trust the settings of a folder, or not"),
    "prompts": Entry("prompts:COMMAND", "list, show or export the prompts"),
    "repair": Entry("decide:REPAIR", "repair a damaged run"),
    "verify": Entry("health:VERIFY", "check that a run's journal is unaltered"),
    "audit": Entry("audit:COMMAND", "export who did what and when, as JSON lines or CSV"),
    "doctor": Entry("health:DOCTOR", "check the store, the model and the sandbox"),
    "prune": Entry("housekeeping:PRUNE", "remove runs that ended long ago"),
    "backup": Entry("housekeeping:BACKUP", "copy the store to a file, beside live runs"),
    "restore": Entry("housekeeping:RESTORE", "put a backup in the place of the store"),
    "vacuum": Entry("housekeeping:VACUUM", "give unused space of the store back"),
    "explain": Entry("explain:EXPLAIN", "explain a problem code"),
    "demo": Entry("demo:COMMAND", "take a tour of a minute: no model, no network, no files"),
    "config": Entry("settings:COMMAND", "show the settings that count here, and their origin"),
    "completion": Entry("completion:COMMAND", "print a script that completes commands in a shell"),
}

DAILY: Final = (
    *("ask", "chat", "plan", "run", "approve", "answer", "resume"),
    *("runs", "show", "report", "serve", "model", "demo"),
)
MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "decide": ("reject", "edit", "changes", "undo", "pause", "skip", "cancel"),
    "runs": ("watch", "retry", "rerun", "replay", "threads"),
    "plans": ("check", "diff", "graph", "import", "export", "schema", "explain"),
    "reuse": ("templates", "schedule"),
    "teams": ("research", "data"),
    "tools": ("tools", "agents", "prompts", "trust"),
    "operate": ("worker", "workers", "mcp", "tokens", "tenants"),
    "store": ("doctor", "verify", "repair", "audit", "prune", "backup", "restore", "vacuum"),
    "shell": ("config", "completion"),
}
