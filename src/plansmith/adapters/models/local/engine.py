"""The engine: one file of weights in memory, answering one call after another in its thread."""

from __future__ import annotations

import functools
import importlib
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.models.local.warmth import Slot, Warmth
from plansmith.errors import Misconfigured, ModelFailed

Hear = Callable[[dict[str, Any]], bool]

_BATCH: Final = 256  # tokens between two chances to stop while a prompt is read
_CACHE_MIB: Final = 512  # prompts whose state is kept, so that they are not read again
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_WAITING: Final = "OMP_WAIT_POLICY"


def usable_cores() -> int:
    """The cores this process may use: what is there, less what the machine keeps from us."""
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return max(1, min(count, int(quota) // int(period))) if quota != "max" else count


def fitting_threads(cores: int) -> int:
    """Threads for a number of cores: on large machines every second core is half a core."""
    return cores if cores <= 4 else cores // 2


class Engine:
    """Loads its weights at the first call, memory-mapped; calls wait for each other in order."""

    def __init__(
        self, path: Path, *, context: int, threads: int, warmth: Warmth | None = None
    ) -> None:
        self.path = path
        self.context = context
        self._threads = threads
        self._warmth = warmth
        self._key = secrets.token_hex(32)
        self._primed: set[str] = set()
        self._server: Any = None
        self._line = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-model")

    @property
    def is_loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._server is not None

    def submit(self, body: Mapping[str, Any], hear: Hear) -> Future[None]:
        """Get in line; `hear` takes each piece in the engine's thread, and says True to stop."""
        return self._line.submit(self._answer, dict(body), hear)

    def prime(self, body: Mapping[str, Any]) -> Future[None]:
        """Get in line to read the start of prompts to come, or to remember having read it."""
        return self._line.submit(self._prime, dict(body))

    def close(self) -> None:
        """Let go of the memory once the line is empty; a later call loads again."""
        self._line.submit(self._unload).result()

    def _prime(self, body: dict[str, Any]) -> None:
        if self._warmth is None:
            return
        self._ready()
        name = self._warmth.name(self.path, _library().__version__, body)
        slot = Slot(str(self._server.listening_address), self._key)
        if name not in self._primed and not self._warmth.restore(name, slot):
            self._server.handle_chat_completions({**body, "max_tokens": 1, "stream": False})
            self._warmth.keep(name, slot)
        self._primed.add(name)

    def _ready(self) -> None:
        if self._server is None:
            self._primed.clear()
            self._server = self._load()

    def _answer(self, body: dict[str, Any], hear: Hear) -> None:
        self._ready()
        heard = _Heard(hear)
        self._server.handle_chat_completions(body, heard)
        if heard.failure is not None:
            raise heard.failure

    def _unload(self) -> None:
        self._server = None

    def _load(self) -> Any:
        library = _library()
        params = library.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.context
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _BATCH
        params.cache_ram_mib = _CACHE_MIB
        params.load_mode = library.llama_load_mode.LLAMA_LOAD_MODE_MMAP
        params.verbosity = -1
        params.warmup = False
        for cores in (params.cpuparams, params.cpuparams_batch):
            cores.n_threads = self._threads
        _shut_off(params, self._key)
        if self._warmth is not None:
            self._warmth.folder.mkdir(parents=True, exist_ok=True)
            params.slot_save_path = f"{self._warmth.folder}{os.sep}"
        try:
            return library.Server(params)
        except RuntimeError:
            hint = "plansmith model check says whether the file is whole"
            raise ModelFailed(f"{self.path} cannot be loaded as a model", hint=hint) from None


class _Heard:
    """Passes pieces on, and keeps what broke: the library would swallow it."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self.failure: Exception | None = None

    def __call__(self, piece: dict[str, Any]) -> bool:
        try:
            return self._hear(piece)
        except Exception as error:  # noqa: BLE001 - raised again as soon as the library is left
            self.failure = error
            return True


def _shut_off(params: Any, key: str) -> None:
    """The library opens a port on this machine: nobody else gets in without this key."""
    params.api_keys = [key]
    params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False


def _library() -> Any:
    """The runtime, imported so that its threads sleep when they wait.

    Spinning threads take the cores from each other on a busy machine: measured ten times slower.
    """
    before = os.environ.get(_WAITING)
    os.environ[_WAITING] = before or "passive"
    try:
        return importlib.import_module("xllamacpp")
    except ImportError:
        hint = "install plansmith[local]"
        raise Misconfigured("the runtime for embedded models is missing", hint=hint) from None
    finally:
        if before is None:
            del os.environ[_WAITING]


_SHARING: Final = threading.Lock()


def shared_engine(path: Path, context: int, states: Path | None = None) -> Engine:
    """The one engine of a file in this process, however many models speak through it."""
    with _SHARING:
        return _engine(path.resolve(), context, states)


@functools.cache
def _engine(path: Path, context: int, states: Path | None) -> Engine:
    warmth = Warmth(states) if states else None
    threads = fitting_threads(usable_cores())
    return Engine(path, context=context, threads=threads, warmth=warmth)
