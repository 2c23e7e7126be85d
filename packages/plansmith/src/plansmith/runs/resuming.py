"""Tells which of the runs that were to be resumed this process executes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from plansmith.errors import JournalDamaged, RunBusy

if TYPE_CHECKING:
    from plansmith.plan.run import Run


def started(
    begun: Sequence[asyncio.Future[Run] | BaseException | None], busy: Callable[[RunBusy], None]
) -> Iterator[asyncio.Future[Run]]:
    """Yields the runs that this process executes; raises errors other than damage and busy."""
    for each in begun:
        if isinstance(each, RunBusy):
            busy(each)
        elif isinstance(each, BaseException):
            if not isinstance(each, JournalDamaged):
                raise each
        elif each is not None:
            yield each
