"""Defines the flags that several commands share, and reads settings from them."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith.text import visible
from plansmith_cli.config import Settings, load_settings
from plansmith_cli.parser import FOLDER
from plansmith_cli.ui.width import say_fitted
from plansmith_cli.ui.words import own, own_text

if TYPE_CHECKING:
    from plansmith_cli import tenant_settings
    from plansmith_cli.ui.planning import Detail
    from plansmith_planner import make as models
    from plansmith_server.team.tenant_book import Tenant
else:
    lazy_modules(
        globals(),
        models="plansmith_planner.make",
        tenant_settings="plansmith_cli.tenant_settings",
    )

# Flags that the next command about the same run has to repeat.
_REPEATED: Final = ("store", "tools", "model", "base_url", "docs", "profile")
_PARTS: Final[dict[str, dict[str, Any]]] = {
    "--tools": {
        "action": "append",
        "metavar": "FILE",
        "help": "tools: Python, or JSON; repeatable",
    },
    "--model": {"help": "the model that plans, such as openai:gpt-5"},
    "--base-url": {"help": "an OpenAI-compatible server, with --model openai:NAME"},
    "--docs": {"action": "append", "metavar": "PATH", "help": "documents; repeatable"},
    "--profile": {"metavar": "FILE", "help": "for whom the plan is, as YAML or TOML"},
}
# Commands that only look at runs, or stop them, need the store alone; these need tools as well.
_STORE_ALONE: Final = frozenset(
    (
        *("reject", "report", "show", "threads", "runs", "runs watch", "runs skip"),
        *("runs pause", "runs cancel", "store repair"),
    )
)
_TOOLS_ALONE: Final = frozenset(("convert", "runs edit", "runs undo", "runs replay"))
_NOUNS: Final = frozenset(("runs", "store"))
_LIMITS: Final[dict[str, type[int | float]]] = {
    "money": float,
    "tokens": int,
    "steps": int,
    "seconds": float,
}


def positive(text: str) -> int:
    """Reads a number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            own_text("{text} is not a whole number", text=visible(text))
        ) from None
    if number < 1:
        raise argparse.ArgumentTypeError(own_text("{number} is not 1 or more", number=text))
    return number


def add_store(parser: argparse.ArgumentParser) -> None:
    """Adds `--store`."""
    parser.add_argument("--store", metavar="URL", help="where runs are kept: sqlite:///FILE or …")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def add_detail(parser: argparse.ArgumentParser) -> None:
    """Adds `-q` and `-v`."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print the answer alone on stdout; on stderr only problems and what asks you",
    )
    how.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="tell on stderr each stage of planning, the model, times and tokens",
    )


def detail_of(args: argparse.Namespace) -> Detail:
    """Returns how much a command tells beside its answer."""
    given = vars(args)
    if given.get("quiet"):
        return "quiet"
    return "verbose" if given.get("verbose") else "normal"


def add_parts(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for store, tools, model, documents and profile."""
    _add_parts(parser, shown=[*_PARTS])


