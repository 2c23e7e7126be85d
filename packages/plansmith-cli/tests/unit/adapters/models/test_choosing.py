"""Which model is taken where none is set: in order, briefly, and with the reasons."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.model_server import ModelServer, Reply
from tests.unit.adapters.models.little_servers import LLAMA_CPP, LM_STUDIO, OLLAMA, VLLM, serving

import plansmith_planner
from plansmith.errors import Misconfigured
from plansmith.ports import Message, Prompt
from plansmith.testing import ScriptedModel
from plansmith_desk.model.files import DEFAULT
from plansmith_desk.model.shelf import EmbeddedShelf
from plansmith_planner.model_calls import read_answer
from plansmith_planner.models.choose import (
    KEYS,
    AutoModel,
    Choice,
    Place,
    Tried,
    ask_servers,
    choose,
    choose_at,
    usual_places,
)

SHAPES = {
    "Ollama": ("/api/tags", OLLAMA, "openai:qwen3:8b"),
    "LM Studio": ("/api/v0/models", LM_STUDIO, "openai:granite-3b"),
    "llama.cpp": ("/v1/models", LLAMA_CPP, "openai:mistral.gguf"),
    "vLLM": ("/v1/models", VLLM, "openai:Qwen/Qwen3-8B"),
}


@pytest.fixture
def shelf(tmp_path: Path) -> EmbeddedShelf:
    return EmbeddedShelf(tmp_path / "models")


def dead_url() -> str:
    """An address of this machine at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def server(program: str, says: object = None) -> Generator[Place]:
    path, usual, _ = SHAPES[program]
    with serving(path, says=usual if says is None else says) as url:
        yield Place(program, url, path)


@pytest.mark.parametrize("program", SHAPES)
async def test_a_server_of_each_kind_is_found_with_a_model_that_chats(
    program: str, shelf: EmbeddedShelf
) -> None:
    with server(program) as place:
        choice = await choose({}, shelf=shelf, places=[place])
    assert (choice.kind, choice.model) == ("server", SHAPES[program][2])
    assert choice.base_url == f"{place.url}/v1"
    assert program in choice.why
    assert choice.tried[-1] == Tried("server", choice.model)


@pytest.mark.parametrize(
    ("says", "flaw"),
    [
        ({"object": "list", "data": []}, "has no model yet"),
        ({"data": [{"id": "bge-m3"}, {"id": "whisper-1"}]}, "has no model that chats"),
        ({"data": [{"id": "gpt-oss:120b-cloud"}, "odd", {"id": 7}]}, "has no model that chats"),
        ({"hello": "world"}, "not a model server"),
        ("<html>a web page</html>", "not a model server"),
    ],
)
async def test_a_server_without_a_usable_model_is_passed_by(says: object, flaw: str) -> None:
    with server("vLLM", says) as place:
        [found] = await ask_servers([place])
    assert (found.models, found.flaw) == ((), flaw)


async def test_dead_and_refusing_servers_are_passed_by_with_the_reason() -> None:
    with serving("/v1/models", says={}, status=401) as url:
        dead, refusing = await ask_servers([Place("llama.cpp", dead_url()), Place("vLLM", url)])
    assert (dead.flaw, refusing.flaw) == ("no server there", "answers with status 401")


async def test_a_silent_server_is_not_waited_for_longer_than_the_limit(
    shelf: EmbeddedShelf,
) -> None:
    with serving() as url, server("vLLM") as place:
        choice = await choose({}, shelf=shelf, places=[Place("llama.cpp", url), place], limit_s=0.3)
    assert choice.model == "openai:Qwen/Qwen3-8B"
    assert choice.tried[1].flaw == "said nothing within 0.3 s"


async def test_a_key_comes_before_a_server_and_names_its_model(shelf: EmbeddedShelf) -> None:
    environment = {"OPENROUTER_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    with server("Ollama") as place:
        choice = await choose(environment, shelf=shelf, places=[place])
    assert (choice.kind, choice.model) == ("key", "anthropic:claude-sonnet-5")
    assert choice.api_key_env == "ANTHROPIC_API_KEY"
    assert "ANTHROPIC_MODEL" in choice.why


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.variable)
async def test_every_key_is_good_for_a_model_that_can_be_named(
    key: object, shelf: EmbeddedShelf
) -> None:
    [known] = [each for each in KEYS if each is key]
    choice = await choose({known.variable: "k"}, shelf=shelf, places=[])
    assert choice.model == f"{known.provider}:{known.model}"
    named = {known.variable: "k", known.chosen_by: "another"}
    assert (await choose(named, shelf=shelf, places=[])).model == f"{known.provider}:another"
    assert (await choose({known.variable: "  "}, shelf=shelf, places=[])).kind == "rules"


