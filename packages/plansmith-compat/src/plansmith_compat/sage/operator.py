"""What SAGE's pipelines run: classes with `execute`, and settings that one call may change."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, Generic, TypeVar, cast

_T = TypeVar("_T")
# Where SAGE's own base class stands in its releases, the newest first.
_HOMES: Final = (
    "sage.common.core.functions",
    "sage.kernel.api.function.map_function",
    "sage.core.api.function.map_function",
)


class MapFunction(ABC):
    """A function of a SAGE pipeline: `stream.map(LLMPlanner, generator)`.

    Where SAGE is installed, subclasses count as subclasses of its own `MapFunction` too. The
    pipeline sets `ctx`.
    """

    ctx: Any = None

    @abstractmethod
    def execute(self, data: Any) -> Any:
        """Turns one piece of data into another."""

    @property
    def logger(self) -> Any:
        """The pipeline's logger, or one of this class."""
        own = logging.getLogger(f"{__name__}.{type(self).__name__}")
        return getattr(self.ctx, "logger", None) or own


def _register() -> None:
    """Tells SAGE's base class, where there is one, of ours."""
    for home in _HOMES:
        try:
            theirs: Any = import_module(home).MapFunction
            theirs.register(MapFunction)
        except Exception as error:  # noqa: BLE001 - whatever an installation of SAGE lacks
            logging.getLogger(__name__).debug("no SAGE at %s: %s", home, error)


_register()


class Scoped(Generic[_T]):
    """An attribute that a call can change for itself only, also beside other threads."""

    def __init__(self) -> None:
        self._now: ContextVar[tuple[object, Any] | None] = ContextVar("now", default=None)
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> _T:
        if instance is None:
            return cast("_T", self)
        now = self._now.get()
        if now is not None and now[0] is instance:
            return cast("_T", now[1])
        try:
            return cast("_T", instance.__dict__[self._name])
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, instance: object, value: _T) -> None:
        instance.__dict__[self._name] = value

    @contextmanager
    def during(self, instance: object, value: _T) -> Generator[None]:
        """Gives the attribute another value until the block ends."""
        token = self._now.set((instance, value))
        try:
            yield
        finally:
            self._now.reset(token)
