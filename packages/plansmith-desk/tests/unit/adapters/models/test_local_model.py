"""The embedded model really runs: streams, stops, keeps to grammars, knows what it has read."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from tests.unit.adapters.models.local_weights import FOLDER, SMALL, small_engine, small_weights
from tests.unit.adapters.models.test_local_weights import adapter as write_adapter
from tests.unit.adapters.models.toy_model import random_texts, toy_engine, toy_weights

from plansmith.errors import Misconfigured, ModelFailed, PromptTooLong
from plansmith.formats.native import schema as plan_schema
from plansmith.ports import ChatModel, Message, ModelDone, Prompt, TextDelta
from plansmith.testing.contracts import ChatModelContract
from plansmith_desk.model import files, grammar
from plansmith_desk.model.embedded import embedded_model
from plansmith_desk.model.engine import Engine, PromptCache, Slot, shared_engine
from plansmith_desk.model.files import KNOWN, Adapter, ModelFolder, weights_path
from plansmith_desk.model.model import LocalModel
from plansmith_planner.model_calls import read_answer
from plansmith_planner.triage import SCHEMA as TRIAGE

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


_MAX_SHIPPED = 20_000_000
ASKED = [Message("system", "Answer."), Message("user", "How are you?")]
LETTERS = "root ::= [a-z]{10}\n"


def answered(engine: Engine) -> str:
    async def ask() -> str:
        model = LocalModel(lambda: engine, name="local:small")
        _ = [each async for each in model.prime([ASKED[0], Message("user", "")])]
        return (await read_answer(model.constrained(Prompt(ASKED), grammar=LETTERS))).text

    try:
        return asyncio.run(ask())
    finally:
        engine.close()


def test_an_adapter_changes_what_the_model_writes_and_has_states_of_its_own(tmp_path: Path) -> None:
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
            assert model.adapter.find().stat().st_size == model.adapter.size <= _MAX_SHIPPED


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


def texts(schema: Any, count: int = 8) -> list[str]:
    found = random_texts(grammar.grammar_of(schema), count)
    assert found
    return found


def check(schema: Any, count: int = 8) -> list[Any]:
    validator = jsonschema_rs.validator_for(shape(schema))
    values = [json.loads(text) for text in texts(schema, count)]
    for value in values:
        validator.validate(value)
    return values


LEFT_TO_THE_CHECKER = {"pattern", "minLength", "maxLength", "minimum", "maximum"}


def shape(schema: Any) -> Any:
    """A schema without what only the checker looks at."""
    if isinstance(schema, dict):
        kept = {key: each for key, each in schema.items() if key not in LEFT_TO_THE_CHECKER}
        return {key: shape(each) for key, each in kept.items()}
    return [shape(each) for each in schema] if isinstance(schema, list) else schema


def obj(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": obj(
            ("name",),
            name={"type": "string"},
            children={"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
        )
    },
}
SCHEMAS: dict[str, Any] = {
    "anything": {},
    "text": {"type": "string"},
    "enum": {"enum": ["a", 'quo"te', "back\\slash", 3, None, True, "中文"]},
    "const": {"const": {"a": [1, "x"]}},
    "two types": {"type": ["string", "null"]},
    "list": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    "empty list": {"type": "array", "maxItems": 0},
    "pair": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "minItems": 2,
    },
    "old pair": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "string"}, {"type": "boolean"}],
    },
    "required last": obj(
        ("b", "d"), a={"type": "string"}, b={}, c={"type": "null"}, d={"const": 1}
    ),
    "all optional": obj(a={"type": "string"}, b={"type": "integer"}, c={"type": "boolean"}),
    "required unnamed": {"type": "object", "required": ["x"]},
    "closed and empty": {"type": "object", "additionalProperties": False},
    "table": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
    "any of": {"anyOf": [{"type": "string"}, obj(("k",), k={"enum": ["v"]})]},
    "one of": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    "all of": {"allOf": [obj(("a",), a={"type": "string"}), obj(("b",), b={"type": "integer"})]},
    "tree": TREE,
    "root ref": obj(next={"$ref": "#"}, v={"type": "integer"}),
    "pointer": {
        "properties": {"a/b": {"type": "integer"}, "c": {"$ref": "#/properties/a~1b"}},
        "type": "object",
    },
    "plan": plan_schema(),
    "triage": TRIAGE,
    "day": {"type": "string", "format": "date"},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_a_grammar_allows_is_valid(name: str) -> None:
    check(SCHEMAS[name])


def test_optional_fields_come_and_go_and_required_ones_stay() -> None:
    values = check(obj(("b",), a={"type": "boolean"}, b={"type": "null"}, c={"type": "null"}), 60)
    assert {tuple(value) for value in values} == {("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")}


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/nowhere"}, {"$ref": "https://example.org/x"}, {"type": "strange"}, {"type": []}],
)
def test_what_is_not_understood_may_be_anything(schema: Any) -> None:
    for text in texts(schema):
        json.loads(text)


SYSTEM = Message("system", "You answer with digits. " * 8)
ONE = 'root ::= "1"\n'


class PrimedAnswer(NamedTuple):
    """What one process told while it read a start, and how many tokens its answer knew."""

    progress: list[str]
    known: int


async def asked(model: LocalModel, start: str, request: str) -> PrimedAnswer:
    primed = [each.progress async for each in model.prime([SYSTEM, Message("user", start)])]
    progress = [text for text in primed if not text.startswith("loading")]
    prompt = Prompt([SYSTEM, Message("user", start + request)])
    answer = await read_answer(model.constrained(prompt, grammar=ONE))
    assert answer.text == "1"
    return PrimedAnswer(progress, answer.usage.cached_tokens)


def engine(cache: PromptCache) -> Engine:
    return Engine(toy_weights(), context=512, threads=2, cache=cache)


def in_process(cache: PromptCache, *starts: str) -> list[PrimedAnswer]:
    """Asks in one folder after another, with an engine of its own as a new process has."""

    async def ask() -> list[PrimedAnswer]:
        model = LocalModel(lambda: own, name="local:small")
        return [await asked(model, start, "How are you?") for start in starts]

    own = engine(cache)
    try:
        return asyncio.run(ask())
    finally:
        own.close()


def states(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.state"))


def test_a_start_that_was_read_is_remembered_by_the_next_process_unless_it_is_damaged(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "states"
    folder.mkdir(mode=0o755)
    cache = PromptCache(folder)
    (first,) = in_process(cache, "")
    (state,) = states(folder)
    # Nobody else may read what is in private folders.
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    size = state.stat().st_size
    (second,) = in_process(cache, "")
    state.write_bytes(state.read_bytes()[:1000])
    (third,) = in_process(cache, "")
    assert first.known == second.known == third.known > 30
    assert not second.progress
    assert third.progress
    assert state.stat().st_size == size
    assert sorted(each.suffix for each in folder.iterdir()) == [".json", ".state"]


FILES = "Folder:\na.csv: day (1), amount (2)\nb.csv: name (x, y)\n"


def test_a_changed_folder_is_read_from_its_first_changed_line_on(tmp_path: Path) -> None:
    cache = PromptCache(tmp_path)
    (whole,) = in_process(cache, FILES)
    changed = in_process(cache, FILES + "c.csv: n (1)\n", FILES + "c.csv: n (1)\nd.csv\n")
    unread = [int(each.progress[-1].split()[-2]) for each in (whole, *changed)]
    assert unread[0] > unread[1] > unread[2] > 0
    assert len(states(tmp_path)) == 3


def test_folders_asked_about_in_turn_are_each_known_whatever_was_read_between(
    tmp_path: Path,
) -> None:
    other = "Folder:\nnotes.txt: What to buy\n" * 3
    answers = in_process(PromptCache(tmp_path), FILES, other, FILES, other)
    assert [bool(each.progress) for each in answers] == [True, True, False, False]
    assert answers[2].known >= answers[0].known
    assert answers[3].known >= answers[1].known


class FakeFiles(Slot):
    """A runtime's slot whose states are a few bytes in a folder."""

    def __init__(self, folder: Path, size: int = 10, *, full: bool = False) -> None:
        super().__init__("", "")
        self._folder = folder
        self._size = size
        self._full = full
        self.restored: list[str] = []

    def act(self, action: str, file: str) -> bool:
        if action == "restore":
            self.restored.append(file)
            return (self._folder / file).is_file()
        if not self._full:
            (self._folder / file).write_bytes(b"x" * self._size)
        return not self._full


