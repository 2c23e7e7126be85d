"""Models of all providers that pydantic-ai supports, and of OpenAI-compatible servers."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

from plansmith.errors import ModelFailed, ModelRefused
from plansmith.plan.data import Json
from plansmith.plan.refs import value_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import ArgumentsDelta, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith_planner.models import provider_output as out
from plansmith_planner.models.choose import usual_places

ANSWER_TOOL: Final = "answer"
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OWN_SERVER: Final = ("openai", "openai-chat")


class ProviderModel:
    """A model `provider:name`, or `openai:name` of a compatible server at `base_url`.

    Nothing is imported or reached before the first call, which says what to set when a key or
    a library is missing. `timeout_s` limits connecting and the silence between two packets.
    """

    def __init__(
        self,
        spec: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        output: Literal["auto"] | out.Mode = "auto",
    ) -> None:
        self.name = spec
        self._base_url = base_url
        self._api_key = api_key
        self._only: out.Mode | None = None if output == "auto" else output
        self._refused: set[out.Mode] = set()
        # The library's own retries are off: one place retries, and it is not here. The stable
        # start of the prompt is cached where a provider wants to be asked for that.
        self._settings: dict[str, Any] = {
            "cache": {"messages": False},
            "timeout": timeout_s,
            "max_retries": 0,
        }
        self._model: Any = None

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields the answer in pieces; an empty text means that the model thinks."""
        model, schema = await self._connect(), prompt.schema
        modes = self._modes(schema)
        for mode in modes:
            pieces = self._answer(model, prompt, mode)
            try:
                async with aclosing(pieces):
                    async for delta in pieces:
                        yield delta
            except _ModeRefused as refusal:
                if mode == modes[-1]:
                    hint = Sentence("set output to auto, so that another mode is tried")
                    raise ModelRefused(refusal.message, hint=hint) from refusal.__cause__
                # A list at the root is the schema's fault: it says nothing about the model.
                if schema is not None and out.takes_object(schema):
                    self._refused.add(mode)
            else:
                return

    def _address(self) -> tuple[str | None, str | None]:
        """Returns base URL and key; a key from the environment goes only to its own provider."""
        provider = self.name.partition(":")[0]
        if self._base_url is None and provider in _OWN_SERVER:
            base_url = os.environ.get("OPENAI_BASE_URL")
            return base_url, self._api_key or (
                os.environ.get("OPENAI_API_KEY") if base_url else None
            )
        if self._base_url is None and provider == "ollama":
            here = usual_places(os.environ)[0].base_url
            return os.environ.get("OLLAMA_BASE_URL") or here, self._api_key
        return self._base_url, self._api_key

    def _modes(self, schema: Mapping[str, Json] | None) -> tuple[out.Mode, ...]:
        if schema is None:
            return ("text",)
        if self._only is not None:
            return (self._only,)
        modes: list[out.Mode] = [mode for mode in out.MODES if mode not in self._refused]
        return tuple(mode for mode in modes if mode != "tool" or out.takes_object(schema))

    async def _connect(self) -> Any:
        if self._model is None:
            try:
                # Importing the libraries takes a second: not in the event loop.
                self._model = await asyncio.to_thread(self._build)
            except Exception as error:
                raise out.refused_setup(error, self.name) from error
        return self._model

    def _build(self) -> Any:
        library = _library()
        provider, _, name = self.name.partition(":")
        base_url, api_key = self._address()
        if not name:
            raise ValueError(f"Unknown model: {self.name}")
        if base_url and provider in _OWN_SERVER:
            # Not the OpenAI provider: that one would send OPENAI_API_KEY to a stranger.
            profile = {"openai_chat_streaming_requires_finish_reason": True}
            compatible: Any = importlib.import_module("pydantic_ai.providers.openai_compatible")
            openai: Any = importlib.import_module("pydantic_ai.models.openai")
            server = compatible.OpenAICompatibleProvider(
                "openai-compatible", base_url=base_url, api_key=api_key, profile=profile
            )
            return openai.OpenAIChatModel(name, provider=server)
        if not base_url and not api_key:
            return library.models.infer_model(self.name)
        maker = library.providers.infer_provider_class(provider)
        given = {"base_url": base_url, "api_key": api_key}
        arguments = {key: value for key, value in given.items() if value}
        unknown = arguments.keys() - inspect.signature(maker.__init__).parameters.keys()
        if unknown:
            raise ValueError(f"{provider} takes no {' and no '.join(sorted(unknown))}")

        def make(_: str) -> Any:
            return maker(**arguments)

        return library.models.infer_model(self.name, make)

    async def _answer(self, model: Any, prompt: Prompt, mode: out.Mode) -> AsyncGenerator[Delta]:
        library = _library()
        names = {_wire_name(tool.name): tool.name for tool in prompt.tools}
        calls: dict[int, str] = {}
        limit = {} if prompt.max_tokens is None else {"max_tokens": prompt.max_tokens}
        settings, has_text = self._settings | limit, False
        try:
            async with (
                model,
                library.direct.model_request_stream(
                    model,
                    _wire_messages(library, prompt, mode),
                    model_settings=settings,
                    model_request_parameters=_parameters(library, prompt, mode),
                ) as stream,
                aclosing(aiter(stream)) as events,
            ):
                async for event in events:
                    delta = _piece(event, names, calls)
                    if delta is not None:
                        has_text = True
                        yield delta
                done = self._done(stream)
        except Exception as error:
            own_key = bool(self._api_key or self._base_url)
            failure = out.as_failure(error, model=self.name, own_key=own_key)
            # The library knows some models' abilities by itself, and says so without a status.
            status = 400 if type(error).__name__ == "UserError" else out.status_of(error)
            error_words = f"{out.error_text(error)} {error}"
            if not has_text and out.is_mode_refusal(status, error_words, mode):
                failure = _ModeRefused(failure.message)
            raise failure from error
        yield done

    def _done(self, stream: Any) -> ModelDone:
        details: dict[str, Any] = stream.provider_details or {}
        if stream.finish_reason == "content_filter":
            reason = details.get("refusal") or Sentence("its content filter stopped the answer")
            raise ModelRefused(
                Sentence("{model} refused to answer: {reason}", model=self.name, reason=reason)
            )
        if stream.finish_reason is None and "finish_reason" not in details:
            raise out.broken_off(self.name)
        usage, cost = stream.usage, stream.usage.cost
        if not cost and (usage.input_tokens or usage.output_tokens):
            cost = out.price_of(
                usage,
                stream.model_name,
                provider=self.name.partition(":")[0],
                url=stream.provider_url,
                only_url=self._address()[0] is not None,
            )
        spent = Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cache_read_tokens,
            cost=cost or None,
        )
        return ModelDone(spent, stream.model_name)


