"""Runs one model file in memory, call after call; reads no start of a prompt that is known."""

from __future__ import annotations

import functools
import importlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from plansmith.errors import Misconfigured, ModelFailed
from plansmith.plan.sentence import Sentence
from plansmith_desk.model.files import digest_of
from plansmith_desk.model.prepare import NotPrepared, Preparation
from plansmith_desk.model.prompt_cache import PromptCache, Slot, prompt_text, shared_start

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
        self._held = ""  # the prompt that the runtime read last
        self._server: Any = None
        self._queue = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-model")

    @property
    def is_loaded(self) -> bool:
        """Whether the weights are in memory."""
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
        known = shared_start(prompt, self._held)
        if known == len(prompt):
            return
        maker = self._cache.maker(self.path, self._adapter_hash, _library().__version__)
        slot = Slot(str(self._server.listening_address), self._key)
        restored = self._cache.restore(maker, prompt, slot, known=known)
        self._held = restored or self._held
        if not restored.startswith(prompt):
            self._complete({**body, "max_tokens": 1}, handler)
            if self._held == prompt:  # half a state is of no use
                self._cache.keep(maker, prompt, slot)

    @functools.cached_property
    def _adapter_hash(self) -> str:
        return digest_of(self.adapter) if self.adapter else ""

    def _ensure_loaded(self, handler: _PieceHandler) -> bool:
        """Loads the weights; returns False if the caller left while they were prepared."""
        if self._server is None:
            self._held = ""
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
        if handler.failure is not None:
            raise handler.failure

    def _complete(self, body: dict[str, Any], handler: _PieceHandler) -> None:
        self._server.handle_chat_completions(body, handler)
        # It may not have been read to its end.
        broken = handler.stopped or handler.refused
        self._held = "" if broken else prompt_text(body["messages"])

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
            raise ModelFailed(
                Sentence("{path}{over} cannot be loaded as a model", **what),
                hint=Sentence("`plansmith model check` tells whether the file is damaged"),
            ) from None


class _CallerLeft(Exception):
    """Ends the preparing of a model that nobody waits for."""


class _PieceHandler:
    """Passes pieces on and keeps an error, which the library would swallow."""

    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self.failure: Exception | None = None
        self.stopped = False
        self.refused = False

    def __call__(self, piece: dict[str, Any]) -> bool:
        self.refused = self.refused or "error" in piece
        try:
            self.stopped = self._on_piece(piece)
        except Exception as error:  # noqa: BLE001 - raised again as soon as the library is left
            self.failure, self.stopped = error, True
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
