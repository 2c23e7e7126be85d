from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai.models import override_allow_model_requests
from tests.servers.model_server import Gate, ModelServer, Page, Refusal, Reply, Request

from plansmith.errors import ModelBusy, ModelFailed, ModelRefused, PromptTooLong
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ArgumentsDelta, Delta, Message, ModelDone, Prompt, TextDelta, Usage
from plansmith_planner.models.provider import ProviderModel

HELLO = [Message("system", "be kind"), Message("user", "你好")]
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "object"}}},
}
SSE = "text/event-stream"


@pytest.fixture(autouse=True)
def real_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_BASE_URL", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with override_allow_model_requests(True):
        yield


def model_of(server: ModelServer, **options: Any) -> ProviderModel:
    return ProviderModel("openai:test", base_url=server.url, **options)


async def deltas_of(model: ProviderModel, **options: Any) -> list[Delta]:
    return [delta async for delta in model.stream(Prompt(HELLO, **options))]


async def listen(model: ProviderModel, deltas: list[Delta]) -> None:
    async for delta in model.stream(Prompt(HELLO)):
        deltas.append(delta)  # noqa: PERF401 - kept when the stream fails


async def heard(*answers: Any, schema: Any = None, tools: Any = (), **options: Any) -> list[Delta]:
    async with ModelServer(*answers) as server:
        return await deltas_of(model_of(server, **options), schema=schema, tools=tools)


async def failure(*answers: Any, **options: Any) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await heard(*answers, **options)
    return caught.value


def text_of(deltas: list[Delta]) -> str:
    return "".join(each.text for each in deltas if not isinstance(each, ModelDone))


# Streaming


async def test_text_comes_piece_by_piece_and_ends_with_usage() -> None:
    deltas = await heard(Reply("good day to you", chunk=5, cached_tokens=3))
    assert deltas == [
        TextDelta("good "),
        TextDelta("day t"),
        TextDelta("o you"),
        ModelDone(Usage(input_tokens=7, output_tokens=5, cached_tokens=3), "test"),
    ]


async def test_a_piece_is_handed_over_as_soon_as_it_is_written() -> None:
    gate = Gate(2)
    async with ModelServer(Reply("one two ", chunk=4, gate=gate)) as server:
        stream = aiter(model_of(server).stream(Prompt(HELLO)))
        assert await anext(stream) == TextDelta("one ")
        gate.let(1)
        assert await anext(stream) == TextDelta("two ")
        assert isinstance(await anext(stream), ModelDone)


async def test_arguments_of_tools_come_piece_by_piece_under_the_tools_own_name() -> None:
    weather = ToolSpec(name="天气.查询", description="天气")

    def calls_it(request: Request) -> Reply:
        return Reply({"city": "Berlin"}, tool=request.json["tools"][0]["function"]["name"], chunk=9)

    deltas = await heard(calls_it, tools=[weather])
    assert deltas[:-1] == [
        ArgumentsDelta("天气.查询", ""),
        ArgumentsDelta("天气.查询", '{"city": '),
        ArgumentsDelta("天气.查询", '"Berlin"}'),
    ]


async def test_tools_keep_names_that_providers_take_and_get_stable_ones_else() -> None:
    tools = [
        ToolSpec(name=name) for name in ("get_time", "mail.send", "mail/send", "发送", "x" * 80)
    ]
    async with ModelServer("a", "b") as server:
        await deltas_of(model_of(server), tools=tools)
        await deltas_of(model_of(server), tools=tools[::-1])
        first, second = (
            [tool["function"]["name"] for tool in chat["tools"]] for chat in server.chats
        )
    assert first == second[::-1]
    assert len(set(first)) == 5
    assert first[0] == "get_time"
    assert all(len(name) <= 64 and name.isascii() for name in first)


async def test_thinking_shows_as_empty_pieces_only() -> None:
    assert (await heard(Reply("4", thinks="two and two")))[:-1] == [TextDelta(""), TextDelta("4")]


@pytest.mark.parametrize("output", ["json_schema", "tool", "text"])
async def test_calls_that_start_alike_send_the_same_first_bytes(output: Any) -> None:
    longer = [*HELLO, Message("assistant", "no"), Message("user", "again")]
    async with ModelServer("a", "b") as server:
        model = model_of(server, output=output)
        for messages in (HELLO, longer):
            async for _ in model.stream(Prompt(messages, schema=SCHEMA)):
                pass
        first, second = (request.body for request in server.requests)
    shared = first[: first.index("你好".encode()) + len("你好".encode())]
    assert b"be kind" in shared
    assert second.startswith(shared)


# Output modes


async def test_a_schema_is_asked_for_in_the_best_way_and_open_objects_stay_open() -> None:
    async with ModelServer(Reply({"steps": []})) as server:
        deltas = await deltas_of(model_of(server), schema=SCHEMA)
        [chat] = server.chats
    assert text_of(deltas) == '{"steps": []}'
    form = chat["response_format"]["json_schema"]
    assert form["strict"] is False
    assert form["schema"]["properties"]["steps"]["items"]["additionalProperties"] is True
    assert "additionalProperties" not in form["schema"]


