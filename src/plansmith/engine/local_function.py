"""Tools that are Python functions of this process: what the engine needs to call one directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from plansmith.engine.threads import Ended, Job
from plansmith.plan.data import Json
from plansmith.ports import Call


class LocalFunction(Protocol):
    """A tool that is a Python function of this process, called without the layers of a source."""

    @property
    def is_async(self) -> bool:
        """Whether the function is awaited; others run in a thread."""
        ...

    @property
    def takes_call(self) -> bool:
        """Whether the function needs the `Call`."""
        ...

    def bind(self, arguments: Mapping[str, Json], call: Call | None) -> Callable[[], Any]:
        """Checks the arguments, and returns the function with them; it may be awaited."""
        ...

    def start(self, work: Callable[[], Any], ended: Ended) -> Job:
        """Calls a bound function in a thread; reports its result or error to this event loop."""
        ...

    def to_json(self, result: Any) -> Json:
        """Converts a result that is not plain; may raise `ToolFailed` or `OutcomeUnknown`."""
        ...


@runtime_checkable
class LocalSource(Protocol):
    """A tool source whose tools are Python functions of this process."""

    def local_function(self, tool: str) -> LocalFunction | None:
        """Returns the function of a tool; None if calls must go through the source."""
        ...
