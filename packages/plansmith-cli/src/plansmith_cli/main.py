"""The `plansmith` command: loads the module of a subcommand, turns errors into exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, cast

from plansmith.errors import PlansmithError
from plansmith.lazy import gc_paused, lazy_modules
from plansmith.text import SURROGATES, visible
from plansmith_cli.command_table import COMMANDS, DAILY, MORE, Command, Exit, exit_for, verbs
from plansmith_cli.parser import FOLDER, Parser, WrongUsage, help_text
from plansmith_cli.ui.terminal import LANGUAGE, own_locale, padded, say_fitted, use_language

if TYPE_CHECKING:
    from importlib import metadata

    from plansmith import plugins
    from plansmith.plan import sentence
    from plansmith_cli import folders
    from plansmith_cli.ui import output as words
    from plansmith_server.team import tenant_book
else:
    lazy_modules(
        globals(),
        folders="plansmith_cli.folders",
        metadata="importlib.metadata",
        plugins="plansmith.plugins",
        sentence="plansmith.plan.sentence",
        tenant_book="plansmith_server.team.tenant_book",
        words="plansmith_cli.ui.output",
    )

_FLAGS: Final = (
    "plansmith COMMAND --help shows its options, plansmith help PS301 explains a problem;"
    "\n--version prints the version; -C works in FOLDER, --tenant with what is a tenant's."
)
_EXITS: Final = (
    "exit codes: 0 ok, 1 run failed, 2 usage, 3 plan invalid, 4 refused, 5 waiting for a person,"
    "\n            6 budget, 7 partly done, 130 interrupted"
)


class Output:
    """Prints failures; with --json also as JSON, unless the command printed something itself."""

    def __init__(self, arguments: Sequence[str]) -> None:
        flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
        self.wants_json = "--json" in flags
        self._stdout = sys.stdout
        self._has_written = False

    def write(self, text: str) -> int:
        self._has_written = self._has_written or bool(text)
        return self._stdout.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)

    def failed(self, error: PlansmithError, code: Exit) -> Exit:
        """Prints an expected error; returns its exit code."""
        text = words.error_text(error, own_locale())
        if isinstance(error, WrongUsage):
            sys.stderr.write(visible(error.usage))
        say_fitted(text if isinstance(error, WrongUsage) else f"plansmith: {text}")
        problems = [each.shown_json() for each in getattr(error, "problems", ())]
        more = {"problems": problems} if problems else {}
        self.print_json(code, error.message, hint=error.hint, kind=type(error).__name__, **more)
        return code

    def print_json(
        self, code: int, message: str, *, hint: str = "", kind: str = "", **more: Any
    ) -> None:
        """Prints the outcome as JSON, if that is wanted and the command has printed none."""
        if not self.wants_json or self._has_written:
            return
        name = Exit(code).name.lower()
        error = {"code": name, "kind": kind, "message": message, "hint": hint, "exit": int(code)}
        whole = {"error": error | more} if code else {"ok": True, "exit": 0}
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=True) + "\n")
        sys.stdout.flush()


def main(argv: Sequence[str] | None = None, *, within: tenant_book.Tenant | None = None) -> int:
    """Runs the command line, also within a tenant; returns the exit code."""
    arguments = without_surrogates(sys.argv[1:] if argv is None else argv)
    first = arguments[0] if arguments else "--help"
    if first in ("-C", "--folder", "--tenant"):
        return _run_elsewhere(arguments, arguments[1] if arguments[1:] else "", within)
    if first in ("-h", "--help"):
        sys.stdout.write(overview())
        return Exit.OK if arguments else Exit.USAGE
    if first in ("-V", "--version"):
        sys.stdout.write(f"plansmith {metadata.version('plansmith')}\n")
        return Exit.OK
    return _run_guarded(arguments, within)


def without_surrogates(given: Sequence[str]) -> list[str]:
    """Replaces bytes that are not UTF-8, which can be neither stored nor printed.

    Values that are sent to a tool stay as they are: `--set` refuses what it cannot send.
    """
    return [
        each if before == "--set" else SURROGATES.sub("\ufffd", each)
        for before, each in zip(("", *given), given, strict=False)
    ]


def program() -> None:
    """Runs the command line as a process of its own, and ends it."""
    code = main()
    if code == Exit.INTERRUPTED:
        # Python would wait for threads, and the embedded model reads on for seconds in one.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def rows(table: Mapping[str, str]) -> str:
    """Returns names with what they do, in two columns."""
    width = max(map(len, table)) + 2
    return "\n".join(f"  {name:<{width}}{help_text(summary)}" for name, summary in table.items())


def overview() -> str:
    """Returns the commands of every day with what they do, and the names of the others."""
    daily = rows({name: COMMANDS[name].summary for name in DAILY})
    more = (f"  {padded(help_text(each), 10)}{' '.join(names)}" for each, names in MORE.items())
    others = help_text("more (plansmith help all tells what each does):")
    parts = (
        help_text("usage: plansmith [-C FOLDER | --tenant NAME] COMMAND [OPTIONS]"),
        help_text("Turns a request into a checked, approved plan and runs it."),
        "\n".join((help_text("every day:"), daily)),
        "\n".join((others, *more)),
        "\n".join((help_text(_FLAGS), help_text(_EXITS))),
    )
    return "\n\n".join(parts) + "\n"


def _run_elsewhere(arguments: Sequence[str], name: str, within: tenant_book.Tenant | None) -> int:
    """Runs the rest of the command line in the folder or the tenant that is named first."""
    is_tenant = arguments[0] == "--tenant"
    folder_token = FOLDER.set(FOLDER.get() if is_tenant else name)
    try:
        tenant = tenant_book.TenantBook(folders.data_folder()).get(name) if is_tenant else within
        if within and tenant != within:
            raise words.wrong("two different tenants are named")
        with contextlib.chdir(tenant.folder if tenant and is_tenant else name):
            return main(arguments[2:], within=tenant)
    except OSError as error:
        message = sentence.Sentence(
            "cannot work in '{folder}': {reason}", folder=name or "-C", reason=error.strerror
        )
        return Output(arguments).failed(PlansmithError(message), Exit.USAGE)
    except PlansmithError as error:
        return Output(arguments).failed(error, Exit.USAGE)
    finally:
        FOLDER.reset(folder_token)


def _run_guarded(arguments: Sequence[str], within: tenant_book.Tenant | None) -> int:
    """Runs a command; whatever it raises becomes an exit code and, if wanted, JSON."""
    language_token, output = LANGUAGE.set(""), Output(arguments)
    watched = contextlib.redirect_stdout(cast("Any", output))
    try:
        with watched if output.wants_json else contextlib.nullcontext():
            code = _run(arguments, within) or Exit.OK
        waiting = "a person is needed: stderr says for what"
        output.print_json(
            code, waiting if code == Exit.WAITING else "the command printed nothing more"
        )
        sys.stdout.flush()
    except KeyboardInterrupt:
        words.tell(f"plansmith: {words.own_text('interrupted')}")
        output.print_json(Exit.INTERRUPTED, "interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; writing the rest of the buffer would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except PlansmithError as error:
        return output.failed(error, exit_for(error))
    except Exception as error:  # noqa: BLE001 - printed with its traceback
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
        hint = "this is a bug in Plansmith: please report it with the text on stderr"
        message = f"{type(error).__name__}: {error}"
        output.print_json(Exit.FAILED, message, hint=hint, kind="Crash")
        return Exit.FAILED
    finally:
        LANGUAGE.reset(language_token)
    return code


def split(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Returns the command, which has one to three words, and its own arguments."""
    names = ((" ".join(arguments[:count]), count) for count in (3, 2))
    name, count = next((each for each in names if each[0] in COMMANDS), (arguments[0], 1))
    return name, arguments[count:]


