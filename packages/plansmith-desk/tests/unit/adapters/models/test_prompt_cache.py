"""The prompt cache: what was read is not read again, by another process or in a changed folder."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.adapters.models.toy_model import toy_weights

from plansmith.errors import PromptTooLong
from plansmith.ports import Message, Prompt
from plansmith_desk.model.engine import Engine, PromptCache, Slot
from plansmith_desk.model.model import LocalModel
from plansmith_planner.model_calls import read_answer

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
    model = LocalModel(lambda: own, name="local:small")
    answer = await asked(model, "", "How are you?")
    assert answer.progress
    own.close()
