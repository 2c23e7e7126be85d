"""The `plansmith` command: loads the module of a subcommand, turns errors into exit codes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol, cast

from plansmith.cli.exit_codes import Exit, exit_for
from plansmith.errors import PlansmithError
from plansmith.lazy import lazy_modules, uncollected
from plansmith.text import visible

if TYPE_CHECKING:
    from importlib import metadata

    from plansmith import config, tenants
else:
    lazy_modules(
        globals(),
        config="plansmith.config",
        metadata="importlib.metadata",
        tenants="plansmith.tenants",
    )


class WrongUsage(PlansmithError):
    """The arguments of a command are wrong; `usage` says what is right."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message, hint="see --help")
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they can be printed as JSON too."""

    def error(self, message: str) -> NoReturn:
        """Raises the error instead of printing it."""
        raise WrongUsage(f"{self.prog}: {message}", self.format_usage())


class Output:
    """Prints failures; with --json also as JSON, unless the command printed JSON itself."""

    def __init__(self, *, wants_json: bool) -> None:
        self._wants_json = wants_json
        self._counter: _CountingStream | None = None

    @contextmanager
    def counted(self) -> Generator[None]:
        """Counts what a command prints, if it has to print JSON."""
        if not self._wants_json:
            yield
            return
        before = sys.stdout
        self._counter = _CountingStream(before)
        sys.stdout = cast("Any", self._counter)
        try:
            yield
        finally:
            sys.stdout = before

    def failed(self, error: PlansmithError, code: Exit) -> Exit:
        """Prints an expected error; returns its exit code."""
        if isinstance(error, WrongUsage):
            sys.stderr.write(visible(f"{error.usage}{error.message}\n"))
        else:
            sys.stderr.write(visible(f"plansmith: {error}\n"))
        problems: Sequence[Any] = getattr(error, "problems", ())
        listed = [each.shown_json() for each in problems]
        more = {"problems": listed} if listed else {}
        self.print_json(code, error.message, hint=error.hint, kind=type(error).__name__, **more)
        return code

    def crashed(self, error: Exception) -> Exit:
        """Prints an unexpected error with its traceback."""
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
        hint = "this is a bug in Plansmith: please report it with the text on stderr"
        self.print_json(Exit.FAILED, f"{type(error).__name__}: {error}", hint=hint, kind="Crash")
        return Exit.FAILED

    def print_json(
        self, code: int, message: str, *, hint: str = "", kind: str = "", **more: Any
    ) -> None:
        """Prints the outcome as JSON, if that is wanted and the command has printed none."""
        if not self._wants_json or (self._counter is not None and self._counter.written):
            return
        name = Exit(code).name.lower()
        error = {"code": name, "kind": kind, "message": message, "hint": hint, "exit": int(code)}
        whole = {"error": error | more} if code else {"ok": True, "exit": 0}
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=True) + "\n")
        sys.stdout.flush()


class _CountingStream:
    """A stream that counts the characters written to it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.written = 0

    def write(self, text: str) -> int:
        self.written += len(text)
        return self._stream.write(text)

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Command(Protocol):
    """What the module of a command has to offer."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""
        ...

    def main(self, args: argparse.Namespace) -> int:
        """Runs the command; returns the exit code."""
        ...


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
    "mcp": Entry("serve:MCP", "offer plans and runs as MCP tools, over stdio"),
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
    "explain": Entry("plans:EXPLAIN", "explain a problem code"),
}

_HELP: Final = """usage: plansmith [-C FOLDER | --tenant NAME] COMMAND [OPTIONS]

Turns a request into a checked, approved plan and runs it.

commands:
{commands}

plansmith COMMAND --help shows its options; --version prints the version; -C works in FOLDER,
--tenant with the runs and the settings of a tenant.
exit codes: 0 ok, 1 run failed, 2 usage, 3 plan invalid, 4 refused, 5 waiting for a person,
            6 budget, 7 partly done, 130 interrupted
"""


def main(argv: Sequence[str] | None = None, *, within: tenants.Tenant | None = None) -> int:
    """Runs the command line, also within a tenant; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("-C", "--folder"):
        return _in_folder(arguments[1:])
    if arguments and arguments[0] == "--tenant":
        return _in_tenant(arguments[1:])
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        rows = (f"  {name:<10}{entry.summary}" for name, entry in COMMANDS.items())
        sys.stdout.write(_HELP.format(commands="\n".join(rows)))
        return Exit.OK if arguments else Exit.USAGE
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"plansmith {metadata.version('plansmith')}\n")
        return Exit.OK
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    output = Output(wants_json="--json" in flags)
    if arguments[0] not in COMMANDS:
        message = f"there is no command {arguments[0]!r}; try plansmith --help"
        return output.failed(PlansmithError(message), Exit.USAGE)
    return _guarded(arguments[0], arguments[1:], output, within)


def _in_folder(arguments: Sequence[str]) -> int:
    """Runs the command line in another folder."""
    try:
        with contextlib.chdir(arguments[0] if arguments else ""):
            return main(arguments[1:])
    except OSError as error:
        folder = arguments[0] if arguments else "-C"
        problem = PlansmithError(f"cannot work in {folder!r}: {error.strerror}")
        return Output(wants_json="--json" in arguments).failed(problem, Exit.USAGE)


def _in_tenant(arguments: Sequence[str]) -> int:
    """Runs the command line with the store, the folder and the settings of a tenant."""
    try:
        book = tenants.TenantBook(config.data_folder())
        found = book.get(arguments[0] if arguments else "")
    except PlansmithError as error:
        return Output(wants_json="--json" in arguments).failed(error, Exit.USAGE)
    with contextlib.chdir(found.folder):
        return main(arguments[1:], within=found)


def _guarded(
    name: str, arguments: Sequence[str], output: Output, within: tenants.Tenant | None
) -> int:
    try:
        with output.counted():
            code = _run(name, arguments, within)
        output.print_json(code, _ENDS.get(code, "the command printed nothing more"))
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("plansmith: interrupted\n")
        output.print_json(Exit.INTERRUPTED, "interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; writing the rest of the buffer would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except PlansmithError as error:
        return output.failed(error, exit_for(error))
    except Exception as error:  # noqa: BLE001 - printed with its traceback
        return output.crashed(error)
    return code


_ENDS: Final[dict[int, str]] = {Exit.WAITING: "a person is needed: stderr says for what"}


def _run(name: str, arguments: Sequence[str], within: tenants.Tenant | None) -> int:
    entry = COMMANDS[name]
    with uncollected(freeze=True):
        command = cast("Command", resolve_name(f"plansmith.cli.commands.{entry.dotted}"))
    parser = Parser(prog=f"plansmith {name}", description=entry.summary)
    command.configure(parser)
    parser.set_defaults(within=within)
    return command.main(parser.parse_args(arguments))
