"""Writes rows from public sets: `python -m lab.training.rows.public --data FOLDER --out FILE`."""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Final

from lab.training.rows.domains import Part
from lab.training.rows.public_made import made_request
from lab.training.rows.public_sets import Asked, PublicSets
from lab.training.rows.row import Call, Lang, Row, Spec
from lab.training.rows.toolbox_sets import SeveralRows
from lab.training.rows.toolboxes import ToolboxRows
from lab.training.rows.voice import Voice
from plansmith_planner.ranking.pick import shortlist

_SIZES: Final = (1, 2, 3, 4, 4, 5, 6, 6, 8)
_NEAR: Final = 20
_TRIED: Final = 12  # tools that a request of several is made of, as far as they have examples
_ALIKE: Final = 2  # tools with so many words in common may do the same
_EVERY: Final = 22
_MADE_ROWS: Final = {"train": 2_400, "validation": 120}
_SEVERAL_ROWS: Final = {"train": 2_600, "validation": 100}
_COMMON: Final = frozenset(
    [
        *("data", "inform", "given", "based", "specif", "provid", "retrie", "user", "with", "from"),
        *("using", "this", "that", "about", "detail", "list", "calcul", "find", "search"),
    ]
)
_MADE: Final = {"sealtools": "en", "bfcl": "en", "acebench_en": "en", "acebench_zh": "zh"}
_APOLOGY: Final[dict[Lang, str]] = {
    "en": "None of the tools here can do this.",
    "zh": "这里没有能完成这件事的工具。",
}
# How many rows of each kind are made, at most.
_MOST: Final = {"calls": 2_200, "several": 2_400, "single": 1_600, "missing": 320, "unfit": 420}


class PublicRows:
    """Makes rows from public sets."""

    def __init__(self, sets: PublicSets, rng: Random) -> None:
        self._sets, self._rng = sets, rng

    def rows(self) -> Iterator[Row]:
        """Yields the rows of all kinds; each request comes at most twice."""
        for kind, made in (
            ("calls", self._with_calls()),
            ("several", self._several()),
            ("single", self._single(cut=False)),
            ("missing", self._single(cut=True)),
            ("unfit", self._unfit()),
        ):
            for place, row in enumerate(made):
                if place >= _MOST[kind]:
                    break
                yield row

    def _with_calls(self) -> Iterator[Row]:
        asked = [*self._sets.with_calls()]
        # Twice with other tools beside: what is not needed has to be seen as such.
        for each in (*asked, *self._rng.sample(asked, len(asked))):
            tools = self._offer(each.query, each.gold, each.catalogue)
            if len(each.gold) <= len(tools):
                yield self._row(each.query, "calls", each.lang, tools, each.calls)

    def _single(self, *, cut: bool) -> Iterator[Row]:
        pairs = [(name, spec) for name in _MADE for spec in self._sets.tools[name].values()]
        self._rng.shuffle(pairs)
        pairs.sort(key=lambda each: _MADE[each[0]] != "zh")  # there are few: they come first
        for catalogue, spec in pairs:
            lang: Lang = "zh" if _MADE[catalogue] == "zh" else "en"
            made = made_request(spec, lang, Voice(self._rng, lang, "train"), cut=cut)
            if made is not None:
                tools = self._offer(made[0], [spec["name"]], catalogue)
                yield self._row(made[0], "missing" if cut else "single", lang, tools, [made[1]])

    def _several(self) -> Iterator[Row]:
        """Yields requests for several tools of one set at once, each made by its examples."""
        for _ in range(sum(len(self._sets.tools[name]) for name in _MADE)):
            catalogue = self._rng.choice(sorted(_MADE))
            lang: Lang = "zh" if _MADE[catalogue] == "zh" else "en"
            known = [*self._sets.tools[catalogue].values()]
            specs = self._rng.sample(known, min(len(known), _TRIED))
            voice = Voice(self._rng, lang, "train")
            made = [made_request(each, lang, voice, cut=False) for each in specs]
            asked = [each for each in made if each is not None][: self._rng.choice((2, 2, 3, 3, 4))]
            if len(asked) < 2:
                continue
            text = _joined([text for text, _ in asked], self._rng, lang)
            calls = [call for _, call in asked]
            tools = self._offer(text, [str(each["tool"]) for each in calls], catalogue)
            yield self._row(text, "calls", lang, tools, calls)

    def _unfit(self) -> Iterator[Row]:
        asked = [*self._sets.requests()]
        self._rng.shuffle(asked)
        chinese = [each for each in asked if each.lang == "zh"]
        english = [each for each in asked if each.lang == "en"]
        for each in chain.from_iterable(zip(english, chinese, english[::-1], strict=False)):
            tools = self._unlike(each)
            if tools:
                yield Row(
                    each.query,
                    "unfit",
                    each.lang,
                    reply=_APOLOGY[each.lang],
                    tools=tuple(tools),
                    family="tools",
                )

    def _row(
        self, query: str, kind: str, lang: Lang, tools: Sequence[Spec], calls: Sequence[Call]
    ) -> Row:
        return Row(query, kind, lang, calls=tuple(calls), tools=tuple(tools), family="tools")

    def _offer(self, query: str, gold: Sequence[str], catalogue: str) -> list[Spec]:
        """Returns the tools of a request among near misses by the product's own shortlist."""
        tools = self._sets.tools[catalogue]
        size = max(len(gold), self._rng.choice(_SIZES))
        picks = shortlist(query, self._sets.catalogues[catalogue], _NEAR)
        near = [pick.name for pick in picks if pick.name not in gold]
        chosen = [tools[name] for name in (*gold, *near[: size - len(gold)])]
        self._rng.shuffle(chosen)
        return chosen

    def _unlike(self, asked: Asked) -> list[Spec]:
        """Returns tools that do not do what a request asks: near ones, or those of another set."""
        others = [name for name in self._sets.tools if name != asked.catalogue]
        home = "acebench_zh" if asked.lang == "zh" and self._rng.random() < 0.6 else ""
        catalogue = home if home in others else self._rng.choice(others)
        gold = [
            self._sets.tools[asked.catalogue][name]
            for name in asked.gold
            if name in self._sets.tools.get(asked.catalogue, {})
        ]
        size = self._rng.choice(_SIZES)
        if len(gold) == len(asked.gold) and self._rng.random() < 0.7:
            meant = set().union(*map(_words, gold))
            picks = shortlist(asked.query, self._sets.catalogues[catalogue], _NEAR)
            near = [self._sets.tools[catalogue][pick.name] for pick in picks]
            near = [each for each in near if len(_words(each) & meant) < _ALIKE]
            return near[:size]
        known = [*self._sets.tools[catalogue].values()]
        return self._rng.sample(known, min(len(known), size))


