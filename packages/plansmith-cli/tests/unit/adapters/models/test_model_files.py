"""Files of models: the commands that fetch, choose and check them, and what is prepared of them."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked
from tests.commands import Cli
from tests.unit.adapters.models.local_weights import small_weights
from tests.unit.adapters.models.test_local_weights import adapter
from tests.unit.adapters.models.toy_model import write_toy_model

from plansmith.ports import Message, Prompt
from plansmith_cli.main import main
from plansmith_desk.model import files
from plansmith_desk.model.engine import Engine, PromptCache
from plansmith_desk.model.files import (
    DEFAULT,
    KNOWN,
    Adapter,
    KnownModel,
    ModelFolder,
    NotPrepared,
    Pieces,
    Preparation,
    digest_of,
    folder_lock,
    preparation,
    weights_path,
)
from plansmith_desk.model.model import LocalModel
from plansmith_planner.model_calls import read_answer


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Types commands with an empty shelf on a machine without a network."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLANSMITH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return Cli(capsys)


def test_the_list_says_what_there_is_and_what_is_here(cli: Cli) -> None:
    result = cli.json("model list")
    assert [each["name"] for each in result["models"]] == list(KNOWN)
    assert not any(each["here"] for each in result["models"])
    out = cli("model list").out
    assert out.splitlines()[0].split()[:4] == [DEFAULT, "491.4", "MB", "Apache-2.0"]


def test_nothing_is_fetched_without_a_persons_word(cli: Cli, tmp_path: Path) -> None:
    told = cli("model pull smollm2-135m", code=4, err=("98.4 MB, licence Apache-2.0", "--yes"))
    assert told.out == ""
    assert not list((tmp_path / "models").glob("*.part"))


def test_a_model_is_pulled_checked_chosen_and_removed(cli: Cli, tmp_path: Path) -> None:
    file = small_weights()
    assert cli.json("model pull smollm2-135m --from", str(file))["here"]
    cli("model use smollm2-135m", code=0)
    found = cli.json("model check")
    assert (found["ok"], found["hash_right"]) == (True, True)
    assert found["answer"] in ("yes", "no")
    cli("model remove smollm2-135m", code=0, out="removed smollm2-135m: 98.4 MB\n")
    assert file.exists()
    cli("model remove smollm2-135m", code=2)
    cli("model check", code=2)


def test_a_damaged_model_does_not_pass(cli: Cli, tmp_path: Path) -> None:
    shelf = tmp_path / "models"
    shelf.mkdir()
    (shelf / "smollm2-135m.gguf").write_bytes(b"GGUF, or so it says")
    cli("model check smollm2-135m", code=2, err="damaged")


def test_a_file_of_ones_own_is_used_by_its_path(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    assert cli.json("model use mine.gguf") == {"chosen": str(tmp_path / "mine.gguf")}
    found = cli.json("model check", code=1)
    assert (found["ok"], found["hash_right"]) == (False, None)
    assert "cannot be loaded" in found["flaw"]
    cli("model use other.gguf", code=2)
    cli("model use gpt-9", code=2)


ASKED = [Message("system", "the"), Message("user", "total")]
# A process of its own: tells what it does; waits for a line after each message if told so.
PROCESS = """
import pickle, resource, signal, sys
prepared = pickle.loads(bytes.fromhex(sys.argv[1]))
if sys.argv[2] == "small":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
def tell(text):
    print(text, flush=True)
    if sys.argv[2] == "slow":
        sys.stdin.readline()
