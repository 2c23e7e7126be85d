"""`plansmith`: finds the command, loads only its module, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final, NamedTuple, Protocol, cast

from plansmith.cli.exits import Exit
from plansmith.cli.failing import Output, Parser
from plansmith.errors import (
    InvalidPlan,
    JournalError,
    ModelFailed,
    PlansmithError,
    Refused,
    RunBusy,
    ToolFailed,
)
from plansmith.wiring import load


class Command(Protocol):
    """What a command's module offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        ...

    def main(self, args: argparse.Namespace) -> int:
        """Do the work; return the exit code."""
        ...


class Entry(NamedTuple):
    """A line of the command table."""

    dotted: str
    summary: str


COMMANDS: Final = {
    "ask": Entry("plansmith.cli.ask:ASK", "plan a request, run the plan, print the report"),
    "plan": Entry("plansmith.cli.ask:PLAN", "make a plan for a request, and only that"),
    "research": Entry("plansmith.cli.team:RESEARCH", "have a team find out, and report"),
    "data": Entry("plansmith.cli.team:DATA", "have a team answer from a database"),
    "run": Entry("plansmith.cli.running:RUN", "run a plan file, or a run that waits"),
    "watch": Entry("plansmith.cli.running:WATCH", "follow a run"),
    "approve": Entry("plansmith.cli.deciding:APPROVE", "approve the plan of a run"),
    "reject": Entry("plansmith.cli.deciding:REJECT", "reject the plan of a run"),
    "answer": Entry("plansmith.cli.deciding:ANSWER", "answer a question of a run"),
    "edit": Entry("plansmith.cli.deciding:EDIT", "change the plan of a run in $EDITOR"),
    "changes": Entry("plansmith.cli.deciding:CHANGES", "ask for another plan, in words"),
    "undo": Entry("plansmith.cli.deciding:UNDO", "go back to the plan before"),
    "pause": Entry("plansmith.cli.deciding:PAUSE", "start nothing more of a run"),
    "resume": Entry("plansmith.cli.running:RESUME", "go on with a run, also after a crash"),
    "retry": Entry("plansmith.cli.running:RETRY", "continue a run from what is done"),
    "rerun": Entry("plansmith.cli.running:RERUN", "run everything of a run again"),
    "skip": Entry("plansmith.cli.deciding:SKIP", "leave a step out, and what needs it"),
    "cancel": Entry("plansmith.cli.deciding:CANCEL", "stop a run for good"),
    "runs": Entry("plansmith.cli.listing:COMMAND", "list runs"),
    "report": Entry("plansmith.cli.report:COMMAND", "what came of a run, as text, page or JSON"),
    "templates": Entry("plansmith.cli.templates:COMMAND", "keep good plans and use them again"),
    "schedule": Entry("plansmith.cli.schedule:COMMAND", "run plans again and again, unattended"),
    "replay": Entry("plansmith.cli.replay:COMMAND", "play a run back offline and compare it"),
    "show": Entry("plansmith.cli.plans:SHOW", "show a plan file or a run, or convert it"),
    "check": Entry("plansmith.cli.plans:CHECK", "say what is wrong with a plan file"),
    "diff": Entry("plansmith.cli.plans:DIFF", "compare two plan files step by step"),
    "graph": Entry("plansmith.cli.plans:GRAPH", "draw a plan's graph"),
    "import": Entry("plansmith.cli.dialects:IMPORT", "read a plan in another system's shape"),
    "export": Entry("plansmith.cli.dialects:EXPORT", "write a plan or a run in such a shape"),
    "schema": Entry("plansmith.cli.plans:SCHEMA", "print the JSON Schema of a plan"),
    "serve": Entry("plansmith.cli.serve:COMMAND", "serve the page and the HTTP API"),
    "mcp": Entry("plansmith.cli.mcp:COMMAND", "plans and runs as MCP tools, over pipes"),
    "tokens": Entry("plansmith.cli.tokens:COMMAND", "keys for programs that use your server"),
    "tools": Entry("plansmith.cli.tools:COMMAND", "list, search, show, approve or call tools"),
    "agents": Entry("plansmith.cli.agents:COMMAND", "list, add, show or approve A2A agents"),
    "model": Entry("plansmith.cli.model:COMMAND", "get, choose and check an embedded model"),
    "trust": Entry("plansmith.cli.trust:COMMAND", "let a folder's own settings count, or not"),
    "prompts": Entry("plansmith.cli.prompts:COMMAND", "list, show or export the prompts"),
    "repair": Entry("plansmith.cli.deciding:REPAIR", "go on with a damaged run"),
    "verify": Entry("plansmith.cli.health:VERIFY", "prove that a run's journal is unaltered"),
    "doctor": Entry("plansmith.cli.health:DOCTOR", "say what is wrong with the store"),
    "explain": Entry("plansmith.cli.plans:EXPLAIN", "say what a problem code means"),
}

