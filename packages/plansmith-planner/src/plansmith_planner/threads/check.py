"""Checks the threads of a store, for `plansmith doctor`."""

from __future__ import annotations

from typing import Final, Literal

from plansmith.errors import JournalDamaged
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import fold_thread
from plansmith.ports import Finding, PlanStore, Records
from plansmith_planner.threads.store import ThreadHeadline, ThreadStore

_AT_ONCE: Final = 500
_SHOWN: Final = 20


async def check_threads(store: PlanStore) -> list[Finding]:
    """Reads all threads, and stores the right headlines instead of wrong ones."""
    if not isinstance(store, Records):
        return []
    threads, count, before = ThreadStore(store), 0, ""
    findings: list[Finding] = []
    while page := await threads.threads(before=before, limit=_AT_ONCE):
        for each in page:
            findings += await _check(threads, each)
        count, before = count + len(page), page[-1].thread
    damaged = [found for found in findings if found.level == "error"]
    level: Literal["ok", "warning"] = "warning" if findings else "ok"
    summary = Sentence("{count} threads read, {damaged} damaged", count=count, damaged=len(damaged))
    return [*findings[:_SHOWN], Finding(level, "threads", summary)] if count else []


async def _check(threads: ThreadStore, listed: ThreadHeadline) -> list[Finding]:
    subject = f"thread {listed.thread}"
    try:
        entries = await threads.thread_entries(listed.thread)
        fold_thread(listed.thread, entries)
    except JournalDamaged as damage:
        hint = Sentence("restore the store from a backup; its runs are not affected")
        return [Finding("error", subject, damage.message, hint)]
    if not entries or not await threads.put_right(listed.thread, entries):
        return []
    return [
        Finding(
            "warning",
            subject,
            Sentence("its line in lists did not agree with its entries, and was made again"),
        )
    ]