def aged(folder: Path, seconds: float) -> None:
    """Makes everything in a folder older."""
    for each in folder.iterdir():
        last = each.stat().st_mtime - seconds
        os.utime(each, (last, last))


def kept(folder: Path) -> set[str]:
    return {json.loads(each.read_text())["prompt"] for each in folder.glob("*.json")}


def fill(cache: PromptCache, prompts: Sequence[str]) -> None:
    for prompt in prompts:
        cache.keep("maker", prompt, FakeFiles(cache.folder))
        aged(cache.folder, 10)


def test_the_least_used_states_and_what_lost_processes_left_are_deleted(tmp_path: Path) -> None:
    cache = PromptCache(tmp_path, most_kept=3)
    fill(cache, ["a", "b", "c"])
    assert cache.restore("maker", "a", FakeFiles(tmp_path)) == "a"
    left = [tmp_path / name for name in ("m-1.77.new", "0123.state", "0123.sha256")]
    for each in left:
        each.write_text("x")
    fill(cache, ["d"])
    assert kept(tmp_path) == {"a", "c", "d"}
    assert all(each.exists() for each in left)  # another process may be writing them
    aged(tmp_path, 7200)
    fill(PromptCache(tmp_path, most_bytes=25), ["e", "f"])
    assert kept(tmp_path) == {"e", "f"}
    assert {each.suffix for each in tmp_path.iterdir()} == {".state", ".json"}
    fill(PromptCache(tmp_path, most_bytes=5), ["g"])
    assert kept(tmp_path) == {"g"}  # the newest is always kept


