"""Makes tools of Python functions: the schema comes from type hints, the effect is declared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, cast, get_type_hints, overload

import pydantic
from pydantic_core import PydanticSerializationError

from plansmith.errors import Misconfigured, OutcomeUnknown, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.preview import CallPreview
from plansmith.plan.sentence import Sentence
from plansmith.plan.value_types import adapter_of, output_schema
from plansmith.ports import Call
from plansmith.tools.threads import run_in_thread

EffectName = Literal["read", "write", "final"]
_AS_IT_IS: Final = frozenset({str, int, bool, type(None)})  # a float may be no number
_ANY: Final = pydantic.TypeAdapter[Any](Any, config={"ser_json_inf_nan": "constants"})
P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Generic[P, R]):
    """A function that a plan can call; Python code can still call it as before."""

    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        spec: ToolSpec,
        arguments: type[pydantic.BaseModel],
        returns: pydantic.TypeAdapter[Any] | None = None,
        preview: Callable[..., Any] | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.spec = spec
        self._arguments = arguments
        self._returns = returns or _ANY
        self.preview = preview
        self.takes_call = "call" in inspect.signature(function).parameters
        self.is_async = inspect.iscoroutinefunction(function)

    def __call__(self, *args: P.args, **options: P.kwargs) -> R:
        return self.function(*args, **options)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    def checked(self, arguments: Mapping[str, Json], call: Call) -> dict[str, Any]:
        """Checks the arguments of a plan's call; returns those of the function."""
        try:
            found = self._arguments.__pydantic_validator__.validate_python(dict(arguments))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ToolFailed(f"{self.spec.name}: {place}: {first['msg']}") from None
        given: dict[str, Any] = found.__dict__
        if self.takes_call:
            given["call"] = call
        return given

    def to_json(self, result: Any) -> Json:
        """Converts models, dates and the like to JSON; raises `OutcomeUnknown` for anything else.

        A result of another type than the declared one is converted by its own: whether it fits the
        declared schema is checked where every result is.
        """
        written: Json = result
        if type(result) not in _AS_IT_IS:
            try:
                written = self._returns.dump_python(
                    result, mode="json", by_alias=True, warnings=False
                )
            except (PydanticSerializationError, ValueError) as error:
                why = Sentence("the result cannot be written as JSON: {error}", error=error)
                called = Sentence("it was called, and {why}", why=why)
                raise OutcomeUnknown(called, again=False) from None
        return written


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    effect: EffectName | Effect = "write",
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    idempotent: bool = False,
    open_world: bool = True,
    search: bool = False,
    preview: Callable[..., Any] | None = None,
    free: bool | None = None,
) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    effect: EffectName | Effect = "write",
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    idempotent: bool = False,
    open_world: bool = True,
    search: bool = False,
    preview: Callable[..., Any] | None = None,
    free: bool | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(  # noqa: PLR0913 - all but the first by name
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectName | Effect = "write",
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    idempotent: bool = False,
    open_world: bool = True,
    search: bool = False,
    preview: Callable[..., Any] | None = None,
    free: bool | None = None,
) -> FunctionTool[..., Any] | Callable[[Callable[..., Any]], FunctionTool[..., Any]]:
    """Makes a function a tool that plans can call; used as `@tool` or `@tool(effect="read")`.

    Type hints and docstring tell the planner its arguments; a function with `*args` or `**kwargs`
    raises `Misconfigured`. A function that is not async runs in a thread. A function that changes
    things should raise `ToolFailed` only if it changed nothing; after any other exception a person
    is asked.

    Args:
        function: The function.
        effect: `read` changes nothing, `write` can be undone, `final` cannot.
        name: The name in plans; by default that of the function.
        description: What it does; by default the function's docstring.
        timeout_s: How many seconds a call may take.
        idempotent: It is safe to repeat a call with the same key; a parameter named `call` receives
            it (`call.key`).
        open_world: It reads or changes things outside this program.
        search: It finds things by words, and may be called before planning.
        preview: A function of the same arguments that returns what a call would do, and does
            nothing: a `CallPreview`, a text or a list of rows.
        free: A read that may run before every approval (True), or only if a person says so (False).

    Examples:
        >>> from plansmith import tool
        >>> @tool(effect="read")
        ... def stock(item: str) -> int:
        ...     return 3
        >>> stock.spec.effect.value, stock("bolt")
        ('read', 3)
    """
    effects = {"effect": Effect(effect), "open_world": open_world, "idempotent": idempotent}
    more = {**effects, "timeout_s": timeout_s, "search": search, "free": free}
    make = partial(_made_tool, name=name, description=description, preview=preview, more=more)
    return make if function is None else make(function)