_HELP: Final = """usage: plansmith [-C FOLDER] COMMAND [OPTIONS]

Turns a request into a checked, approved plan and runs it.

commands:
{commands}

plansmith COMMAND --help tells more; --version tells the version; -C FOLDER works in that folder.
exit codes: 0 ok, 1 run failed, 2 usage, 3 plan invalid, 4 refused, 5 waiting for a person,
            6 budget, 7 partly done, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("-C", "--folder"):
        return _elsewhere(words[1:])
    if not words or words[0] in ("-h", "--help", "help"):
        rows = (f"  {name:<10}{entry.summary}" for name, entry in COMMANDS.items())
        sys.stdout.write(_HELP.format(commands="\n".join(rows)))
        return Exit.OK if words else Exit.USAGE
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"plansmith {version('plansmith')}\n")
        return Exit.OK
    flags = words[: words.index("--")] if "--" in words else words
    output = Output(wants_json="--json" in flags)
    if words[0] not in COMMANDS:
        message = f"there is no command {words[0]!r}; try plansmith --help"
        return output.failed(PlansmithError(message), Exit.USAGE)
    return _guarded(words[0], words[1:], output)


def _elsewhere(words: Sequence[str]) -> int:
    """The command line as it would go in another folder."""
    try:
        with contextlib.chdir(words[0] if words else ""):
            return main(words[1:])
    except OSError as error:
        folder = words[0] if words else "-C"
        told = PlansmithError(f"cannot work in {folder!r}: {error.strerror}")
        return Output(wants_json="--json" in words).failed(told, Exit.USAGE)


def _guarded(name: str, words: Sequence[str], output: Output) -> int:
    try:
        with output.watched():
            code = _run(name, words)
        output.owed(code, _ENDS.get(code, "the command has nothing more to tell"))
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("plansmith: interrupted\n")
        output.owed(Exit.INTERRUPTED, "interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; writing the rest of the buffer would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except PlansmithError as error:
        return output.failed(error, _exit_of(error))
    except Exception as error:  # noqa: BLE001 - told whole, and as JSON where that is wanted
        return output.crashed(error)
    return code


_ENDS: Final[dict[int, str]] = {Exit.WAITING: "a person is needed: stderr says for what"}


def _exit_of(error: PlansmithError) -> Exit:
    match error:
        case InvalidPlan():
            return Exit.INVALID
        case ModelFailed() | ToolFailed() | JournalError():
            return Exit.FAILED
        case RunBusy():
            return Exit.WAITING
        case Refused():
            return Exit.REFUSED
        case _:
            return Exit.USAGE


def _run(name: str, words: Sequence[str]) -> int:
    entry = COMMANDS[name]
    command = cast("Command", load(entry.dotted))
    parser = Parser(prog=f"plansmith {name}", description=entry.summary)
    command.configure(parser)
    return command.main(parser.parse_args(words))
