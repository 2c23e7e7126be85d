"""Defines the flags that several commands share, and reads settings from them."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json, require_json
from plansmith.plan.sentence import Sentence
from plansmith.text import visible
from plansmith_cli.config import Settings, load_settings
from plansmith_cli.parser import FOLDER
from plansmith_cli.ui.output import own, own_text, wrong
from plansmith_cli.ui.terminal import say_fitted

if TYPE_CHECKING:
    from plansmith_cli import server_wiring
    from plansmith_cli.ui.progress import Detail
    from plansmith_planner import make as models
    from plansmith_server.team.tenant_book import Tenant
else:
    lazy_modules(
        globals(), models="plansmith_planner.make", server_wiring="plansmith_cli.server_wiring"
    )

# Flags that the next command about the same run has to repeat.
_REPEATED: Final = ("store", "tools", "model", "base_url", "docs", "profile")
_LIMITS: Final[dict[str, type[int | float]]] = {
    "money": float,
    "tokens": int,
    "steps": int,
    "seconds": float,
}

# Options of several commands, as `add_options` reads them.
RUN: Final = "RUN  a run: its id, or last\n"
RUN_OVER: Final = "RUN  a run that is over: its id, or last\n"
STORE: Final = "--store URL  where runs are kept: sqlite:///FILE or …\n"
JSON: Final = "--json  print the outcome as JSON\n"
AS_JSON: Final = "--json  print as JSON\n"
NO_INPUT: Final = "--no-input  ask nothing: exit with 5 if you are needed\n"
DETAIL: Final = """
-q --quiet  print the answer alone on stdout; on stderr only problems and what asks you
| -v --verbose  tell on stderr each stage of planning, the model, times and tokens
"""
_TOOLS: Final = "--tools FILE*  tools: Python, or JSON; repeatable\n"
_MAKES_PLANS: Final = """
--model MODEL  the model that plans, such as openai:gpt-5
--base-url BASE_URL  an OpenAI-compatible server, with --model openai:NAME
--docs PATH*  documents; repeatable
--profile FILE  for whom the plan is, as YAML or TOML
"""
# Scripts pass the same flags to every command, so none is refused; the help has those that matter.
HIDDEN: Final = "\n--model MODEL\n--base-url URL\n--docs PATH*\n--profile FILE\n"
PARTS: Final = STORE + _TOOLS + _MAKES_PLANS
TOOLS: Final = STORE + _TOOLS + HIDDEN  # for commands that make no plan
STORE_ALONE: Final = STORE + "--tools FILE*" + HIDDEN  # for those that look at runs, or stop them
_FORM: Final = """
--json  print the run as JSON at the end
| --jsonl  print events as JSON, one per line
"""
RUNNING: Final = (
    """
--yes-read-only  run plans that only read without asking, whatever the settings say
--approve-plan HASH  approve exactly this plan, or this preview of it
--no-preview  read nothing before you have approved
| --preview  read first, also what costs or is slow, and see what would change
| --with STEP=VALUE*  see what would change if this were what a step finds
--fresh  read again when it runs, and ask if something is different then
--budget LIMITS  such as 0.50 (US dollars) or steps=20,tokens=50000
--lang LANG  the language of plan and report, such as en or zh-CN
"""
    + DETAIL
    + _FORM
    + NO_INPUT
)
WATCHING: Final = DETAIL + _FORM + "--no-input  exit with 5 when the run waits for you\n"


def positive(text: str) -> int:
    """Reads a number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        flaw = own_text("{text} is not a whole number", text=visible(text))
        raise argparse.ArgumentTypeError(flaw) from None
    if number < 1:
        raise argparse.ArgumentTypeError(own_text("{number} is not 1 or more", number=text))
    return number


def detail_of(args: argparse.Namespace) -> Detail:
    """Returns how much a command tells beside its answer."""
    given = vars(args)
    return "quiet" if given.get("quiet") else "verbose" if given.get("verbose") else "normal"


