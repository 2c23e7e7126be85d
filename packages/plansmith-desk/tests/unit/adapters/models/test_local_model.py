"""The embedded model really runs: streams, stops, queues, keeps to grammars and its context."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.unit.adapters.models.local_weights import FOLDER, SMALL, small_engine, small_weights
from tests.unit.adapters.models.test_local_weights import adapter as write_adapter
from tests.unit.adapters.models.toy_model import toy_engine, toy_weights

from plansmith.errors import Misconfigured, ModelFailed, PromptTooLong
from plansmith.ports import ChatModel, Message, ModelDone, Prompt, TextDelta
from plansmith.testing.contracts import ChatModelContract
from plansmith_desk.model import files
from plansmith_desk.model.embedded import embedded_model
from plansmith_desk.model.engine import Engine, PromptCache, shared_engine
from plansmith_desk.model.files import KNOWN, Adapter, ModelFolder, weights_path
from plansmith_desk.model.model import LocalModel
from plansmith_planner.model_calls import read_answer

HELLO = [Message("user", "Say hello.")]
NUMBERS = "root ::= [0-9]{12}\n"


def toy(**fields: Any) -> LocalModel:
    return LocalModel(toy_engine, name="local:small", **fields)


async def answer_of(grammar: str, **fields: Any) -> str:
    return (await read_answer(toy(**fields).constrained(Prompt(HELLO), grammar=grammar))).text


class TestContract(ChatModelContract):
    def make_model(self) -> ChatModel:
        # Nonsense has no end: only here the model has to find one by itself.
        return LocalModel(small_engine, name="local:small", max_tokens=200)


async def test_a_schema_binds_every_token_of_the_answer() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "colour": {"enum": ["red", "green"]},
            "count": {"type": "integer"},
            "day": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        },
        "required": ["colour", "count", "day"],
    }
    answer = await read_answer(toy().stream(Prompt([Message("user", "灯")], schema=schema)))
    jsonschema_rs.validate(schema, json.loads(answer.text))


async def test_text_arrives_piece_by_piece_and_no_start_of_a_prompt_is_read_twice() -> None:
    rules = Message("system", "You answer with digits. " * 12)
    prompt = Prompt([rules, HELLO[0]])
    pieces = [each async for each in toy().constrained(prompt, grammar=NUMBERS)]
    texts = [each.text for each in pieces if isinstance(each, TextDelta) and each.text]
    assert len(texts) > 3
    assert len("".join(texts)) == 12
    done = pieces[-1]
    assert isinstance(done, ModelDone)
    assert done.usage.output_tokens > 3
    assert done.usage.input_tokens > 10
    assert done.usage.cost == Decimal(0)
    again = [rules, Message("user", "And now another question.")]
    second = await read_answer(toy().constrained(Prompt(again), grammar='root ::= "2"\n'))
    assert second.text == "2"
    assert second.usage.cached_tokens > 40
    assert second.usage.input_tokens - second.usage.cached_tokens < 40


async def test_an_answer_that_is_left_stops_the_engine() -> None:
    stream = toy().constrained(Prompt(HELLO), grammar="root ::= [0-9]{600}\n")
    async for piece in stream:
        if isinstance(piece, TextDelta) and piece.text:
            break
    await stream.aclose()
    # Had it gone on, this one would wait for hundreds of tokens and then be cut.
    assert await answer_of('root ::= "ok"\n') == "ok"


async def test_a_call_that_waits_in_line_can_be_left_too() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold(_: dict[str, Any]) -> bool:
        inside.set()
        go_on.wait(30)
        return True

    engine = toy_engine()
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "stream": True}
    busy = engine.submit(body, hold)
    await asyncio.to_thread(inside.wait, 30)
    waiting = asyncio.ensure_future(answer_of(NUMBERS))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await asyncio.wrap_future(busy)
    assert await answer_of('root ::= "ok"\n') == "ok"


async def test_concurrent_calls_take_turns_and_mix_nothing_up() -> None:
    texts = await asyncio.gather(*(answer_of(f'root ::= "{n}" [a-c]{{4}}\n') for n in range(4)))
    assert [text[0] for text in texts] == ["0", "1", "2", "3"]
    assert {len(text) for text in texts} == {5}


async def test_what_does_not_fit_has_no_end_or_no_grammar_is_told() -> None:
    with pytest.raises(PromptTooLong, match=r"the prompt has \d,\d{3} tokens.*model 2,048"):
        await read_answer(toy().stream(Prompt([Message("user", "word " * 1500)])))
    with pytest.raises(ModelFailed, match="stopped after 5 tokens"):
        await answer_of("root ::= [a-z]{300}\n", max_tokens=5)
    with pytest.raises(ModelFailed, match="grammar"):
        await answer_of("root ::= nowhere\n")


@pytest.mark.parametrize("damage", ["cut off", "no weights"])
async def test_a_file_that_is_no_model_is_told(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "bad.gguf"
    start = toy_weights().read_bytes()[:-10_000]
    file.write_bytes(start if damage == "cut off" else b"hello")
    engine = Engine(file, context=256, threads=1)
    with pytest.raises(ModelFailed, match="cannot be loaded"):
        await read_answer(LocalModel(lambda: engine, name="bad").stream(Prompt(HELLO)))


async def test_memory_can_be_let_go_and_taken_again() -> None:
    path = toy_weights()
    engine = shared_engine(path, 256)
    assert shared_engine(path.parent / "." / path.name, 256) is engine
    model = LocalModel(lambda: engine, name="local:small")
    loaded = [engine.is_loaded]
    for letter in "ab":
        answer = await read_answer(
            model.constrained(Prompt(HELLO), grammar=f'root ::= "{letter}"\n')
        )
        assert answer.text == letter
        loaded.append(engine.is_loaded)
        engine.close()
        loaded.append(engine.is_loaded)
    assert loaded == [False, True, False, True, False]


async def test_a_model_that_is_not_here_is_told_at_its_first_call(tmp_path: Path) -> None:
    model = embedded_model("smollm2-135m", folder=tmp_path)
    assert model.name == "local:smollm2-135m"
    with pytest.raises(Misconfigured, match="plansmith model pull smollm2-135m"):
        await read_answer(model.stream(Prompt([Message("user", "hi")])))


def test_a_process_that_ends_in_the_middle_of_an_answer_ends() -> None:
    code = f"""
