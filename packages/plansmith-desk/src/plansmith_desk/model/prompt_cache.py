"""Keeps on disk what the runtime has read of prompts: a known start is not read again."""

from __future__ import annotations

import hashlib
import json
import os
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.files import replace_file
from plansmith_desk.model.files import digest_of

_MOST_KEPT: Final = 16
_MOST_BYTES: Final = 256 << 20
_LEFT_OVER_S: Final = 3600.0  # after which a file that no state needs was left by a lost process
_SLOW_S: Final = 30.0


def prompt_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Returns messages as one text; prompts that begin alike have texts that begin alike."""
    return "".join(f"<|{each['role']}|>{each['content']}" for each in messages)


def shared_start(one: str, other: str) -> int:
    """Returns how many letters two texts have in common at their beginning."""
    least = min(len(one), len(other))
    return next((at for at in range(least) if one[at] != other[at]), least)


class _State(NamedTuple):
    """A kept state: its file, the file's hash, and the text of the prompt that was read."""

    path: Path
    sha256: str
    prompt: str


class PromptCache:
    """A folder of runtime states, each with its prompt and its hash.

    A damaged state would crash the runtime. Texts of people's folders are in states: nobody else
    may read them. The states that were not used for the longest time are deleted.
    """

    def __init__(
        self, folder: Path, *, most_kept: int = _MOST_KEPT, most_bytes: int = _MOST_BYTES
    ) -> None:
        self.folder = folder
        self._most_kept = most_kept
        self._most_bytes = most_bytes

    def is_ready(self) -> bool:
        """Makes the folder; tells whether it is there. Without it a prompt is read each time."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError:
            return False
        return True

    @staticmethod
    def maker(weights: Path, adapter: str, runtime: str) -> str:
        """Returns a name for what makes states: the weights, the adapter's hash, the runtime."""
        status = weights.stat()
        facts = [str(weights), status.st_size, status.st_mtime_ns, runtime, adapter]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def restore(self, maker: str, prompt: str, slot: Slot, *, known: int = 0) -> str:
        """Loads the state that shares the longest start with a prompt, if it is over `known`.

        Returns the prompt of that state; nothing if there is no such state, or only damaged ones.
        """
        found = [(shared_start(prompt, each.prompt), each) for each in self._states(maker)]
        for shared, state in sorted(found, key=lambda each: -each[0]):
            if shared <= known:
                break
            with suppress(OSError):
                if digest_of(state.path) == state.sha256 and slot.act("restore", state.path.name):
                    os.utime(state.path)
                    return state.prompt
        return ""

    def keep(self, maker: str, prompt: str, slot: Slot) -> None:
        """Stores the current state of the runtime; does nothing if the disk is full."""
        name = f"{maker}-{hashlib.sha256(prompt.encode()).hexdigest()[:16]}"
        fresh = self.folder / f"{name}.{os.getpid()}.new"
        try:
            if not slot.act("save", fresh.name):
                return
            fresh.chmod(0o600)
            state = _State(self.folder / f"{name}.state", digest_of(fresh), prompt)
            fresh.replace(state.path)
            facts = {"sha256": state.sha256, "prompt": state.prompt}
            replace_file(state.path.with_suffix(".json"), json.dumps(facts, ensure_ascii=False))
            self._delete_unused()
        except OSError:
            return
        finally:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)

    def _states(self, maker: str) -> Iterator[_State]:
        for about in self.folder.glob(f"{maker}-*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                facts = json.loads(about.read_text(encoding="utf-8"))
                path = about.with_suffix(".state")
                yield _State(path, str(facts["sha256"]), str(facts["prompt"]))

    def _delete_unused(self) -> None:
        """Deletes the states beyond the limits, oldest use first, and what processes left."""
        used: dict[Path, tuple[float, int]] = {}
        for path in self.folder.iterdir():
            with suppress(OSError):  # another process deletes too
                status = path.stat()
                used[path] = status.st_mtime, status.st_size
        pairs = [
            (path, path.with_suffix(".json"))
            for path in sorted(used, key=lambda each: -used[each][0])
            if path.suffix == ".state" and path.with_suffix(".json") in used
        ]
        room, kept, old = self._most_bytes, set[Path](), time.time() - _LEFT_OVER_S
        for number, pair in enumerate(pairs):
            room -= used[pair[0]][1]
            if not kept or (room >= 0 and number < self._most_kept):
                kept.update(pair)
        whole = {path for pair in pairs for path in pair}
        for path, (last, _) in used.items():
            if path not in kept and (path in whole or last < old):
                path.unlink(missing_ok=True)


class Slot:
    """Saves and restores states of the runtime through its HTTP port on this machine."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._key = key

    def act(self, action: str, file: str) -> bool:
        """Saves or restores a state; returns whether it worked."""
        asked = urllib.request.Request(  # noqa: S310 - the address is that of our own runtime
            f"{self._address}/slots/0?action={action}",
            data=json.dumps({"filename": file}).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(asked, timeout=_SLOW_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