def parser_of(name: str, command: Command) -> Parser:
    """Returns the parser of a command's arguments; its help also tells the verbs of a noun."""
    summary = COMMANDS[name].summary if name in COMMANDS else command.summary
    below = {each: COMMANDS[each].summary for each in verbs(name)}
    parser = Parser(
        prog=f"plansmith {name}",
        description=summary,
        verbs=rows(below) if below else "",
    )
    command.configure(parser)
    return parser


def load_command(name: str) -> Command:
    """Loads a command: ours, or one that an installed package brings."""
    if name not in COMMANDS:
        if name not in plugins.names("commands"):
            raise _unknown(name)
        return cast("Command", plugins.load("commands", name))
    return cast("Command", resolve_name(f"plansmith_cli.commands.{COMMANDS[name].place}"))


def _unknown(name: str) -> PlansmithError:
    hint = sentence.did_you_mean(
        name, COMMANDS, otherwise=sentence.Sentence("plansmith --help lists all")
    )
    if name.startswith("-"):
        hint = sentence.Sentence(
            "options follow the command, such as plansmith ask {name}", name=name
        )
    return PlansmithError(sentence.Sentence("there is no command '{name}'", name=name), hint=hint)


def _run(arguments: Sequence[str], within: tenant_book.Tenant | None) -> int | None:
    name, own = split(arguments)
    with gc_paused(freeze=True):
        command = load_command(name)
    parser = parser_of(name, command)
    if verbs(name) and own and not own[0].startswith("-") and not parser.takes_words:
        raise _unknown(f"{name} {own[0]}")
    parser.set_defaults(within=within, command=name)
    args = parser.parse_args(own)
    use_language(vars(args).get("lang"), vars(args).get("request"))
    return command.main(args)