import asyncio
from plansmith_desk.model.embedded import embedded_model
from plansmith.ports import Message, Prompt
async def main():
    async for piece in embedded_model({str(toy_weights())!r}, context=512).stream(
        Prompt(
            [Message("user", "Count to a thousand.")], schema={{"type": "array", "minItems": 200}}
        )
    ):
        if piece.text:
            raise SystemExit(7)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 7, done.stderr


@pytest.fixture(scope="module", autouse=True)
def let_go() -> Iterator[None]:
    yield
    toy_engine().close()
    if FOLDER.exists():
        small_engine().close()


_MOST_SHIPPED = 20_000_000
ASKED = [Message("system", "Answer."), Message("user", "How are you?")]
LETTERS = "root ::= [a-z]{10}\n"


def answered(engine: Engine) -> str:
    async def ask() -> str:
        model = LocalModel(lambda: engine, name="local:small")
        _ = [each async for each in model.prime([ASKED[0], Message("user", "")])]
        answer = await read_answer(model.constrained(Prompt(ASKED), grammar=LETTERS))
        return answer.text

    try:
        return asyncio.run(ask())
    finally:
        engine.close()


def test_an_adapter_changes_what_the_model_writes_and_has_states_of_its_own(
    tmp_path: Path,
) -> None:
    cache = PromptCache(tmp_path / "states")
    loud = write_adapter(tmp_path / "loud.gguf")
    answers = [
        answered(Engine(toy_weights(), context=256, threads=2, cache=cache, adapter=each))
        for each in (None, loud, loud)
    ]
    assert answers[0] != answers[1] == answers[2]
    assert len(list(cache.folder.glob("*.state"))) == 2


def test_an_adapter_that_does_not_fit_its_model_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF nothing")
    engine = Engine(toy_weights(), context=256, threads=1, adapter=bad)
    with pytest.raises(ModelFailed, match=r"with the adapter .*bad.gguf cannot be loaded"):
        answered(engine)


def test_every_known_adapter_is_in_the_package_whole_and_small() -> None:
    for model in KNOWN.values():
        if model.adapter is not None:
            assert model.adapter.find().stat().st_size == model.adapter.size <= _MOST_SHIPPED


def test_a_missing_or_changed_adapter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ADAPTERS", tmp_path)
    path = tmp_path / "a.gguf"
    adapter = Adapter("a.gguf", 3, hashlib.sha256(b"abc").hexdigest())
    with pytest.raises(Misconfigured, match="is missing"):
        adapter.find()
    path.write_bytes(b"abd")
    with pytest.raises(Misconfigured, match="damaged"):
        adapter.find()
    path.write_bytes(b"abc")
    small_weights()
    monkeypatch.setitem(KNOWN, SMALL.name, replace(SMALL, adapter=adapter))
    assert weights_path(SMALL.name, ModelFolder(FOLDER)).adapter == path


def test_an_adapter_file_can_be_named_beside_its_model(tmp_path: Path) -> None:
    toy = write_adapter(tmp_path / "toy.gguf")
    path = small_weights()
    found = weights_path(f"{SMALL.name}+{toy}", ModelFolder(FOLDER))
    assert (found.path, found.adapter) == (path, toy)
    assert weights_path(f"{path}+{toy}", ModelFolder(FOLDER)).adapter == toy
    assert embedded_model(f"{SMALL.name}+{toy}").name == f"local:{SMALL.name}+{toy}"
    with pytest.raises(Misconfigured, match="there is no file"):
        weights_path(f"{SMALL.name}+{tmp_path}/none.gguf", ModelFolder(FOLDER))
    odd = tmp_path / "a+b.gguf"  # a file with a plus in its name is a file
    odd.write_bytes(b"x")
    assert weights_path(str(odd), ModelFolder(tmp_path)) == (odd, None, None)