async def test_a_closed_schema_is_asked_for_strictly() -> None:
    closed = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    async with ModelServer(Reply({"a": 1})) as server:
        await deltas_of(model_of(server), schema=closed)
        [chat] = server.chats
    assert chat["response_format"]["json_schema"]["strict"] is True


async def test_a_server_without_json_mode_is_given_a_tool_and_asked_only_once_in_vain() -> None:
    replies = [Reply({"steps": []}, tool="answer")] * 2
    async with ModelServer(*replies, json_mode=False) as server:
        model = model_of(server)
        deltas = await deltas_of(model, schema=SCHEMA)
        await deltas_of(model, schema=SCHEMA)
        server.finish()
        first, second, third = server.chats
    assert {each.tool for each in deltas if isinstance(each, ArgumentsDelta)} == {"answer"}
    assert text_of(deltas) == '{"steps": []}'
    assert sum(isinstance(each, ModelDone) for each in deltas) == 1
    assert "response_format" in first
    assert second["tool_choice"] == third["tool_choice"] == "required"
    assert "response_format" not in second


async def test_a_server_that_can_do_nothing_gets_the_schema_in_words() -> None:
    async with ModelServer(Reply({"steps": []}), json_mode=False, tools=False) as server:
        deltas = await deltas_of(model_of(server), schema=SCHEMA)
        chat = server.chats[-1]
    assert text_of(deltas) == '{"steps": []}'
    assert [message["role"] for message in chat["messages"]] == ["system", "user"]
    assert json.dumps(SCHEMA, separators=(",", ":")) in chat["messages"][0]["content"]
    assert not {"tools", "response_format"} & chat.keys()


async def test_a_list_schema_never_becomes_a_tool_and_its_refusal_teaches_nothing() -> None:
    async with ModelServer(then="[]", json_mode=False) as server:
        model = model_of(server)
        await deltas_of(model, schema={"type": "array"})
        await deltas_of(model, schema=SCHEMA)
        first, second, third, *_ = server.chats
    assert "response_format" in first
    assert "tools" not in second
    assert "response_format" in third


async def test_a_refused_mode_that_was_demanded_says_how_to_relax() -> None:
    async with ModelServer(json_mode=False) as server:
        with pytest.raises(ModelRefused, match="set output to auto"):
            await deltas_of(model_of(server, output="json_schema"), schema=SCHEMA)


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(500, "tools param requires --jinja flag"),
        Refusal(422, "Unsupported tool_choice"),
        Refusal(501, "function calling is not implemented"),
    ],
)
async def test_servers_may_refuse_tools_in_their_own_words(refusal: Refusal) -> None:
    deltas = await heard(Refusal(400, "no grammar for you"), refusal, "{}", schema=SCHEMA)
    assert text_of(deltas) == "{}"


async def test_another_failure_is_no_refusal_of_a_mode() -> None:
    assert isinstance(await failure(Refusal(500, "out of memory"), schema=SCHEMA), ModelBusy)


# Failures


@pytest.mark.parametrize("status", [408, 429, 500, 529])
async def test_a_passing_failure_is_worth_another_try_but_not_by_the_library(status: int) -> None:
    async with ModelServer(Page('{"error": {"message": "later"}}', status=status)) as server:
        with pytest.raises(ModelBusy, match="later"):
            await deltas_of(model_of(server))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("wish", "least", "most"),
    [
        ("7", 7.0, 7.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0, 0.0),
        ("Wed, 21 Oct 2199 07:28:00 GMT", 1e9, 1e11),
    ],
)
async def test_a_providers_wish_to_wait_is_passed_on(wish: str, least: float, most: float) -> None:
    busy = await failure(Refusal(503, "slow down", retry_after=wish))
    assert isinstance(busy, ModelBusy)
    assert busy.retry_after is not None
    assert least <= busy.retry_after <= most


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (Refusal(400, "bad parameter"), "bad parameter"),
        (Refusal(401, "who are you"), "api_key"),
        (Refusal(403, "not for you"), "api_key"),
        (Refusal(404, "no such model", "model_not_found"), "base_url"),
        (Refusal(429, "you are broke", "insufficient_quota"), "top it up"),
        (Reply("I", finish="content_filter"), "content filter"),
    ],
)
async def test_a_lasting_failure_is_refused_with_what_to_do(refusal: Any, words: str) -> None:
    refused = await failure(refusal)
    assert isinstance(refused, ModelRefused)
    assert words in str(refused)


async def test_a_prompt_that_the_server_finds_too_long_is_no_matter_of_tools() -> None:
    words = "maximum context length is 10 tokens, you requested 20 in the functions"
    long = await failure(Refusal(400, words, "context_length_exceeded"), schema=SCHEMA)
    assert isinstance(long, PromptTooLong)