def add_tools(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for store and tools: for commands that make no plan."""
    _add_parts(parser, shown=["--tools"])


def add_store_alone(parser: argparse.ArgumentParser) -> None:
    """Adds `--store`: for commands that only look at runs, or stop them."""
    _add_parts(parser, shown=[])


def _add_parts(parser: argparse.ArgumentParser, shown: Collection[str]) -> None:
    """Adds `--store` and all parts; the help has only those that matter to the command.

    Scripts pass the same flags to every command, so none of them is refused.
    """
    add_store(parser)
    for name, options in _PARTS.items():
        hidden: dict[str, Any] = {} if name in shown else {"help": argparse.SUPPRESS}
        parser.add_argument(name, **options | hidden)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for review, budget, language and output of a run."""
    parser.add_argument(
        "--yes-read-only",
        action="store_true",
        help="run plans that only read without asking, whatever the settings say",
    )
    parser.add_argument("--approve-plan", metavar="HASH", help="approve exactly this plan")
    parser.add_argument(
        "--budget", metavar="LIMITS", help="such as 0.50 (US dollars) or steps=20,tokens=50000"
    )
    parser.add_argument("--lang", help="the language of plan and report, such as en or zh-CN")
    add_detail(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the run as JSON at the end")
    form.add_argument("--jsonl", action="store_true", help="print events as JSON, one per line")
    parser.add_argument(
        "--no-input", action="store_true", help="ask nothing: exit with 5 if you are needed"
    )


def warn(text: str) -> None:
    """Writes a warning to stderr."""
    say_fitted(f"plansmith: {own(text)}")


def settings_of(args: argparse.Namespace, tell: Callable[[str], None] = warn) -> Settings:
    """Loads the settings; flags win over files and environment."""
    given = vars(args)
    model = {"model": given.get("model"), "base_url": given.get("base_url")}
    planner = {"max_steps": given.get("max_steps"), "top_k": given.get("top_k")}
    changes: dict[str, Any] = {
        "models": {"plan": _without_empty(model)} if any(model.values()) else None,
        "planner": _without_empty(planner),
        "budget": read_budget(given["budget"]) if given.get("budget") else None,
        "review": {"ask": "writes"} if given.get("yes_read_only") else None,
        "tools": given.get("tools"),
        "documents": given.get("docs"),
        "profile": given.get("profile"),
        "store": given.get("store"),
        "workers": _without_empty({"concurrency": given.get("runs_at_once")}),
    }
    settings = loaded_settings(args, _without_empty(changes), tell)
    if given.get("model"):
        models.need_usable(settings.models.plan)  # before there is a run that could only fail
    return settings


def loaded_settings(
    args: argparse.Namespace,
    changes: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = warn,
) -> Settings:
    """Loads the settings, with changes; those of a tenant where the command line names one."""
    tenant: Tenant | None = vars(args).get("within")
    if tenant is None:
        return load_settings(changes=changes, tell=tell)
    given = dict(changes or {})
    store = {"store": given.pop("store")} if "store" in given else {}
    # A settings file in the folder that the tenant's tools write to does not count.
    base = load_settings(folder=tenant.home.parent, changes=store, tell=tell)
    return tenant_settings.tenant_settings(tenant, base, given)


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in values.items() if each}


def read_budget(text: str) -> dict[str, Any]:
    """Reads limits such as `0.50`, `$0.50`, or `steps=20,tokens=50000`."""
    return dict(_limit(part.strip()) for part in text.split(","))


def _limit(part: str) -> tuple[str, int | float]:
    name, found, number = part.rpartition("=")
    kind = _LIMITS.get(name if found else "money")
    try:
        if kind is not None:
            return name or "money", kind(number.removeprefix("$"))
    except ValueError:
        pass
    hint = Sentence(
        "a number of US dollars, or one of {names} with = and a number", names=[*_LIMITS]
    )
    raise Misconfigured(Sentence("'{part}' is not a limit", part=part), hint=hint)


def repeated_flags(args: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """Returns the flags to repeat in a command about the same run: those that it needs."""
    flags: list[str] = []
    command = " ".join(words[:2]) if words[0] in _NOUNS else words[0]
    needed = 1 if command in _STORE_ALONE else 2 if command in _TOOLS_ALONE else len(_REPEATED)
    for name in _REPEATED[:needed]:
        value: str | list[str] | None = vars(args).get(name)
        for each in [value] if isinstance(value, str) else value or []:
            flags += [f"--{name.replace('_', '-')}", each]
    return flags


def command_line(*words: str, folder: str = "") -> str:
    """Returns a command as it is typed, quoted for the shell; `-C` if it is for another folder."""
    program = os.environ.get("PLANSMITH_PROGRAM") or "plansmith"
    where = folder or FOLDER.get()
    return shlex.join([program, *(("-C", where) if where else ()), *words])
