"""Keeps in a database which process executes which run, under which term, and which ones live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from plansmith.claim_ports import Beat, Claim
from plansmith.store.sql import Parameters

# A process that has not been heard of for so long, and owns nothing, is forgotten.
_FORGOTTEN_S: Final = 3600.0
# An owner that may be silent only: it loses the run unless it has renewed its lease meanwhile.
# The row is locked, so that of a renewal and a claim at the same time one comes first.
CLAIM: Final = """
    INSERT INTO claims (run, owner, term) VALUES (:run, :owner, {term})
    ON CONFLICT (run) DO UPDATE SET owner = excluded.owner, term = excluded.term
    WHERE claims.owner = '' OR claims.term = :instead_of AND (
        :beats < 0
        OR :beats = 0 AND NOT EXISTS (SELECT 1 FROM processes WHERE name = claims.owner)
        OR EXISTS (
            SELECT 1 FROM processes WHERE name = claims.owner AND beats = :beats {lock}
        )
    )
"""
_RELEASE: Final = "DELETE FROM claims WHERE run = :run AND term = :term"
_LEAVE: Final = "UPDATE claims SET owner = '' WHERE run = :run AND term = :term"
CLAIM_OF: Final = "SELECT owner, term FROM claims WHERE run = :run"
_CLAIMS: Final = "SELECT run, owner, term FROM claims ORDER BY run"
_CLAIMS_BY: Final = "SELECT run, owner, term FROM claims WHERE owner = :owner"
_BEAT: Final = """
    INSERT INTO processes (name, machine, pid, kind, version, lease_s, beats, seen)
    VALUES (:name, :machine, :pid, :kind, :version, :lease_s, 1, {now})
    ON CONFLICT (name) DO UPDATE SET beats = processes.beats + 1, seen = excluded.seen,
        version = excluded.version, lease_s = excluded.lease_s,
        kind = CASE excluded.kind WHEN 'program' THEN processes.kind ELSE excluded.kind END
"""
_BEATS: Final = """
    SELECT name, kind, version, lease_s, beats, {now} - seen FROM processes ORDER BY name
"""
_FORGET: Final = """
    DELETE FROM processes
    WHERE seen < {now} - :seconds AND name NOT IN (SELECT owner FROM claims)
"""


class ClaimSql(NamedTuple):
    """The statements that differ between databases; `claim` are made in this order.

    A server tells the time for all machines; a SQLite file is used by one machine only, which
    gives its own.
    """

    claim: Sequence[str]
    now: str


SQLITE_CLAIMS: Final = ClaimSql(
    claim=(
        "UPDATE tally SET terms = terms + 1",
        CLAIM.format(term="(SELECT terms FROM tally)", lock=""),
    ),
    now=":now",
)


class ClaimRecords:
    """The claims of runs and the processes of a store over a database.

    `change_claim` makes statements about the claim of a run, and returns the row that it has then.
    """

    def __init__(
        self,
        sql: ClaimSql,
        *,
        query: Callable[[str, Parameters], Awaitable[list[Any]]],
        execute: Callable[[str, Parameters], Awaitable[int]],
        change_claim: Callable[[str, Sequence[str], Parameters], Awaitable[Any]],
        now: Callable[[], datetime],
    ) -> None:
        self._claim_sql = sql
        self._ask, self._do, self._change_claim, self._time = query, execute, change_claim, now
        self._known_processes: set[str] = set()

    async def claim(self, run: str, owner: str, *, instead_of: int = 0, beats: int = -1) -> Claim:
        """Claims a run that nobody owns, or that is claimed under a term; returns the claim."""
        given = {"run": run, "owner": owner, "instead_of": instead_of, "beats": beats}
        found = None
        while found is None:  # let go this moment
            found = await self._change_claim(run, self._claim_sql.claim, given)
        return Claim(str(found[0]), int(found[1]))

    async def release(self, run: str, term: int, *, unfinished: bool = False) -> None:
        """Ends the claim with a term, if it still holds; an `unfinished` run keeps its row."""
        step = _LEAVE if unfinished else _RELEASE
        await self._change_claim(run, (step,), {"run": run, "term": term})

    async def claim_of(self, run: str) -> Claim | None:
        """Returns the claim of a run, if there is one."""
        rows = await self._ask(CLAIM_OF, {"run": run})
        return Claim(str(rows[0][0]), int(rows[0][1])) if rows else None

    async def claims(self, *, owner: str = "") -> Sequence[tuple[str, Claim]]:
        """Returns every claimed run with its claim, or those of one owner."""
        rows = await self._ask(_CLAIMS_BY if owner else _CLAIMS, {"owner": owner})
        return [(str(run), Claim(str(who), int(term))) for run, who, term in rows]

    async def beat(self, beat: Beat) -> None:
        """Renews the lease of a process, and counts that."""
        machine, _, rest = beat.process.rpartition(" ")
        machine, _, pid = machine.rpartition(" ")
        row = {
            "name": beat.process,
            "machine": machine or rest,
            "pid": _number(pid),
            "kind": beat.kind,
            "version": beat.version,
            "lease_s": beat.lease_s,
        }
        await self._do(_BEAT.format(now=self._claim_sql.now), row | self._moment())
        if beat.process not in self._known_processes:
            self._known_processes.add(beat.process)
            given = {"seconds": _FORGOTTEN_S} | self._moment()
            await self._do(_FORGET.format(now=self._claim_sql.now), given)

    async def beats(self) -> Sequence[Beat]:
        """Returns all processes; times are those of the store, not of this machine."""
        rows = await self._ask(_BEATS.format(now=self._claim_sql.now), self._moment())
        return [Beat(*row) for row in rows]

    def _moment(self) -> dict[str, object]:
        return {"now": self._time().timestamp()}


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