def _joined(texts: Sequence[str], rng: Random, lang: Lang) -> str:
    """Returns several requests as one."""
    bare = [each.rstrip("?？.。 ") for each in texts]
    if rng.random() < 0.25:
        return " ".join(f"{place}. {each}" for place, each in enumerate(bare, start=1))
    if lang == "zh":
        return rng.choice(("；", "，另外", "。还有，", "，然后")).join(bare)
    low = [bare[0], *(each[:1].lower() + each[1:] for each in bare[1:])]
    return rng.choice((". Also, ", ", and ", ". Then ", "; ")).join(low) + "."


def _words(spec: Spec) -> set[str]:
    """Returns the words that say what a tool does; two alike ones may be the same deed."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", f"{spec['name']} {spec['description']}")
    found = {each.casefold()[:6] for each in re.findall(r"[A-Za-z]{4,}", text)}
    chinese = "".join(re.findall(r"[\u4e00-\u9fff]", text))
    return found - _COMMON | {chinese[place : place + 2] for place in range(len(chinese) - 1)}


def is_held(row: Row) -> bool:
    """Whether a row is kept for validation: one tool in so many is never trained on."""
    return _is_key(str(row.calls[0]["tool"]) if row.calls else row.request)


def touches_held(row: Row) -> bool:
    """Whether a row uses any tool that is kept for validation."""
    return is_held(row) or any(_is_key(str(each["tool"])) for each in row.calls)


def _is_key(text: str) -> bool:
    return zlib.crc32(text.encode()) % _EVERY == 0


def refers_back(row: Row) -> bool:
    """Whether each `$n` of a row's calls is the result of a call before it."""
    for place, each in enumerate(row.calls):
        named = re.findall(r'"\$(\w+)', json.dumps(each["args"]))
        if any(not number.isdigit() or not 0 < int(number) <= place for number in named):
            return False
    return True


def unlike(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields the rows without those whose request came before."""
    seen: set[str] = set()
    for row in rows:
        if row.request.casefold() not in seen:
            seen.add(row.request.casefold())
            yield row


def public_rows(data: Path, seed: int, part: Part, made: int | None = None) -> list[Row]:
    """Returns the rows of the public sets in a folder, and `made` of each kind of made-up tools."""
    public = [*PublicRows(PublicSets(data), Random(seed)).rows()]
    held = {each.request for each in public if is_held(each)}
    if part == "validation":
        rows = [*unlike(each for each in public if each.request in held)]
    else:
        rows = [each for each in public if each.request not in held and not touches_held(each)]
    rng = Random(f"{part} {seed}")
    for maker, most in ((ToolboxRows, _MADE_ROWS), (SeveralRows, _SEVERAL_ROWS)):
        rows += islice(unlike(maker(rng, part).rows()), made or most[part])
    rows = [each for each in rows if refers_back(each)]
    rng.shuffle(rows)
    return rows


def main() -> None:
    """Reads the arguments and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=("train", "validation"), default="train")
    parser.add_argument("--made", type=int, help="rows over made-up tools")
    given = parser.parse_args()
    rows = public_rows(given.data, given.seed, given.part, given.made)
    given.out.write_text("".join(f"{row.line()}\n" for row in rows), encoding="utf-8")
    kinds = Counter(f"{row.kind} {row.lang}" for row in rows)
    print(f"{len(rows)} rows: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))


if __name__ == "__main__":
    main()
