"""Runs one model file in memory; what it has read of prompts is kept on disk, not read twice."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import secrets
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from plansmith.errors import Misconfigured, ModelFailed
from plansmith.files import replace_file
from plansmith.plan.sentence import Sentence
from plansmith_desk.model.files import NotPrepared, Preparation, digest_of
from plansmith_desk.settings import program

OnPiece = Callable[[dict[str, Any]], bool]

_BATCH: Final = 256  # tokens between two chances to stop while a prompt is read
_CACHE_MIB: Final = 512  # prompts whose state is kept, so that they are not read again
_SHOWN_S: Final = 0.03
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_WAITING: Final = "OMP_WAIT_POLICY"


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return max(1, min(count, int(quota) // int(period))) if quota != "max" else count


def fitting_threads(cores: int) -> int:
    """Returns the number of threads for a number of cores."""
    return cores if cores <= 4 else cores // 2


class Engine:
    """Loads the model file at the first call; runs one call after another."""

    def __init__(
        self,
        path: Path,
        *,
        context: int,
        threads: int,
        cache: PromptCache | None = None,
        adapter: Path | None = None,
        preparation: Preparation | None = None,
    ) -> None:
        self.path = path
        self.adapter = adapter
        self._preparation = preparation
        self.context = context
        self._threads = threads
        self._cache = cache
        self._key = secrets.token_hex(32)
        self._last_prompt = ""  # the prompt that the runtime read last
        self._server: Any = None
        self._queue = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-model")

    @property
    def is_loaded(self) -> bool:
        return self._server is not None

    def submit(self, body: Mapping[str, Any], on_piece: OnPiece) -> Future[None]:
        """Queues a call; `on_piece` gets each piece in the engine's thread, True stops it."""
        return self._queue.submit(self._answer, dict(body), on_piece)

    def prime(self, body: Mapping[str, Any], on_piece: OnPiece) -> Future[None]:
        """Queues reading the start of later prompts, from the cache if it is there."""
        return self._queue.submit(self._prime, dict(body), on_piece)

    def close(self) -> None:
        """Frees the memory once the queue is empty; a later call loads again."""
        self._queue.submit(setattr, self, "_server", None).result()

    def _prime(self, body: dict[str, Any], on_piece: OnPiece) -> None:
        if self._cache is None:
            return
        handler = _PieceHandler(on_piece)
        if not self._ensure_loaded(handler):
            return
        prompt = prompt_text(body["messages"])
        known = shared_start(prompt, self._last_prompt)
        if known == len(prompt):
            return
        maker = self._cache.maker(self.path, self._adapter_hash, _library().__version__)
        slot = Slot(str(self._server.listening_address), self._key)
        restored = self._cache.restore(maker, prompt, slot, known=known)
        self._last_prompt = restored or self._last_prompt
        if not restored.startswith(prompt):
            self._complete({**body, "max_tokens": 1}, handler)
            if self._last_prompt == prompt:  # half a state is of no use
                self._cache.keep(maker, prompt, slot)

    @functools.cached_property
    def _adapter_hash(self) -> str:
        return digest_of(self.adapter) if self.adapter else ""

    def _ensure_loaded(self, handler: _PieceHandler) -> bool:
        """Loads the weights; returns False if the caller left while they were prepared."""
        if self._server is None:
            self._last_prompt = ""
            self._prepare(handler)
            if not handler.stopped and not handler({"loading": self.path.stat().st_size}):
                # The runtime holds the interpreter for a second or more: let that be shown first.
                time.sleep(_SHOWN_S)
                self._server = self._load()
        return self._server is not None

    def _prepare(self, handler: _PieceHandler) -> None:
        """Takes the prepared file instead of weights and adapter; makes it if need be."""
        if self._preparation is None:
            return

        def tell(text: str) -> None:
            if handler({"preparing": text}):
                raise _CallerLeft

        try:
            self.path = self._preparation.make(tell, threads=self._threads)
        except _CallerLeft:
            return
        except NotPrepared as reason:
            slower = Sentence("the model works, only slower: {reason}", reason=reason.args[0])
            handler({"preparing": slower})
            return
        self.adapter = self._preparation = None

    def _answer(self, body: dict[str, Any], on_piece: OnPiece) -> None:
        handler = _PieceHandler(on_piece)
        if self._ensure_loaded(handler):
            self._complete(body, handler)

    def _complete(self, body: dict[str, Any], handler: _PieceHandler) -> None:
        self._server.handle_chat_completions(body, handler)
        # It may not have been read to its end.
        broken = handler.stopped or handler.refused
        self._last_prompt = "" if broken else prompt_text(body["messages"])

    def _load(self) -> Any:
        library = _library()
        params = library.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.context
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _BATCH
        params.cache_ram_mib = _CACHE_MIB
        # Not memory-mapped: only weights of its own are laid out for the processor, which reads
        # prompts a sixth faster.
        params.load_mode = library.llama_load_mode.LLAMA_LOAD_MODE_NONE
        # The context is known: looking for one that fits would read the vocabulary twice more.
        params.fit_params = False
        params.verbosity = -1
        params.warmup = False
        for cores in (params.cpuparams, params.cpuparams_batch):
            cores.n_threads = self._threads
        if self.adapter is not None:
            params.lora_adapters = [library.CommonAdapterLoraInfo(str(self.adapter), 1.0)]
        # A key protects the port that the library opens on this machine.
        params.api_keys = [self._key]
        params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
        if self._cache is not None and self._cache.is_ready():
            params.slot_save_path = f"{self._cache.folder}{os.sep}"
        try:
            return library.Server(params)
        except RuntimeError:
            over = Sentence(" with the adapter {adapter}", adapter=self.adapter)
            what = {"path": self.path, "over": over if self.adapter else ""}
            failed = Sentence("{path}{over} cannot be loaded as a model", **what)
            hint = Sentence(
                "`{plansmith} model check` tells whether the file is damaged", plansmith=program()
            )
            raise ModelFailed(failed, hint=hint) from None


