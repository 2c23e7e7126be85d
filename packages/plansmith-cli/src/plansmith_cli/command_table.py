"""The table of commands: where each is, what it does, its subject in `--help`; and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith import errors

if TYPE_CHECKING:
    import argparse


class Command(NamedTuple):
    """What a command is made of; one of another package also says what it does.

    `main` returns the exit code, or nothing where all is well.
    """

    configure: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int | None]
    summary: str = ""


class Entry(NamedTuple):
    """A row of the table: a command of one or two words; without a place, only of verbs."""

    place: str
    summary: str


COMMANDS: Final = {
    "ask": Entry("ask:ASK", "plan a request, run the plan, print the report"),
    "chat": Entry("chat:COMMAND", "talk: requests that know what came before"),
    "plan": Entry("ask:PLAN", "make a plan for a request, without running it"),
    "run": Entry("ask:RUN", "run a plan file"),
    "go": Entry("ask:GO", "go on with a run: review, answer, resume, whatever is next"),
    "approve": Entry("decide:APPROVE", "approve the plan of a run, by its hash"),
    "reject": Entry("decide:REJECT", "reject the plan of a run"),
    "answer": Entry("decide:ANSWER", "answer a question of a run"),
    "runs": Entry("runs:COMMAND", "list runs, or do something with one"),
    "runs watch": Entry("ask:WATCH", "follow a run of another process"),
    "runs edit": Entry("decide:EDIT", "edit the plan in $EDITOR"),
    "runs change": Entry("decide:CHANGE", "describe changes to the plan, and plan again"),
    "runs undo": Entry("decide:UNDO", "go back to the previous plan, or take effects back"),
    "runs skip": Entry("decide:SKIP", "skip a step, and the steps that need it"),
    "runs pause": Entry("decide:PAUSE", "pause a run"),
    "runs cancel": Entry("decide:CANCEL", "cancel a run"),
    "runs retry": Entry("ask:RETRY", "continue a run that is over from what is done"),
    "runs rerun": Entry("ask:RERUN", "run the plan of a run again from the start"),
    "runs replay": Entry("report:REPLAY", "replay a run offline and compare it"),
    "show": Entry("runs:SHOW", "show a plan file or a run"),
    "report": Entry("report:COMMAND", "print the report of a run as text, HTML or JSON"),
    "check": Entry("plans:CHECK", "check a plan file"),
    "diff": Entry("plans:DIFF", "compare two plans step by step"),
    "convert": Entry("plans:CONVERT", "write a plan in another format, or as a program"),
    "threads": Entry("threads:COMMAND", "list, show, undo or delete conversations"),
    "templates": Entry("templates:COMMAND", "save plans and use them again"),
    "schedule": Entry("schedule:COMMAND", "run plans at set times, unattended"),
    "team": Entry("", "give a request to a team of agents"),
    "team research": Entry("team:RESEARCH", "have a team research a question"),
    "team data": Entry("team:DATA", "have a team query a database"),
    "tools": Entry("tools:COMMAND", "list, search, show, approve or call tools"),
    "agents": Entry("tools:AGENTS", "list, add, show or approve A2A agents"),
    "model": Entry("model:COMMAND", "download, choose and check an embedded model"),
    "trust": Entry("config:TRUST", "trust the settings of a folder, or not"),
    "config": Entry("config:COMMAND", "show the settings that count here, and their origin"),
    "config prompts": Entry("config:PROMPTS", "list, show or export the prompts"),
    "serve": Entry("serve:COMMAND", "serve the web page and the HTTP API"),
    "serve mcp": Entry("mcp:COMMAND", "offer plans and runs as MCP tools, over stdio"),
    "serve worker": Entry("serve:WORKER", "execute the runs of a shared store, without HTTP"),
    "tokens": Entry("tokens:COMMAND", "create and revoke tokens for your server"),
    "tenants": Entry("tokens:TENANTS", "create and remove the tenants of a server"),
    "store": Entry("", "look after the store that keeps the runs"),
    "store doctor": Entry("store:DOCTOR", "check the store, the model and the sandbox"),
    "store verify": Entry("store:VERIFY", "check that a run's journal is unaltered"),
    "store repair": Entry("decide:REPAIR", "repair a damaged run"),
    "store audit": Entry("store:AUDIT", "export who did what and when, as JSON lines or CSV"),
    "store workers": Entry("store:WORKERS", "list servers and workers, and what they execute"),
    "store prune": Entry("store:PRUNE", "remove runs that ended long ago"),
    "store backup": Entry("store:BACKUP", "copy the store to a file, beside live runs"),
    "store restore": Entry("store:RESTORE", "put a backup in the place of the store"),
    "store vacuum": Entry("store:VACUUM", "give unused space of the store back"),
    "demo": Entry("demo:COMMAND", "take a tour of a minute: no model, no network, no files"),
    "help": Entry("help:COMMAND", "explain a command, or a problem code such as PS301"),
    "completion": Entry("help:COMPLETION", "print a script that completes commands in a shell"),
}

DAILY: Final = (
    *("ask", "chat", "plan", "run", "go", "approve", "reject", "answer"),
    *("runs", "show", "report", "serve", "model", "demo", "help"),
)
MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "plans": ("check", "diff", "convert"),
    "reuse": ("threads", "templates", "schedule"),
    "tools": ("tools", "agents", "team"),
    "operate": ("store", "tokens", "tenants"),
    "settings": ("config", "trust", "completion"),
}


def verbs(name: str) -> list[str]:
    """Returns the commands of two words that begin with a word, such as `runs watch`."""
    return [each for each in COMMANDS if each.startswith(f"{name} ")]


class Exit(IntEnum):
    """What a command's exit code means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    REFUSED = 4
    WAITING = 5
    BUDGET = 6
    PARTLY = 7
    INTERRUPTED = 130


_EXITS: Final = {
    errors.PlanInvalid: Exit.INVALID,
    errors.ModelFailed: Exit.FAILED,
    errors.ToolFailed: Exit.FAILED,
    errors.JournalError: Exit.FAILED,
    errors.NotFound: Exit.USAGE,
    errors.RunBusy: Exit.WAITING,
    errors.Refused: Exit.REFUSED,
}


def exit_for(error: errors.PlansmithError) -> Exit:
    """Returns the exit code of a command that ends with an error."""
    return next((code for kind, code in _EXITS.items() if isinstance(error, kind)), Exit.USAGE)
