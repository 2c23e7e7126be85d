"""Threads as a store keeps them: an entry as a text, and a headline that grows with the entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

from plansmith.adapters.stores.rows import DOCTOR
from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import MessageAdded, ThreadEntry, ThreadOpened, read_entry, short_title
from plansmith.threads.store import ThreadHeadline

# PostgreSQL has no text with these.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def need_following(entries: Sequence[ThreadEntry]) -> None:
    """Refuses entries of which one does not follow the one before it."""
    for before, entry in pairwise(entries):
        if (entry.thread, entry.number) != (before.thread, before.number + 1):
            raise StaleWriter(
                Sentence("journal.entry_misfit", number=entry.number, thread=entry.thread),
                hint=Sentence("journal.read_thread_again"),
            )


def grown(before: ThreadHeadline | None, entries: Sequence[ThreadEntry]) -> ThreadHeadline:
    """Returns the headline of a thread after more entries; None stands for no entry at all."""
    last = entries[-1]
    said = [each.body.text for each in entries if isinstance(each.body, MessageAdded)]
    opened = next((each.body for each in entries if isinstance(each.body, ThreadOpened)), None)
    head = before or ThreadHeadline(last.thread, "", "", "", 0, 0, last.at)
    if opened is not None:
        title = _storable(opened.title) or head.title
        head = head._replace(owner=opened.owner, title=title, folder=_storable(opened.folder))
    if said and not head.title and not head.messages:
        head = head._replace(title=_storable(short_title(said[0])))
    return head._replace(
        messages=head.messages + len(said), last=last.number, updated=last.at.astimezone(UTC)
    )


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def digest_of(text: str) -> str:
    """Returns the hash that is stored with the text of an entry."""
    return sha256(text.encode(errors="replace")).hexdigest()


def read_entries(thread: str, rows: Iterable[Sequence[Any]], *, after: int) -> list[ThreadEntry]:
    """Reads rows of `last, number, hash, body`, each checked; none may be missing."""
    entries: list[ThreadEntry] = []
    last = 0
    for written, number, digest, body in rows:
        last = written
        if number is not None:
            expected = after + len(entries) + 1
            if number != expected:
                raise _damaged("journal.entry_missing", thread=thread, number=expected)
            entries.append(_read(thread, number, digest, body))
    if after + len(entries) < last:
        raise _damaged("journal.thread_end", thread=thread)
    return entries


def _read(thread: str, number: int, digest: object, body: object) -> ThreadEntry:
    altered = _damaged("journal.entry_altered", thread=thread, number=number)
    if not isinstance(body, str) or digest_of(body) != digest:
        raise altered
    entry = read_entry(body)
    if (entry.thread, entry.number) != (thread, number):
        raise altered
    return entry


def _damaged(code: str, **fields: Any) -> JournalDamaged:
    return JournalDamaged(Sentence(code, **fields), hint=DOCTOR)


def moment_of(text: object) -> datetime:
    """Returns a stored time; that of a damaged row sorts behind all others."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime(1970, 1, 1, tzinfo=UTC)