@pytest.mark.parametrize("ending", ["unfinished", "cut", "reset"])
async def test_an_answer_that_breaks_off_is_busy_and_never_done(ending: Any) -> None:
    async with ModelServer(Reply("half of it", ends=ending)) as server:
        deltas: list[Delta] = []
        with pytest.raises(ModelBusy, match="stopped before its end"):
            await listen(model_of(server), deltas)
    assert text_of(deltas) == "half of it"
    assert not any(isinstance(each, ModelDone) for each in deltas)


@pytest.mark.parametrize(
    "answer",
    [
        *(Reply("half", ends="malformed"), Reply("half", ends="error")),
        *(Page("<html>please log in</html>"), Page('{"choices": []}', "application/json")),
        *(Page("", SSE), Page("data: [DONE]\n\n", SSE), Page(b"data: \xff\xfe\n\n", SSE)),
        Page('data: {"choices": [{"delta": {"content": {"no": 1}}}]}\n\n', SSE),
    ],
)
async def test_what_is_no_chat_answer_is_busy(answer: Any) -> None:
    assert isinstance(await failure(answer), ModelBusy)


@pytest.mark.parametrize(
    "data", ["5", "null", '{"choices": 7}', '{"choices": [{"delta": {"tool_calls": [7]}}]}']
)
async def test_chunks_of_a_wrong_shape_fail_as_a_model_fails(data: str) -> None:
    assert "openai:test" in str(await failure(Page(f"data: {data}\n\n", SSE)))


async def test_a_server_that_is_not_there_is_busy_and_says_where_to_look() -> None:
    async with ModelServer() as server:
        url = server.url
    with pytest.raises(ModelBusy, match="check the base_url"):
        await deltas_of(ProviderModel("openai:test", base_url=url))


# Leaving


async def test_cancelling_the_caller_hangs_up() -> None:
    begun = asyncio.Event()

    async def begin(model: ProviderModel) -> None:
        async for _ in model.stream(Prompt(HELLO)):
            begun.set()

    async with ModelServer(Reply("one two three", chunk=4, gate=Gate(2))) as server:
        task = asyncio.create_task(begin(model_of(server)))
        async with asyncio.timeout(120):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.requests[0].left.wait()


def test_one_model_serves_several_event_loops() -> None:
    with ModelServer(then="ok").in_thread() as url:
        model = ProviderModel("openai:test", base_url=url)
        for _ in range(2):
            assert text_of(asyncio.run(deltas_of(model))) == "ok"


# Setting up


def test_nothing_heavy_is_imported_before_the_first_call() -> None:
    code = """
import sys
from plansmith_planner.models import provider, provider_output, wrappers
from plansmith_planner.models import tokens
provider.ProviderModel("nonsense", base_url="not a url").stream([])
heavy = {"pydantic_ai", "openai", "httpx", "httpx2", "genai_prices"} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("openai:gpt-5", {}, "set OPENAI_API_KEY"),
        ("deepseek:deepseek-chat", {}, "set DEEPSEEK_API_KEY"),
        ("nonsense", {}, "write provider:name"),
        ("nobody:model", {}, "write provider:name"),
        ("openai:", {"base_url": "http://127.0.0.1:9"}, "write provider:name"),
        ("deepseek:x", {"base_url": "http://127.0.0.1:9"}, "deepseek takes no base_url"),
    ],
)
async def test_a_model_that_is_not_set_up_says_what_to_set(
    spec: str, options: dict[str, Any], words: str
) -> None:
    model = ProviderModel(spec, **options)
    assert model.name == spec
    with pytest.raises(ModelRefused, match=words):
        await deltas_of(model)


async def test_a_server_of_ones_own_never_sees_the_key_of_openai(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with ModelServer("ok") as server:
        await deltas_of(model_of(server))
        assert "secret" not in server.requests[0].headers["authorization"]


async def test_key_and_address_may_both_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ModelServer("ok", key="mine") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "mine")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert text_of(await deltas_of(ProviderModel("openai:test"))) == "ok"


async def test_ollama_is_found_where_its_own_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer("ok") as server:
        monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
        monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
        assert text_of(await deltas_of(ProviderModel("ollama:qwen3"))) == "ok"


# Cost


async def test_a_server_that_keeps_its_counts_to_itself_leaves_the_cost_unknown() -> None:
    assert (await heard(Reply("ok", input_tokens=None)))[-1] == ModelDone(Usage(cost=None), "test")


async def test_the_limit_of_a_prompt_reaches_the_server() -> None:
    async with ModelServer("ok") as server:
        async for _ in model_of(server).stream(Prompt(HELLO, max_tokens=80)):
            pass
        [chat] = server.chats
    assert chat.get("max_completion_tokens", chat.get("max_tokens")) == 80


async def test_silence_ends_in_time() -> None:
    busy = await failure(Reply("half", ends="silent"), timeout_s=0.05)
    assert isinstance(busy, ModelBusy)
    assert "timeout_s" in str(busy)
