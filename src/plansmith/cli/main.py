"""`plansmith`: finds the command, loads only its module, turns errors into exit codes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import IO, Any, Final, NamedTuple, NoReturn, Protocol, cast

from plansmith.cli.exit_codes import Exit
from plansmith.errors import (
    InvalidPlan,
    JournalError,
    ModelFailed,
    PlansmithError,
    Refused,
    RunBusy,
    ToolFailed,
)
from plansmith.text import visible
from plansmith.wiring import load


class WrongUsage(PlansmithError):
    """The words of a command do not fit what it takes; `usage` says what does."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message, hint="--help tells more")
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser whose complaints can be told as JSON too."""

    def error(self, message: str) -> NoReturn:
        """Leave the telling to whoever runs the command."""
        raise WrongUsage(f"{self.prog}: {message}", self.format_usage())


class Output:
    """The one place that tells of failures; counts what the command itself has printed."""

    def __init__(self, *, wants_json: bool) -> None:
        self._wants_json = wants_json
        self._counted: _Counted | None = None

    @contextmanager
    def watched(self) -> Generator[None]:
        """See whether a command that owes JSON prints any."""
        if not self._wants_json:
            yield
            return
        before = sys.stdout
        self._counted = _Counted(before)
        sys.stdout = cast("Any", self._counted)
        try:
            yield
        finally:
            sys.stdout = before

    def failed(self, error: PlansmithError, code: Exit) -> Exit:
        """Tell of a failure that was foreseen."""
        if isinstance(error, WrongUsage):
            sys.stderr.write(visible(f"{error.usage}{error.message}\n"))
        else:
            sys.stderr.write(visible(f"plansmith: {error}\n"))
        problems: Sequence[Any] = getattr(error, "problems", ())
        listed = [each.shown_json() for each in problems]
        more = {"problems": listed} if listed else {}
        self.owed(code, error.message, hint=error.hint, kind=type(error).__name__, **more)
        return code

    def crashed(self, error: Exception) -> Exit:
        """Tell of a failure that nobody foresaw, with all that helps to find it."""
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
        hint = "this is a mistake in Plansmith: please report it with what stderr says"
        self.owed(Exit.FAILED, f"{type(error).__name__}: {error}", hint=hint, kind="Crash")
        return Exit.FAILED

    def owed(self, code: int, message: str, *, hint: str = "", kind: str = "", **more: Any) -> None:
        """Print JSON where it is wanted and the command has printed none."""
        if not self._wants_json or (self._counted is not None and self._counted.letters):
            return
        name = Exit(code).name.lower()
        told = {"code": name, "kind": kind, "message": message, "hint": hint, "exit": int(code)}
        whole = {"error": told | more} if code else {"ok": True, "exit": 0}
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=True) + "\n")
        sys.stdout.flush()


class _Counted:
    """A stream that counts the letters it is given."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.letters = 0

    def write(self, text: str) -> int:
        self.letters += len(text)
        return self._stream.write(text)

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


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
    "ask": Entry("ask:ASK", "plan a request, run the plan, print the report"),
    "plan": Entry("ask:PLAN", "make a plan for a request, and only that"),
    "research": Entry("team:RESEARCH", "have a team find out, and report"),
    "data": Entry("team:DATA", "have a team answer from a database"),
    "run": Entry("run:RUN", "run a plan file, or a run that waits"),
    "watch": Entry("run:WATCH", "follow a run"),
    "approve": Entry("decide:APPROVE", "approve the plan of a run"),
    "reject": Entry("decide:REJECT", "reject the plan of a run"),
    "answer": Entry("decide:ANSWER", "answer a question of a run"),
    "edit": Entry("decide:EDIT", "change the plan of a run in $EDITOR"),
    "changes": Entry("decide:CHANGES", "ask for another plan, in words"),
    "undo": Entry("decide:UNDO", "go back to the plan before"),
    "pause": Entry("decide:PAUSE", "start nothing more of a run"),
    "resume": Entry("run:RESUME", "go on with a run, also after a crash"),
    "retry": Entry("run:RETRY", "continue a run from what is done"),
    "rerun": Entry("run:RERUN", "run everything of a run again"),
    "skip": Entry("decide:SKIP", "leave a step out, and what needs it"),
    "cancel": Entry("decide:CANCEL", "stop a run for good"),
    "runs": Entry("runs:COMMAND", "list runs"),
    "report": Entry("report:COMMAND", "what came of a run, as text, page or JSON"),
    "templates": Entry("templates:COMMAND", "keep good plans and use them again"),
    "schedule": Entry("schedule:COMMAND", "run plans again and again, unattended"),
    "replay": Entry("report:REPLAY", "play a run back offline and compare it"),
    "show": Entry("plans:SHOW", "show a plan file or a run, or convert it"),
    "check": Entry("plans:CHECK", "say what is wrong with a plan file"),
    "diff": Entry("plans:DIFF", "compare two plan files step by step"),
    "graph": Entry("plans:GRAPH", "draw a plan's graph"),
    "import": Entry("plans:IMPORT", "read a plan in another system's shape"),
    "export": Entry("plans:EXPORT", "write a plan or a run in such a shape"),
    "schema": Entry("plans:SCHEMA", "print the JSON Schema of a plan"),
    "serve": Entry("serve:COMMAND", "serve the page and the HTTP API"),
    "mcp": Entry("serve:MCP", "plans and runs as MCP tools, over pipes"),
    "tokens": Entry("tokens:COMMAND", "keys for programs that use your server"),
    "tools": Entry("tools:COMMAND", "list, search, show, approve or call tools"),
    "agents": Entry("agents:COMMAND", "list, add, show or approve A2A agents"),
    "model": Entry("model:COMMAND", "get, choose and check an embedded model"),
    "trust": Entry("trust:COMMAND", "let a folder's own settings count, or not"),
    "prompts": Entry("prompts:COMMAND", "list, show or export the prompts"),
    "repair": Entry("decide:REPAIR", "go on with a damaged run"),
    "verify": Entry("health:VERIFY", "prove that a run's journal is unaltered"),
    "doctor": Entry("health:DOCTOR", "say what is wrong with the store"),
    "explain": Entry("plans:EXPLAIN", "say what a problem code means"),
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
    command = cast("Command", load(f"plansmith.cli.commands.{entry.dotted}"))
    parser = Parser(prog=f"plansmith {name}", description=entry.summary)
    command.configure(parser)
    return command.main(parser.parse_args(words))