@pytest.mark.parametrize("damage", ["flipped", "no facts", "other facts", "deleted"])
def test_a_damaged_state_never_reaches_the_runtime(tmp_path: Path, damage: str) -> None:
    cache, slot = PromptCache(tmp_path), FakeFiles(tmp_path)
    fill(cache, ["start"])
    (state,) = states(tmp_path)
    if damage == "flipped":
        state.write_bytes(b"y" * 10)
    elif damage == "deleted":  # by another process, meanwhile
        state.unlink()
    else:
        state.with_suffix(".json").write_text("[" if damage == "no facts" else '["start"]')
    assert cache.restore("maker", "start folder", slot) == ""
    assert slot.restored == []
    cache.keep("maker", "start", FakeFiles(tmp_path, full=True))
    assert cache.restore("maker", "start folder", slot) == ""
    fill(cache, ["start"])
    assert cache.restore("maker", "start folder", slot) == "start"


def test_a_state_of_other_weights_or_one_that_says_no_more_is_not_restored(tmp_path: Path) -> None:
    cache, slot = PromptCache(tmp_path), FakeFiles(tmp_path)
    fill(cache, ["start folder"])
    assert cache.restore("another", "start folder", slot) == ""
    assert cache.restore("maker", "start folder", slot, known=12) == ""
    assert slot.restored == []
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"1")
    before = cache.maker(weights, "", "1.0")
    os.utime(weights, (time.time(), 1))
    makers = {before, cache.maker(weights, "", "1.0"), cache.maker(weights, "ab", "1.0")}
    assert len({*makers, cache.maker(weights, "", "1.1")}) == 4


async def test_a_start_that_is_too_long_for_the_context_leaves_no_state(tmp_path: Path) -> None:
    own = engine(PromptCache(tmp_path))
    model = LocalModel(lambda: own, name="local:small")
    with pytest.raises(PromptTooLong):
        async for _ in model.prime([SYSTEM, Message("user", "word " * 600)]):
            pass
    own.close()
    assert not states(tmp_path)


async def test_a_model_answers_where_no_state_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "states").touch()  # a file: as on a disk on which no folder can be made
    own = engine(PromptCache(tmp_path / "states"))
    answer = await asked(LocalModel(lambda: own, name="local:small"), "", "How are you?")
    assert answer.progress
    own.close()
