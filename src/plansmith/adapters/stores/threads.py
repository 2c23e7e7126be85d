"""Keeps threads in a database: their entries, a headline of each, and the thread of each run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from plansmith.adapters.stores.reading import Followers, thread_key
from plansmith.adapters.stores.statements import Change, Parameters, Step
from plansmith.lazy import lazy_modules
from plansmith.plan.chain import moment
from plansmith.threads.store import ThreadHeadline

if TYPE_CHECKING:
    from plansmith.adapters.stores import thread_rows
    from plansmith.plan import thread as entry_texts
    from plansmith.plan.thread import ThreadEntry
else:
    # Most programs have no threads.
    lazy_modules(
        globals(),
        entry_texts="plansmith.plan.thread",
        thread_rows="plansmith.adapters.stores.thread_rows",
    )

_CELLS: Final = "thread, owner, title, folder, messages, last, updated"
_HEADS: Final = f"SELECT {_CELLS} FROM threads"  # noqa: S608 - constants
_HEAD: Final = f"{_HEADS} WHERE thread = :thread"
_OLDER: Final = "(updated, thread) < (:updated, :thread)"
_IS_AT: Final = """
    SELECT 1 WHERE coalesce((SELECT last FROM threads WHERE thread = :thread), 0) = :before
"""
_PUT_HEAD: Final = f"""
    INSERT INTO threads ({_CELLS})
    VALUES (:thread, :owner, :title, :folder, :messages, :last, :updated)
    ON CONFLICT (thread) DO UPDATE SET owner = excluded.owner, title = excluded.title,
        folder = excluded.folder, messages = excluded.messages, last = excluded.last,
        updated = excluded.updated
"""  # noqa: S608 - constants
_ADD: Final = """
    INSERT INTO thread_entries (thread, number, hash, body) VALUES (:thread, :number, :hash, :body)
"""
# The first thread that names a run keeps it.
_PLACE_RUN: Final = """
    INSERT INTO thread_runs (run, thread) VALUES (:run, :thread) ON CONFLICT (run) DO NOTHING
"""
_IS_ADDED: Final = """
    SELECT 1 FROM thread_entries WHERE thread = :thread AND number = :number AND hash = :hash
"""
_ENTRIES: Final = """
    SELECT last, number, hash, body FROM threads
    LEFT JOIN thread_entries ON thread_entries.thread = threads.thread AND number > :after
    WHERE threads.thread = :thread ORDER BY number
"""
_THREAD_OF: Final = "SELECT thread FROM thread_runs WHERE run = :run"
_REMOVE: Final = (
    "DELETE FROM thread_entries WHERE thread = :thread",
    "DELETE FROM thread_runs WHERE thread = :thread",
    "DELETE FROM threads WHERE thread = :thread",
)


class ThreadRecords:
    """The part of a store that keeps threads."""

    def __init__(
        self,
        query: Callable[[str, Parameters], Awaitable[list[Any]]],
        transact: Callable[[Sequence[Change]], Awaitable[list[list[int] | None]]],
        *,
        notify: str,
        followers: Followers,
    ) -> None:
        self._thread_query = query
        self._change_threads = transact
        self._notify = notify
        self._thread_followers = followers

    async def append_entries(self, entries: Sequence[ThreadEntry]) -> bool:
        """Stores entries that follow the last one of their thread, all or none.

        False if another one came first.
        """
        if not entries:
            return True
        thread_rows.need_following(entries)
        thread, before = entries[0].thread, entries[0].number - 1
        head = await self._head(thread)
        if before != (head.last if head else 0):
            return False
        now = thread_rows.grown(head, entries)
        rows = [_row(each) for each in entries]
        [done] = await self._change_threads(
            [
                Change(
                    (_IS_AT, {"thread": thread, "before": before}),
                    [(_ADD, rows), *self._beside(now, entries)],
                    made=(_IS_ADDED, rows[-1]),
                )
            ]
        )
        if done is not None:
            self._thread_followers.wake({thread_key(thread): now.last})
        return done is not None

    def _beside(self, head: ThreadHeadline, entries: Sequence[ThreadEntry]) -> Sequence[Step]:
        """Returns the steps that keep up with entries: the headline, the runs, who waits."""
        named = [
            {"run": run, "thread": head.thread} for run in map(entry_texts.runs_named, entries)
        ]
        runs = [each for each in named if each["run"]]
        note = f"{head.last} {thread_key(head.thread)[:1000]}"
        return [
            (_PUT_HEAD, [_cells(head)]),
            *([(_PLACE_RUN, runs)] if runs else []),
            *([(self._notify, [{"note": note}])] if self._notify else []),
        ]

    async def thread_entries(self, thread: str, *, after: int = 0) -> Sequence[ThreadEntry]:
        """Returns the entries of a thread after a number; none for an unknown thread."""
        after = max(after, 0)
        rows = await self._thread_query(_ENTRIES, {"thread": thread, "after": after})
        return thread_rows.read_entries(thread, rows, after=after) if rows else []

    async def threads(
        self, *, owner: str | None = None, before: str = "", limit: int
    ) -> Sequence[ThreadHeadline]:
        """Returns threads, newest activity first; `before` is the last one of the page before.

        If that one was removed meanwhile, the list begins anew.
        """
        place = await self._head(before) if before else None
        where = [
            *(["owner = :owner"] if owner is not None else []),
            *([_OLDER] if place else []),
        ]
        given: dict[str, object] = {"most": limit, "owner": owner}
        if place:
            given |= {"updated": moment(place.updated), "thread": place.thread}
        query = f"{_HEADS}{' WHERE ' if where else ''}{' AND '.join(where)}"
        rows = await self._thread_query(
            f"{query} ORDER BY updated DESC, thread DESC LIMIT :most", given
        )
        return [_headline(row) for row in rows]

    async def keep_headline(self, headline: ThreadHeadline) -> None:
        """Stores a headline instead of a wrong one, if its thread has not gone on."""
        need = _IS_AT, {"thread": headline.thread, "before": headline.last}
        await self._change_threads([Change(need, [(_PUT_HEAD, [_cells(headline)])])])

    async def _head(self, thread: str) -> ThreadHeadline | None:
        rows = await self._thread_query(_HEAD, {"thread": thread})
        return _headline(rows[0]) if rows else None

    async def thread_of(self, run: str) -> str:
        """Returns the thread that a run belongs to; empty if it belongs to none."""
        rows = await self._thread_query(_THREAD_OF, {"run": run})
        return str(rows[0][0]) if rows else ""

    async def remove_thread(self, thread: str) -> bool:
        """Removes all entries of a thread; false if there is none."""
        given = {"thread": thread}
        steps = [(step, [given]) for step in _REMOVE]
        [done] = await self._change_threads([Change((_HEAD, given), steps)])
        return done is not None

    async def wait_thread(self, thread: str, *, after: int) -> None:
        """Returns when the thread has an entry after the number, whoever wrote it."""
        await self._thread_followers.wait(thread_key(thread), after)


def _row(entry: ThreadEntry) -> dict[str, object]:
    text = entry_texts.entry_text(entry)
    digest = thread_rows.digest_of(text)
    return {"thread": entry.thread, "number": entry.number, "hash": digest, "body": text}


def _cells(head: ThreadHeadline) -> Parameters:
    return {**head._asdict(), "updated": moment(head.updated)}


def _headline(row: Sequence[Any]) -> ThreadHeadline:
    *texts, messages, last, updated = row
    thread, owner, title, folder = map(str, texts)
    at = thread_rows.moment_of(updated)
    return ThreadHeadline(thread, owner, title, folder, int(messages), int(last), at)