async def test_a_server_comes_before_the_embedded_model_and_that_before_rules(
    shelf: EmbeddedShelf,
) -> None:
    shelf.folder.mkdir(parents=True)
    (shelf.folder / f"{DEFAULT}.gguf").write_bytes(b"GGUF")
    with server("LM Studio") as place:
        assert (await choose({}, shelf=shelf, places=[place])).kind == "server"
    choice = await choose({}, shelf=shelf, places=[Place("vLLM", dead_url())])
    assert (choice.kind, choice.model) == ("embedded", f"local:{DEFAULT}")
    (shelf.folder / f"{DEFAULT}.gguf").unlink()
    choice = await choose({}, shelf=shelf, places=[Place("vLLM", dead_url())])
    assert (choice.kind, choice.model) == ("rules", "rules")
    assert [each.kind for each in choice.tried] == ["key", "server", "embedded", "rules"]
    assert "model pull" in choice.shown


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0:7000", "http://127.0.0.1:7000"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ("[::1]:7000", "http://[::1]:7000"),
    ],
)
def test_ollama_is_looked_for_where_its_own_variable_says(host: str, url: str) -> None:
    ollama, *others = usual_places({"OLLAMA_HOST": host})
    assert ollama.url == url
    assert [each.url.rpartition(":")[2] for each in others] == ["1234", "8080", "8000"]


async def test_a_server_that_is_set_is_asked_for_its_model() -> None:
    with serving("/v1/models", says=VLLM) as url:
        choice = await choose_at(f"{url}/v1/")
        assert (choice.model, choice.base_url) == ("openai:Qwen/Qwen3-8B", f"{url}/v1/")
    with serving("/models", says=VLLM) as url:
        assert (await choose_at(url)).model == "openai:Qwen/Qwen3-8B"
    with pytest.raises(Misconfigured, match="no server there"):
        await choose_at(dead_url())


class Slow:
    """A choice that takes a while, and is counted."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: list[str] = []

    async def choose(self) -> Choice:
        self.count += 1
        await asyncio.sleep(0)
        return Choice("server", "openai:x", "it was there", "http://127.0.0.1:1/v1")

    def make(self, choice: Choice) -> ScriptedModel:
        return ScriptedModel("one", "two", name=choice.model)


async def test_nothing_is_chosen_before_it_is_needed_and_then_once() -> None:
    slow = Slow()
    model = AutoModel(slow.choose, slow.make, tell=slow.messages.append)
    assert (model.name, slow.count) == ("auto", 0)
    asked = [Message("user", "hello")]
    heard = await asyncio.gather(
        read_answer(model.stream(Prompt(asked))), read_answer(model.stream(Prompt(asked)))
    )
    assert sorted(each.text for each in heard) == ["one", "two"]
    assert (model.name, slow.count) == ("openai:x", 1)
    assert slow.messages == ["model: openai:x at http://127.0.0.1:1/v1 (it was there)"]


@pytest.mark.parametrize("name", ["openai:test", "auto"])
async def test_a_model_in_one_line_speaks_to_its_server(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
    async with ModelServer(Reply("good day"), key="k-1") as chats:
        model = plansmith_planner.model(name, base_url=chats.url, api_key="k-1", tries=1)
        heard = await read_answer(model.stream(Prompt([Message("user", "hello")])))
    assert heard.text == "good day"


@pytest.mark.parametrize(
    ("name", "options", "flaw"),
    [
        ("gpt-5", {}, "'gpt-5' is not the name of a model"),
        ("", {}, "model"),
        ("openai:gpt-5", {"tries": 0}, "tries"),
        ("openai:gpt-5", {"temprature": 1}, "temprature"),
        ("auto", {"api_key": "k-1"}, "no model"),
    ],
)
def test_a_model_in_one_line_that_cannot_be_made_says_why_at_once(
    name: str, options: dict[str, Any], flaw: str
) -> None:
    with pytest.raises(Misconfigured, match=flaw):
        plansmith_planner.model(name, **options)
