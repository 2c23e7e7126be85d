"""What it would take to reach the goals of the runner that are missed, and what was tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lab.bench.runner_goals import Goal

_PLANS: Final = """\
Plans at once, and calls a plan: by `scripts/bench profile` a quarter of a plan's processor time on
the memory store is its submission (checked, linted, estimated, hashed, reviewed), two fifths are
the loop, a quarter is its 24 events, each written as JSON, hashed and
folded; on SQLite a fifth more is the thread that writes. No function takes more than 4 %
(cProfile). Tried on a busy machine: `gc.disable()` saves 5 %. The executor, the fold, the queue,
the units and the rows compiled by mypyc were no faster in any of three pairs of turns (3.6 to 3.9
ms a plan, 3.5 to 3.7 ms as they are). Two appends less a plan saved at most 2 %: a hundred runs
share each commit anyway. So what is left needs less work an event and a plan: most likely their
whole way (write, check, hash, fold, row; the checks of a plan) in one extension in a compiled
language, which nobody has tried, or fewer guarantees: the floor hashes, checks and
reviews nothing.
"""
_PARKED: Final = """\
Parked runs: 1,000 submissions of about 1 ms of processor time, in few commits; `gc.disable()`
saves a tenth. Half a second needs half the work. One walk over the plan for check, lint, estimate
and review instead of four was not tried.
"""
_OPEN: Final = """\
Open runs: half a second of processor time loads the code. Each run then takes about 1.2 ms: by
cProfile a third reads, checks and folds its journal, a quarter is its executor with the first
append, a fifth claims it and asks whether a person has to see the plan again. The reads, claims
and appends of many runs share queries and commits already; without any garbage collection it would
take a tenth less. One second needs less than half of that a run: a stored state beside each
journal would save a part of the first third only, so the executor would have to become cheaper
too.
"""
_MAKESPAN: Final = """\
Fans and uneven plans: the fan of 100 takes 18 to 19 ms of processor time on SQLite FULL, about as
much as it takes longer than its steps: 8 before the first call, 2 to make the calls, 8 after. Its
starts are one append, and no call is made before that is stored (intent before effect). On the
memory store it takes 11 ms. Less time an event is the only way that we see; see plans at once.
"""
_STARTUP: Final = """\
Start-up: Python's argparse, asyncio and sqlite3 with pydantic and msgspec, loaded alone, take two
thirds of what `plansmith runs` takes. To load less needs records without pydantic.
"""
# By the beginning of a goal's id; the first that fits.
_WHAT: Final[Sequence[tuple[tuple[str, ...], str]]] = (
    (("plans-", "calls"), _PLANS),
    (("parked",), _PARKED),
    (("resume-open",), _OPEN),
    (("fan", "uneven-"), _MAKESPAN),
    (("runs", "ready"), _STARTUP),
)


def missed(goals: Sequence[Goal]) -> Iterator[str]:
    """Yields what it would take to reach those that are missed, each text once."""
    ids = [each.id for each in goals if each.is_met is False]
    for beginnings, text in _WHAT:
        if any(each.startswith(beginnings) for each in ids):
            yield " ".join(text.split())