try:
    prepared.make(tell, threads=1)
    print("made")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A known model with an adapter that the package ships, in a folder of its own."""
    models = tmp_path / "models"
    models.mkdir()
    monkeypatch.setenv("PLANSMITH_MODELS", str(models))
    monkeypatch.setattr(files, "_ADAPTERS", tmp_path)
    path = write_toy_model(models / "toy.gguf")
    over = adapter(tmp_path / "shipped.gguf")
    model = KnownModel(
        name="toy",
        about="for tests",
        size=path.stat().st_size,
        sha256=digest_of(path),
        licence="Apache-2.0",
        context=512,
        pieces=Pieces((), "", 1),
        adapter=Adapter("shipped.gguf", over.stat().st_size, digest_of(over)),
    )
    monkeypatch.setitem(KNOWN, "toy", model)
    return model


def wanted(name: str = "toy") -> Preparation:
    models = ModelFolder()
    found = preparation(weights_path(name, models), models)
    assert found is not None
    return found


def made(prepared: Preparation) -> list[str]:
    messages: list[str] = []
    assert prepared.make(messages.append, threads=1) == prepared.path
    return messages


def others(prepared: Preparation) -> set[str]:
    """The files of the folder beside the prepared one, its note, the model and the lock."""
    known = {prepared.path.name, f"{prepared.path.name}.checked", "toy.gguf", "toy.gguf.checked"}
    return {each.name for each in prepared.folder.iterdir()} - known - {"prepare.sqlite3"}


def process(prepared: Preparation, how: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, pickle.dumps(prepared).hex(), how]
    return forked.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_file_is_prepared_once_with_progress_and_used_from_then_on(toy: KnownModel) -> None:
    prepared = wanted()
    messages = made(prepared)
    assert messages[0].startswith("preparing toy for this machine, once: ")
    assert messages[-1].endswith("100 %")
    assert prepared.path.stat().st_size < toy.size
    assert made(prepared) == []
    assert others(prepared) == set()


def test_a_prepared_file_that_was_changed_is_made_anew(toy: KnownModel) -> None:
    prepared = wanted()
    made(prepared)
    before = prepared.path.read_bytes()
    prepared.path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    assert not prepared.is_right()
    assert made(prepared)
    assert prepared.path.read_bytes() == before
    prepared.path.write_bytes(before[:1000])
    assert made(prepared)
    assert prepared.path.read_bytes() == before


def test_of_two_processes_one_prepares_the_file_and_the_other_waits(toy: KnownModel) -> None:
    prepared = wanted()
    with folder_lock(prepared.folder, "prepare"):
        both = [process(prepared) for _ in range(2)]
        firsts = [each.stdout.readline() for each in both if each.stdout]
    assert firsts == ["waiting for another process that prepares toy\n"] * 2
    outputs = [each.communicate(timeout=60)[0] for each in both]
    assert all(each.endswith("made\n") for each in outputs)
    assert sum("preparing toy" in each for each in outputs) == 1
    assert others(prepared) == set()


def test_a_process_killed_while_it_prepares_leaves_no_half_file(toy: KnownModel) -> None:
    prepared = wanted()
    killed = process(prepared, "slow")
    assert killed.stdout is not None
    assert "preparing toy" in killed.stdout.readline()
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not prepared.path.exists()
    assert not prepared.is_right()
    assert made(prepared)
    assert others(prepared) == set()


def test_on_a_full_disk_nothing_is_prepared_and_nothing_is_left(toy: KnownModel) -> None:
    prepared = wanted()
    output = process(prepared, "small").communicate(timeout=60)[0]
    assert f"NotPrepared {prepared.path} cannot be written" in output
    assert not prepared.path.exists()
    assert others(prepared) == set()


def engine_of(prepared: Preparation, cache: PromptCache | None = None) -> Engine:
    base = ModelFolder().path(prepared.model)
    return Engine(
        base, context=256, threads=1, cache=cache, adapter=prepared.adapter, preparation=prepared
    )


def heard(engine: Engine) -> list[str]:
    """What the engine tells before and while it reads the start of prompts and answers."""

    async def ask() -> list[str]:
        model = LocalModel(lambda: engine, name="local:toy")
        lines = [each.progress async for each in model.prime([ASKED[0], Message("user", "")])]
        await read_answer(model.constrained(Prompt(ASKED), grammar='root ::= "a" | "b"\n'))
        return lines

    try:
        return asyncio.run(ask())
    finally:
        engine.close()


def test_the_engine_prepares_its_file_tells_it_and_names_states_by_it(
    toy: KnownModel, tmp_path: Path
) -> None:
    prepared, cache = wanted(), PromptCache(tmp_path / "states")
    engine = engine_of(prepared, cache)
    assert any("preparing toy" in each for each in heard(engine))
    assert (engine.path, engine.adapter) == (prepared.path, None)
    states = {each.name for each in cache.folder.glob("*.state")}
    again = engine_of(prepared, cache)
    assert not any("preparing" in each for each in heard(again))
    assert {each.name for each in cache.folder.glob("*.state")} == states
    heard(Engine(ModelFolder().path(toy), context=256, threads=1, cache=cache))
    assert len({each.name for each in cache.folder.glob("*.state")}) == len(states) + 1


def test_the_engine_works_with_the_adapter_where_nothing_can_be_written(toy: KnownModel) -> None:
    prepared = wanted()
    (prepared.folder / "prepare.sqlite3").mkdir()  # what cannot be written, even by root
    with pytest.raises(NotPrepared, match="cannot be written"):
        prepared.make(lambda _: None, threads=1)
    engine = engine_of(prepared, PromptCache(prepared.folder / "states"))
    assert any(each.startswith("the model works, only slower: ") for each in heard(engine))
    assert engine.adapter == prepared.adapter


def test_the_commands_know_the_prepared_file(
    toy: KnownModel, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared = wanted()

    def output_of(*words: str, main: Callable[[list[str]], int] = main) -> str:
        capsys.readouterr()
        assert main(["model", *words]) == 0
        return capsys.readouterr().out

    assert "prepared" not in output_of("list")
    made(prepared)
    assert "prepared for this machine" in output_of("list")
    assert f"{prepared.path}: its hash is right" in output_of("check", "toy")
    output_of("remove", "toy")
    assert [each.name for each in prepared.folder.glob("*.gguf*")] == []


def test_a_prepared_file_without_a_note_of_its_hash_is_not_trusted(toy: KnownModel) -> None:
    prepared = wanted()
    prepared.path.write_bytes(b"GGUF, or so it says")
    assert made(prepared)
    assert prepared.is_right(anew=True)
