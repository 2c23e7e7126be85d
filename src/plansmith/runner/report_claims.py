"""Claims: the passages of an answer, the steps each names, and names that do not hold."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from plansmith.plan.run import Run, StepStatus

CITATION: Final = re.compile(r"\[step:\s*([^\[\]\n]{1,400})\]")
Flaw = Literal["unknown", "undone", "unseen"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A passage, without its citations, and the finished steps it rests on."""

    text: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer whose citations all hold, its claims, and those citations that did not."""

    text: str
    claims: tuple[Claim, ...]
    wrong: tuple[tuple[str, Flaw], ...] = ()

    @property
    def uncited(self) -> int:
        """How many passages name no step, if any passage does."""
        cited = sum(bool(claim.steps) for claim in self.claims)
        return len(self.claims) - cited if cited or self.wrong else 0


def check_claims(text: str, run: Run, seen: Collection[str]) -> Checked:
    """An answer without citations of steps that do not exist, did not finish or were not seen."""
    wrong: dict[str, Flaw] = {}

    def kept(found: re.Match[str]) -> str:
        good: list[str] = []
        for name in _names(found[1]):
            flaw = _flaw(name, run, seen)
            if flaw is None:
                good.append(name)
            else:
                wrong.setdefault(name, flaw)
        return "".join(f"[step:{name}]" for name in good)

    checked = CITATION.sub(kept, text)
    claims = tuple(_claim(each) for each in _passages(checked) if _says_something(each))
    return Checked(checked, claims, tuple(wrong.items()))


def _passages(text: str) -> list[str]:
    """The lines of a text; a table is one passage, and what stands below a bullet belongs to it."""
    passages: list[str] = []
    before = ""
    for line in text.splitlines():
        in_table = line.startswith("|") and before.startswith("|")
        below = line.startswith(" ") and before.lstrip().startswith("- ")
        if passages and (in_table or below):
            passages[-1] += f"\n{line}"
        else:
            passages.append(line)
        before = line
    return passages


def _names(cited: str) -> list[str]:
    parts = (part.strip().removeprefix("step:").strip() for part in cited.split(","))
    return [part for part in parts if part]


def _flaw(name: str, run: Run, seen: Collection[str]) -> Flaw | None:
    if name not in run.steps:
        return "unknown"
    if run.steps[name].status is not StepStatus.DONE:
        return "undone"
    return None if name.partition("/")[0] in seen else "unseen"


def _claim(line: str) -> Claim:
    steps = dict.fromkeys(name for found in CITATION.findall(line) for name in _names(found))
    return Claim(" ".join(CITATION.sub("", line).split()), tuple(steps))


def _says_something(line: str) -> bool:
    """Whether a line is a statement: not a title, not a ruler, not empty."""
    bare = CITATION.sub("", line).strip()
    return any(letter.isalnum() for letter in bare) and not bare.startswith("#")