def warn(text: str) -> None:
    """Writes a warning to stderr."""
    say_fitted(f"plansmith: {own(text)}")


def settings_of(args: argparse.Namespace, tell: Callable[[str], None] = warn) -> Settings:
    """Loads the settings; flags win over files and environment."""
    given = vars(args)

    def named(**flags: str) -> dict[str, Any]:
        return {setting: given[flag] for setting, flag in flags.items() if given.get(flag)}

    model = named(model="model", base_url="base_url")
    tables: dict[str, Any] = {
        "models": {"plan": model} if model else None,
        "planner": named(max_steps="max_steps", top_k="top_k"),
        "budget": read_budget(given["budget"]) if given.get("budget") else None,
        "review": {"ask": "writes"} if given.get("yes_read_only") else None,
        "run": {"preview": False} if given.get("no_preview") or given.get("with") else None,
        "workers": named(concurrency="runs_at_once"),
    }
    changes = {name: each for name, each in tables.items() if each}
    changes |= named(tools="tools", documents="docs", profile="profile", store="store")
    settings = loaded_settings(args, changes, tell)
    if given.get("model"):
        models.require_usable(settings.models.plan)  # before there is a run that could only fail
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
    return server_wiring.tenant_settings(tenant, base, given)


def read_budget(text: str) -> dict[str, Any]:
    """Reads limits such as `0.50`, `$0.50`, or `steps=20,tokens=50000`."""
    found: dict[str, Any] = {}
    for part in map(str.strip, text.split(",")):
        name, mark, number = part.rpartition("=")
        name = name if mark else "money"
        try:
            found[name] = _LIMITS[name](number.removeprefix("$"))
        except (KeyError, ValueError):
            hint = Sentence(
                "a number of US dollars, or one of {names} with = and a number", names=[*_LIMITS]
            )
            raise Misconfigured(Sentence("'{part}' is not a limit", part=part), hint=hint) from None
    return found


def read_pairs(given: Iterable[str]) -> dict[str, str]:
    """Reads NAME=VALUE arguments; refuses a name that is given twice."""
    pairs: dict[str, str] = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not mark or not name:
            raise wrong("{text} is not NAME=VALUE", "such as city=Oslo", text=repr(each))
        if name in pairs:
            raise wrong("{name} is given twice", name=repr(name))
        pairs[name] = value
    return pairs


def read_value(name: str, text: str) -> Json:
    """Reads a value that is typed for a name: JSON where it is some, else text."""
    value: Json = text
    try:
        with suppress(ValueError):
            value = json.loads(text)
        require_json(value)
    except RecursionError:
        raise wrong("{name}: the value is nested too deeply", name=name) from None
    except ValueError as error:
        raise wrong("{place}: {error}", place=name, error=str(error)) from None
    return value


def read_time(text: str, zone: tzinfo) -> datetime:
    """Reads a time; without an offset it is in the given zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        hint = Sentence("such as 2026-12-01T09:00 or 2026-12-01T08:00:00Z")
        raise Misconfigured(Sentence("{text} is not a time", text=repr(text)), hint=hint) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)


def repeated_flags(args: argparse.Namespace) -> list[str]:
    """Returns the flags to repeat in a command about the same run; every command takes them."""
    flags: list[str] = []
    for name in _REPEATED:
        value: str | list[str] | None = vars(args).get(name)
        for each in [value] if isinstance(value, str) else value or []:
            flags += [f"--{name.replace('_', '-')}", each]
    return flags


def command_line(*words: str, folder: str = "") -> str:
    """Returns a command as it is typed, quoted for the shell; `-C` if it is for another folder."""
    program = os.environ.get("PLANSMITH_PROGRAM") or "plansmith"
    where = folder or FOLDER.get()
    return shlex.join([program, *(("-C", where) if where else ()), *words])