class _CallerLeft(Exception):
    """Ends the preparing of a model that nobody waits for."""


class _PieceHandler:
    """Passes pieces on, and knows whether the caller left or the library refused the call."""

    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self.stopped = False
        self.refused = False

    def __call__(self, piece: dict[str, Any]) -> bool:
        self.refused = self.refused or "error" in piece
        self.stopped = self._on_piece(piece)
        return self.stopped


def _library() -> Any:
    """Imports the runtime so that its threads sleep while they wait.

    Spinning threads compete for the cores of a busy machine: measured ten times slower.
    """
    before = os.environ.get(_WAITING)
    os.environ[_WAITING] = before or "passive"
    try:
        return importlib.import_module("xllamacpp")
    except ImportError:
        hint = Sentence("install plansmith[local]")
        raise Misconfigured(
            Sentence("the runtime for embedded models is missing"), hint=hint
        ) from None
    finally:
        if before is None:
            del os.environ[_WAITING]


_ENGINES: Final[dict[tuple[Any, ...], Engine]] = {}
_SHARING: Final = threading.Lock()


def shared_engine(
    path: Path,
    context: int,
    states: Path | None = None,
    *,
    adapter: Path | None = None,
    preparation: Preparation | None = None,
) -> Engine:
    """Returns the one engine of a file and its adapter in this process, shared by all models."""
    path, adapter = path.resolve(), adapter.resolve() if adapter else None
    key = (path, context, states, adapter, preparation)
    with _SHARING:
        if key not in _ENGINES:
            _ENGINES[key] = Engine(
                path,
                context=context,
                threads=fitting_threads(usable_cores()),
                cache=PromptCache(states) if states else None,
                adapter=adapter,
                preparation=preparation,
            )
        return _ENGINES[key]


_MAX_KEPT: Final = 16
_MAX_BYTES: Final = 256 << 20
_LEFT_OVER_S: Final = 3600.0  # after which a file that no state needs was left by a lost process


def prompt_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Returns messages as one text; prompts that begin alike have texts that begin alike."""
    return "".join(f"<|{each['role']}|>{each['content']}" for each in messages)


def shared_start(one: str, other: str) -> int:
    """Returns how many letters two texts have in common at their beginning."""
    least = min(len(one), len(other))
    return next((at for at in range(least) if one[at] != other[at]), least)


class PromptCache:
    """A folder of runtime states, each with its prompt and its hash.

    A damaged state would crash the runtime. Texts of people's folders are in states: nobody else
    may read them. The states that were not used for the longest time are deleted.
    """

    def __init__(
        self, folder: Path, *, most_kept: int = _MAX_KEPT, most_bytes: int = _MAX_BYTES
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
        found: list[tuple[int, Path, str, str]] = []
        for about in self.folder.glob(f"{maker}-*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                facts = json.loads(about.read_text(encoding="utf-8"))
                text, sha256 = str(facts["prompt"]), str(facts["sha256"])
                found.append(
                    (shared_start(prompt, text), about.with_suffix(".state"), sha256, text)
                )
        for shared, path, sha256, text in sorted(found, reverse=True):
            if shared <= known:
                break
            with suppress(OSError):
                if digest_of(path) == sha256 and slot.act("restore", path.name):
                    os.utime(path)
                    return text
        return ""

    def keep(self, maker: str, prompt: str, slot: Slot) -> None:
        """Stores the current state of the runtime; does nothing if the disk is full."""
        name = f"{maker}-{hashlib.sha256(prompt.encode()).hexdigest()[:16]}"
        fresh = self.folder / f"{name}.{os.getpid()}.new"
        try:
            if not slot.act("save", fresh.name):
                return
            fresh.chmod(0o600)
            facts = {"sha256": digest_of(fresh), "prompt": prompt}
            fresh.replace(self.folder / f"{name}.state")
            replace_file(self.folder / f"{name}.json", json.dumps(facts, ensure_ascii=False))
            # Deletes the states beyond the limits, oldest use first, and what processes left.
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
        except OSError:
            return
        finally:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)


class Slot:
    """Saves and restores states of the runtime through its HTTP port on this machine."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._key = key

    def act(self, action: str, file: str) -> bool:
        """Saves or restores a state; returns whether it worked."""
        request = urllib.request.Request(  # noqa: S310 - the address is that of our own runtime
            f"{self._address}/slots/0?action={action}",
            data=json.dumps({"filename": file}).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30.0) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