class _ModeRefused(ModelFailed):
    """The server does not support this output mode."""


def _piece(event: Any, names: Mapping[str, str], calls: dict[int, str]) -> Delta | None:
    """Converts an event of pydantic-ai; `calls` keeps the tools that are called, by their place."""
    if event.event_kind == "part_start":
        part = event.part
        if part.part_kind == "tool-call":
            calls[event.index] = names.get(part.tool_name, part.tool_name)
            return ArgumentsDelta(calls[event.index], value_text(part.args or ""))
        text = part.content if part.part_kind == "text" else None
    elif event.event_kind == "part_delta":
        delta = event.delta
        if delta.part_delta_kind == "tool_call":
            arguments = value_text(delta.args_delta or "")
            return ArgumentsDelta(calls.get(event.index, ""), arguments) if arguments else None
        text = delta.content_delta if delta.part_delta_kind == "text" else None
    else:
        return None
    if text is None:
        return TextDelta("")  # it thinks
    return TextDelta(text) if text else None


def _library() -> Any:
    for name in ("direct", "messages", "models", "output", "providers", "tools"):
        importlib.import_module(f"pydantic_ai.{name}")
    return importlib.import_module("pydantic_ai")


def _wire_messages(library: Any, prompt: Prompt, mode: out.Mode) -> list[Any]:
    kinds = library.messages
    messages, schema = prompt.messages, prompt.schema
    if schema is not None and mode == "text":
        messages = out.with_schema_text(messages, schema)
    wire: list[Any] = []
    for message in messages:
        if message.role == "assistant":
            wire.append(kinds.ModelResponse(parts=[kinds.TextPart(message.text)]))
        else:
            kind = kinds.SystemPromptPart if message.role == "system" else kinds.UserPromptPart
            wire.append(kinds.ModelRequest(parts=[kind(message.text)]))
    return wire


def _parameters(library: Any, prompt: Prompt, mode: out.Mode) -> Any:
    def tool(name: str, description: str, schema: Mapping[str, Json], **more: str) -> Any:
        form = {"parameters_json_schema": out.opened(schema), "strict": _strict(schema)}
        return library.tools.ToolDefinition(name=name, description=description, **form, **more)

    functions = [
        tool(_wire_name(each.name), each.description, each.input_schema) for each in prompt.tools
    ]
    schema = prompt.schema
    asked: dict[str, Any] = {}
    if schema is not None and mode == "json_schema":
        answer = library.output.OutputObjectDefinition(
            out.opened(schema), name=ANSWER_TOOL, strict=_strict(schema)
        )
        asked = {"output_mode": "native", "output_object": answer}
    elif schema is not None and mode == "tool":
        answer = tool(ANSWER_TOOL, "Give the answer.", schema, kind="output")
        asked = {"output_mode": "tool", "output_tools": [answer], "allow_text_output": False}
    return library.models.ModelRequestParameters(function_tools=functions, **asked)


def _strict(schema: Mapping[str, Json]) -> bool | None:
    """Returns False for open objects, which strict mode would close; else None (automatic)."""
    return None if out.is_closed(schema) else False


def _wire_name(name: str) -> str:
    """Returns a tool's name as providers accept it: letters, digits, `_`, `-`, at most 64."""
    if _TOOL_NAME.fullmatch(name):
        return name
    clean = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:50] or "tool"
    return f"{clean}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
