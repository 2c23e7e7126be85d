"""Says things in many ways: chooses templates by part, adds manners, case and slips."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeVar

from lab.training.rows.domains import Part
from lab.training.rows.row import Lang
from lab.training.rows.tables import stem
from lab.training.rows.texts import texts

T = TypeVar("T")
_EVERY: Final = 7
_KEPT: Final = 3
_ENOUGH: Final = 6  # shorter lists of templates serve both parts
_TABLES: Final = (".csv", ".tsv", ".json", ".jsonl")
NUMBER_WORDS: Final = {
    "en": dict(
        enumerate(
            ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
        )
    ),
    "zh": dict(enumerate("零一两三四五六七八九十")),
}


class Voice:
    """How one request is spoken."""

    def __init__(self, rng: Random, lang: Lang, part: Part) -> None:
        self.rng = rng
        self.lang: Lang = lang
        self.part: Part = part
        self.lower = lang == "en" and rng.random() < 0.16
        self.kept: list[str] = []  # what no slip may change

    @property
    def is_zh(self) -> bool:
        return self.lang == "zh"

    def pick(self, ways: Sequence[T]) -> T:
        """Chooses a way of this part: a seventh of each longer list is only validated on."""
        if len(ways) >= _ENOUGH:
            held = self.part == "validation"
            ways = [way for place, way in enumerate(ways) if (place % _EVERY == _KEPT) == held]
        return self.rng.choice(ways)

    def either(self, en: Sequence[T], zh: Sequence[T]) -> T:
        """Chooses one of the ways of this language."""
        return self.pick(zh if self.is_zh else en)

    def say(self, book: str, kind: str, /, **slots: Any) -> str:
        """Fills a template of a data file."""
        return self.fill(self.pick(texts(book)[kind, self.lang]), **slots)

    def fill(self, template: str, /, **slots: Any) -> str:
        """Fills a template with its slots."""
        text = template
        for name, value in slots.items():
            text = text.replace(f"{{{name}}}", str(value))
        text = self.tidy(text)
        return text[:1].upper() + text[1:] if template[:1] == "{" and not self.is_zh else text

    def tidy(self, text: str) -> str:
        """Mends spaces and what slots left behind."""
        text = re.sub(r"\s+", " ", text).strip()
        text = re.sub(r"\s+([?.!,:)])(?!\w)", r"\1", text)
        return text.replace("的的", "的") if self.is_zh else text

    def exact(self, value: str) -> str:
        """Returns a value as this request writes it, kept from slips."""
        said = value.lower() if self.lower else value
        self.kept.append(said)
        return said

    def number(self, count: int) -> str:
        """Returns a small number as a word or in digits."""
        known = NUMBER_WORDS[self.lang]
        return known[count] if count in known and count and self.rng.random() < 0.35 else str(count)

    def file(self, path: str) -> str:
        """Returns what a request calls a file."""
        ways = [path, path, path.rpartition("/")[2], path.rpartition("/")[2]]
        if path.count(".") == 1 and "db/" not in path and len(stem(path)) > 2:
            kind = "表" if path.endswith(_TABLES) else "文件"
            ways.append(f"{stem(path)}{kind}" if self.is_zh else f"the {stem(path)} file")
        if ".db/" in path or ".sqlite/" in path:
            last, base = stem(path), path.rpartition("/")[0]
            ways = [
                base,
                f"{base}的{last}表" if self.is_zh else f"the {last} table in {base}",
                path,
            ]
        said = self.rng.choice(ways)
        if self.rng.random() < 0.08:
            said = self._loose(said)
        self.kept.append(said)
        return said

    def _loose(self, name: str) -> str:
        """Returns a file's name as people type it from memory: two letters swapped, no marks."""
        roll = self.rng.random()
        if roll < 0.4:
            places = [
                place
                for place in range(1, len(name) - 2)
                if name[place : place + 2].isascii()
                and name[place : place + 2].isalpha()
                and name[place] != name[place + 1]
                and place + 1 < (name.rfind(".") if "." in name else len(name)) - 1
            ]
            if places:
                at = self.rng.choice(places)
                return name[:at] + name[at + 1] + name[at] + name[at + 2 :]
        if roll < 0.7:
            return name.replace("_", " ").replace("-", " ")
        return name.lower() if self.rng.random() < 0.7 else name.upper()

    def mention(self, text: str, path: str) -> str:
        """Adds the file to a request."""
        end = re.search(r"[?？.。!]+$", text)
        mark = end[0] if end else ""
        way = self.pick(texts("manners")["in", self.lang])
        bare = text[: len(text) - len(mark)]
        if not self.is_zh and not way.startswith("{}"):
            bare = bare if way.split("{}")[0].rstrip().endswith((".", ":")) else _uncapital(bare)
        said = way.replace("{file}", self.file(path)).replace("{}", bare)
        return said + mark if not said.endswith(("。", "）")) else said

    def finish(self, text: str) -> str:
        """Adds manners, then case and slips."""
        roll = self.rng.random()
        if roll < 0.14:
            way = self.pick(texts("manners")["before", self.lang])
            text = way.replace(
                "{}",
                text
                if way.rstrip(" {}").endswith((".", "!", "?")) or self.is_zh
                else _uncapital(text),
            )
        elif roll < 0.24:
            way = self.pick(texts("manners")["after", self.lang])
            stop = "，" if self.is_zh else ("," if way.startswith("{} p") else ".")
            ends = text.endswith(("?", "？", ".", "。", "!", ")", "）"))
            text = way.replace("{}", text if ends else text + stop)
        return self.slips(self._punctuated(text)).strip()

    def _punctuated(self, text: str) -> str:
        if self.rng.random() < 0.3:
            return text.rstrip("?？.。")
        if self.is_zh and self.rng.random() < 0.1:
            return text.replace("？", "?").replace("，", ",")
        return text

    def slips(self, text: str) -> str:
        """Writes in small letters if this voice does, and swaps two letters now and then."""
        if self.lower:
            text = text.lower()
        if self.is_zh or self.rng.random() > 0.06:
            return text
        kept = {word for said in self.kept for word in re.findall(r"\w+", said.casefold())}
        words = [w for w in re.findall(r"\b[a-z]{5,}\b", text) if w.casefold() not in kept]
        if not words:
            return text
        word = self.rng.choice(words)
        place = self.rng.randrange(1, len(word) - 2)
        wrong = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        return re.sub(rf"\b{word}\b", wrong, text, count=1)


def _uncapital(text: str) -> str:
    """Returns a sentence with a small first letter, unless it begins with a name."""
    first = text.split(" ", 1)[0]
    known = {"I", "I'd", "I'm", "TODO"}
    return text if first in known or not first[1:].islower() else text[:1].lower() + text[1:]
