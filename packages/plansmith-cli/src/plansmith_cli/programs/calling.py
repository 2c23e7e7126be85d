"""Part of every written program: calls tools by their type hints, and names failures."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain; the strict mode has no use for that.
# pyright: basic
import asyncio
import inspect
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from plansmith_cli.programs.values import Json, StepError

SECRETS: dict[str, str] = {}  # the values that were used, to be taken out of results


@dataclass(frozen=True)
class Call:
    """One call of a tool: its key is the same when the call is made again."""

    key: str
    attempt: int = 1
    reply: None = None

    def progress(self, text: str) -> None:
        """Is told how far a tool is."""

    def is_stopped(self) -> bool:
        """Tells whether the tool should give up."""
        return False


@dataclass(frozen=True)
class Tool:
    """What a step calls. A call that reads, or has a key, is made again after a timeout."""

    function: Callable[[dict[str, Json], Call], Awaitable[Json]]
    reads: bool = False
    keyed: bool = False
    timeout_s: float = 300


async def made(tool: Tool, arguments: dict[str, Json], call: Call, seconds: float) -> Json:
    """Makes one call; every failure is a StepError."""
    try:
        async with asyncio.timeout(seconds):
            return await tool.function(arguments, call)
    except TimeoutError:
        raise lost(tool, f"no result after {seconds:g} s", "time") from None
    except StepError:
        raise
    except Exception as error:  # noqa: BLE001 - a tool may raise anything
        raise failure_of(tool, error) from None


def checked_result(tool: Tool, value: Json, *, may_be_empty: bool) -> Json:
    """Returns a result without secrets; fails if it is no JSON or must not be empty."""
    try:
        value = hidden(value)
    except (TypeError, ValueError) as error:
        raise broken(tool, f"the result is not JSON: {error}", "result") from None
    if not may_be_empty and (value is None or (isinstance(value, str) and not value.strip())):
        raise broken(tool, "the result is empty", "result")
    return value


def failure_of(tool: Tool, error: Exception) -> StepError:
    """Names the failure of a call; plansmith's own errors are known by their names."""
    names = {each.__name__ for each in type(error).__mro__}
    said = str(error) if "PlansmithError" in names else f"{type(error).__name__}: {error}"
    said = str(hidden(said.encode("utf-8", "backslashreplace").decode()))
    if "OutcomeUnknown" in names:
        return lost(tool, said, "tool")
    if "ToolFailed" in names:
        return StepError(said, "tool", again="ToolBusy" in names)
    return broken(tool, said, "tool")


def broken(tool: Tool, why: str, kind: str) -> StepError:
    """Returns the failure of a call that may have taken effect, unless it only reads."""
    return StepError(why, kind) if tool.reads else lost(tool, why, kind)


def lost(tool: Tool, why: str, kind: str) -> StepError:
    """Returns the failure of a call of which nobody saw the end."""
    return StepError(why, kind, again=tool.reads or tool.keyed, unsure=not tool.reads)


@lru_cache
def functions_of(path: str) -> dict[str, Any]:
    """Runs a Python file once, and returns what it defines by name."""
    spec = spec_from_file_location(f"tools_of_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise SystemExit(f"there is no file {path}: say in this program where your tools are")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


async def call_function(
    path: str, name: str, arguments: dict[str, Json], call: Call, *, tool: str
) -> Json:
    """Calls a function of a file with arguments that fit its type hints; returns JSON."""
    found = functions_of(path)[name]
    function = getattr(found, "function", found)  # it may be marked with plansmith's @tool
    bound = partial(function, **checked_arguments(function, arguments, call, tool))
    is_async = inspect.iscoroutinefunction(function)
    result = await (bound() if is_async else in_thread(bound))
    try:
        return result_type(function).dump_python(result, mode="json", by_alias=True, warnings=False)
    except ValueError as error:
        raise StepError(f"the result cannot be written as JSON: {error}", "tool") from None


def checked_arguments(
    function: Callable[..., Any], arguments: Mapping[str, Json], call: Call, tool: str
) -> dict[str, Any]:
    """Returns the arguments in the types that a function wants."""
    try:
        made = arguments_model(function).model_validate(dict(arguments))
    except ValidationError as error:
        first_error = error.errors()[0]
        place = ".".join(map(str, first_error["loc"]))
        raise StepError(f"{tool}: {place}: {first_error['msg']}", "tool") from None
    takes_call = "call" in inspect.signature(function).parameters
    return {**vars(made), **({"call": call} if takes_call else {})}


@lru_cache
def arguments_model(function: Callable[..., Any]) -> type[BaseModel]:
    """Returns a model of the parameters of a function."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), ... if each.default is each.empty else each.default)
        for name, each in inspect.signature(function).parameters.items()
        if name != "call"
    }
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


@lru_cache
def result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Returns the type that a function says it returns, or any."""
    try:
        return TypeAdapter(get_type_hints(function, include_extras=True).get("return", Any))
    except Exception:  # noqa: BLE001 - a type may be none that pydantic knows
        return TypeAdapter(Any)


async def in_thread(work: Callable[[], Any]) -> Any:
    """Calls a plain function in a thread that does not hold up the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not future.done():
            settled()

    def go() -> None:
        try:
            settled = partial(future.set_result, work())
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything
            settled = partial(future.set_exception, error)
        loop.call_soon_threadsafe(settle, settled)

    threading.Thread(target=go, daemon=True).start()
    return await future


@lru_cache
def builtin_sources() -> list[Any]:
    """Returns the built-in tools of plansmith for this folder, with its settings."""
    from plansmith_cli.config import load_settings
    from plansmith_cli.wiring import builtin_tools

    return list(builtin_tools(load_settings()))


async def call_builtin(name: str, arguments: dict[str, Json], call: Call) -> Json:
    """Calls a built-in tool of plansmith, which is used as a library here."""
    from plansmith import Call as LibraryCall

    for source in builtin_sources():
        if any(each.name == name for each in await source.tools()):
            return await source.call(
                name, arguments, LibraryCall(key=call.key, attempt=call.attempt)
            )
    raise StepError(f"there is no tool called '{name}'", "tool")


def secret(name: str, variable: str) -> str:
    """Returns the value of a secret, which is in the environment."""
    value = os.environ.get(variable, "")
    if not value:
        raise StepError(f"the secret '{name}' is not in the environment: set {variable}", "tool")
    SECRETS[value] = f"${{secret:{name}}}"
    return value


def hidden(value: Json) -> Json:
    """Returns a value without the secrets that were used."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for known, mark in SECRETS.items():
        written = written.replace(json.dumps(known, ensure_ascii=False)[1:-1], mark)
    written.encode()
    return json.loads(written)
