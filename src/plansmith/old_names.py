"""Attributes and options of the first release's Plansmith that still work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from plansmith.lazy import lazy_modules
from plansmith.runs.options import Options

if TYPE_CHECKING:
    import difflib

    from plansmith import sync
    from plansmith.plan import limits
    from plansmith.review import settings
else:
    lazy_modules(
        globals(),
        difflib="difflib",
        limits="plansmith.plan.limits",
        settings="plansmith.review.settings",
        sync="plansmith.sync",
    )


OLD_NAMES: Final[Mapping[str, str]] = {
    # Runs
    "ask_again": "runs.repeating.ask_again",
    "fork": "runs.repeating.fork",
    "journal": "runs.journals.load",
    "listed_run": "runs.journals.listed",
    "new_journal": "runs.journals.new",
    "own_journal": "runs.journals.own",
    "redo": "runs.editing.redo",
    "repair": "runs.journals.repair",
    "resume_all": "runs.resume_all",
    "whole": "runs.journals.whole",
    "metrics": "runs.metrics",
    # Tools, agents and plan checks
    "agents": "runs.intake.agents",
    "callees": "runs.intake.callees",
    "calls": "runs.intake.calls",
    "contents": "runs.intake.contents",
    "definitions": "runs.intake.definitions",
    "intake": "runs.intake",
    "known": "runs.intake.known",
    "load_templates": "runs.intake.load_templates",
    "past": "runs.intake.past",
    "pinned": "runs.intake.pinned",
    "policy": "runs.intake.policy",
    "price_per_million": "runs.intake.price_per_million",
    "propose": "runs.intake.propose",
    "review": "runs.intake.review",
    "sources": "runs.intake.sources",
    "usable": "runs.intake.usable",
    # Planning and running
    "budget": "runs.budgets.limits",
    "caps": "runs.reviser.limits",
    "early_start": "runs.planner.early_start",
    "limits": "runs.execution.limits",
    "need_model": "runs.planner.need_model",
    "plan_into": "runs.planner.plan",
    "tell": "runs.planner.tell",
    # Folder, clock and store
    "clock": "runs.journals.clock",
    "folder": "runs.journals.folder",
    "is_here": "runs.journals.is_here",
    "owners": "runs.journals.owners",
    "patience": "runs.journals.patience",
    "require_here": "runs.journals.require_here",
    # Schedules
    "backfill": "schedules.backfill",
    "carried": "schedules.carried",
    "change_schedule": "schedules.change",
    "create_schedule": "schedules.create",
    "fire_history": "schedules.history",
    "fire_now": "schedules.fire_now",
    "get_schedule": "schedules.get",
    "keep_schedules": "schedules.keep",
    "list_schedules": "schedules.all",
    "next_fires": "schedules.next_fires",
    "pause_schedule": "schedules.pause",
    "remove_schedule": "schedules.remove",
    "require_unattended": "schedules.require_unattended",
    "resume_schedule": "schedules.resume",
    "shelf": "schedules.shelf",
    "tick": "schedules.tick",
}


# Names that moved later; they warn, so that programs can follow.
MOVED: Final[Mapping[str, str]] = {
    "skip": "runs.stopping.skip",
    "undo": "runs.editing.undo",
}


class Caps(NamedTuple):
    """How many new plans a run may make before it asks a person; now fields of `Limits`."""

    replans: int = 2
    iterations: int = 1
    rejections: int = 3


def read_options(given: Mapping[str, Any]) -> Options:
    """Checks the options' names; moves the old `caps` and `early_start` into `limits`."""
    unknown = given.keys() - Options.__annotations__.keys() - {"caps", "early_start"}
    if unknown:
        raise TypeError(f"Plansmith has no option {min(unknown)!r}{_near(min(unknown))}")
    options = dict(given)
    for name in options.keys() & {"limits", "budget", "shared_budget", "policy"}:
        kind = _kind(name)
        if not isinstance(options[name], kind):
            raise TypeError(f"{name} must be a {kind.__name__}, such as {kind.__name__}()")
    caps, early = options.pop("caps", None), options.pop("early_start", None)
    changes = {f"max_{name}": each for name, each in caps._asdict().items()} if caps else {}
    if early is not None:
        changes["early_start"] = early
    if changes:
        options["limits"] = (options.get("limits") or limits.Limits()).replace(**changes)
    return cast("Options", options)


def _kind(name: str) -> type:
    if name == "policy":
        return settings.ReviewPolicy
    return limits.Limits if name == "limits" else limits.BudgetLimits


_NAMED: Final = ("model", "tools", "agents", "store", "settings", "clock")


def _near(name: str) -> str:
    known = [*_NAMED, *Options.__annotations__]
    found = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {found[0]!r}?" if found else f"; there are: {', '.join(known)}"


# `asyncio.run(smith.plan(…))` does the same where no event loop runs.
_NOT_ASYNC: Final[Mapping[str, str]] = {"plan_sync": "plan", "run_sync": "run"}


def _run(verb: Callable[..., Coroutine[Any, Any, Any]], *given: Any, **options: Any) -> Any:
    return sync.wait_for(verb(*given, **options))


def by_old_name(smith: object, name: str) -> Any:
    """Returns the value of an attribute by its name in the first release."""
    if name in _NOT_ASYNC:
        return partial(_run, getattr(smith, _NOT_ASYNC[name]))
    if name in MOVED:
        now = f"smith.{name} is now smith.{MOVED[name]}"
        warnings.warn(now, DeprecationWarning, stacklevel=3)
        return attrgetter(MOVED[name])(smith)
    if name not in OLD_NAMES:
        raise AttributeError(f"{type(smith).__name__!r} object has no attribute {name!r}")
    return attrgetter(OLD_NAMES[name])(smith)


def __getattr__(name: str) -> object:
    if name == "RunLimits":  # now `Limits`
        return limits.Limits
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
