"""Loads modules and compiles patterns when first used; pauses the garbage collector."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

T = TypeVar("T")
_LOCK: Final = RLock()


class _Unloaded(ModuleType):
    """Stands for a module in the globals of another, until an attribute of it is needed."""

    def __init__(self, name: str, user: dict[str, Any], alias: str) -> None:
        super().__init__(name)
        self._use = user, alias

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what inspection asks of every module
            raise AttributeError(name)
        module = import_module(self.__name__)
        user, alias = self._use
        user[alias] = module  # from now on the user finds the module itself, at no cost
        return getattr(module, name)


def lazy_modules(user: dict[str, Any], **modules: str) -> None:
    """Puts modules into the globals of another, to be loaded when they are first used.

    Type checkers and linters read the imports beside it:

        if TYPE_CHECKING:
            from plansmith_planner import pipeline
        else:
            lazy_modules(globals(), pipeline="plansmith_planner.pipeline")
    """
    user |= {alias: _Unloaded(name, user, alias) for alias, name in modules.items()}


if TYPE_CHECKING:
    made_once = property
else:

    class made_once(cached_property):  # noqa: N801 - used as a decorator
        """A part of an object, made when it is first used: once, also for two threads at a time."""

        def __get__(self, instance: object, owner: type | None = None) -> object:
            with _LOCK:
                return super().__get__(instance, owner)


class _Unmade:
    """Stands for an object until it is used; then keeps the object's methods as its own."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = cache(make)

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._make(), name)
        setattr(self, name, value)
        return value


def lazy_object(make: Callable[[], T]) -> T:
    """Returns what stands for an object that is made when a method of it is first called."""
    return cast("T", _Unmade(make))


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Returns a pattern that is compiled when it is first used; for long ones that are rare."""
    return lazy_object(lambda: re.compile(pattern, flags))


@contextmanager
def gc_paused(*, freeze: bool = False) -> Generator[None]:
    """Pauses garbage collection while much is made that stays, such as modules or loaded runs.

    To `freeze` leaves everything that there is at the end out of all later collections.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        if was_on:
            gc.enable()
