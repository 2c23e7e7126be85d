"""Warmth: what a model made of the start of its prompts, kept on disk for the next process."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.models.local.shelf import digest_of

_MOST_KEPT: Final = 6
_SLOW_S: Final = 30.0


class Warmth:
    """A folder of states, each with its hash beside it: the runtime dies of a damaged one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def name(self, weights: Path, runtime: str, body: Mapping[str, Any]) -> str:
        """The state of a prompt under these weights and this version of the runtime."""
        status = weights.stat()
        facts = [str(weights), status.st_size, status.st_mtime_ns, runtime, body["messages"]]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def restore(self, name: str, slot: Slot) -> bool:
        """Put a kept state into the runtime, if there is a sound one."""
        state = self.folder / f"{name}.state"
        try:
            sound = digest_of(state) == _mark(state).read_text(encoding="ascii")
        except OSError:
            return False
        return sound and slot.act("restore", state.name)

    def keep(self, name: str, slot: Slot) -> None:
        """Write down the state the runtime is in; without room, simply not."""
        fresh = self.folder / f"{name}.{os.getpid()}.new"
        state = self.folder / f"{name}.state"
        if not slot.act("save", fresh.name):
            return
        try:
            digest = digest_of(fresh)
            fresh.replace(state)
            _mark(state).write_text(digest, encoding="ascii")
            self._forget_oldest()
        except OSError:
            fresh.unlink(missing_ok=True)

    def _forget_oldest(self) -> None:
        states = sorted(self.folder.glob("*.state"), key=lambda each: each.stat().st_mtime)
        for state in states[:-_MOST_KEPT]:
            state.unlink(missing_ok=True)
            _mark(state).unlink(missing_ok=True)


class Slot:
    """The runtime's own door for states: only to be had over its port on this machine."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._key = key

    def act(self, deed: str, file: str) -> bool:
        """Save or restore; whether it worked."""
        asked = urllib.request.Request(  # noqa: S310 - the address is that of our own runtime
            f"{self._address}/slots/0?action={deed}",
            data=json.dumps({"filename": file}).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(asked, timeout=_SLOW_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _mark(state: Path) -> Path:
    return state.with_suffix(".sha256")