def _made_tool(
    function: Callable[P, R],
    *,
    name: str | None,
    description: str | None,
    preview: Callable[..., Any] | None,
    more: Mapping[str, Any],
) -> FunctionTool[P, R]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        hint = Sentence("import what its type hints name, or leave them out")
        raise Misconfigured(_no_tool(function, error), hint=hint) from None
    arguments, returns = _arguments_model(function, hints), _return_type(hints)
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for each in cast("dict[str, Any]", schema.get("properties", {})).values():
        each.pop("title", None)
    # The docstring without its list of parameters.
    about = _SECTION.split(inspect.getdoc(function) or "", maxsplit=1)[0].strip()
    spec = ToolSpec(
        name=name or function.__name__,
        description=description or about,
        input_schema=schema,
        output_schema=output_schema(returns) if returns is not None else None,
        **more,
    )
    return FunctionTool(function, spec, arguments, returns, preview)


def _no_tool(function: Callable[..., Any], error: Exception) -> Sentence:
    return Sentence("{name} cannot be a tool: {error}", name=function.__name__, error=error)


class FunctionTools:
    """A tool source made of functions."""

    def __init__(self, tools: Sequence[FunctionTool[..., Any] | Callable[..., Any]]) -> None:
        made: list[FunctionTool[..., Any]] = [
            each if isinstance(each, FunctionTool) else tool(each) for each in tools
        ]
        self._tools = {each.spec.name: each for each in made}
        if len(self._tools) < len(made):
            names = [each.spec.name for each in made]
            twice = next(name for name in names if names.count(name) > 1)
            raise Misconfigured(
                Sentence("two tools are called '{name}'", name=twice),
                hint=Sentence("rename one of them"),
            )

    async def tools(self) -> Sequence[ToolSpec]:
        return [each.spec for each in self._tools.values()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        if tool not in self._tools:
            raise ToolFailed(Sentence("unknown.tool", name=tool))
        function = self._tools[tool]
        given = function.checked(arguments, call)
        if function.is_async:
            return function.to_json(await function.function(**given))
        return function.to_json(await run_in_thread(partial(function.function, **given)))

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        made = self._tools.get(tool)
        if made is None or made.preview is None:
            return None
        given = made.checked(inputs, Call(key="preview"))
        given.pop("call", None)
        if inspect.iscoroutinefunction(made.preview):
            return _as_preview(await made.preview(**given))
        return _as_preview(await run_in_thread(partial(made.preview, **given)))


def _as_preview(shown: Any) -> CallPreview:
    """Returns what a tool's own function says of a call: a preview, a text or rows."""
    if isinstance(shown, CallPreview):
        return shown
    if isinstance(shown, list):
        rows = cast("list[Any]", _ANY.dump_python(shown, mode="json"))
        tables: list[dict[str, Json]] = [
            cast("dict[str, Json]", each) if isinstance(each, dict) else {"": each} for each in rows
        ]
        return CallPreview(rows=tuple(tables), count=len(tables))
    return CallPreview(text=str(shown))


def _arguments_model(
    function: Callable[..., Any], hints: Mapping[str, Any]
) -> type[pydantic.BaseModel]:
    fields: dict[str, Any] = {}
    docs = _parameter_docs(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            why = Sentence("{name} takes *args or **kwargs", name=function.__name__)
            raise Misconfigured(why, hint=Sentence("write its parameters out"))
        if parameter.name != "call":
            default = ... if parameter.default is parameter.empty else parameter.default
            field = pydantic.Field(default, description=docs.get(parameter.name))
            fields[parameter.name] = (hints.get(parameter.name, Any), field)
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        return pydantic.create_model(function.__name__, __config__=config, **fields)
    except pydantic.PydanticUserError as error:
        raise Misconfigured(_no_tool(function, error)) from None


def _parameter_docs(function: Callable[..., Any]) -> dict[str, str]:
    """Returns what the section `Args` of a docstring says of each parameter."""
    parts = _SECTION.split(inspect.getdoc(function) or "")
    found = _PARAMETER.finditer(parts[2] if len(parts) > 2 else "")
    return {line[1]: line[2].strip() for line in found}


_SECTION: Final = re.compile(
    r"^(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?):?[ \t]*$", re.MULTILINE
)
_PARAMETER: Final = re.compile(r"^[ \t]*(\w+)(?:[ \t]*\([^)\n]*\))?:[ \t]*(\S.*)$", re.MULTILINE)


def _return_type(hints: Mapping[str, Any]) -> pydantic.TypeAdapter[Any] | None:
    """Returns the type of the return annotation; None if there is none, or it is not for JSON."""
    returned = hints.get("return", Any)
    if returned is Any or returned is object:
        return None
    try:
        found = adapter_of(returned)
        output_schema(found)
    except (Misconfigured, pydantic.PydanticUserError):
        return None
    return found
