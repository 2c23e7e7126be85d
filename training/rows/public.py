"""Writes rows from public sets: `python -m training.rows.public --data FOLDER --out FILE`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final

from plansmith.planner.shortlist.pick import shortlist
from training.rows.public_made import made_request
from training.rows.public_sets import Asked, PublicSets
from training.rows.row import Call, Lang, Row, Spec
from training.rows.voice import Voice

_SIZES: Final = (1, 2, 3, 4, 4, 5, 6, 6, 8)
_NEAR: Final = 20
_MADE: Final = {"sealtools": "en", "bfcl": "en", "acebench_en": "en", "acebench_zh": "zh"}
_APOLOGY: Final[dict[Lang, str]] = {
    "en": "None of the tools here can do this.",
    "zh": "这里没有能完成这件事的工具。",
}
# How many rows of each kind are made, at most.
_MOST: Final = {"calls": 1_900, "single": 1_500, "missing": 450, "unfit": 550}


class PublicRows:
    """Makes rows from public sets."""

    def __init__(self, sets: PublicSets, rng: Random) -> None:
        self._sets, self._rng = sets, rng

    def rows(self) -> Iterator[Row]:
        """Yields the rows of all kinds; each request comes at most twice."""
        for kind, made in (
            ("calls", self._with_calls()),
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
        """Returns tools that do not do what a request asks: those of another catalogue."""
        others = [name for name in self._sets.tools if name != asked.catalogue]
        home = "acebench_zh" if asked.lang == "zh" and self._rng.random() < 0.6 else ""
        catalogue = home if home in others else self._rng.choice(others)
        tools = [*self._sets.tools[catalogue].values()]
        return self._rng.sample(tools, self._rng.choice(_SIZES))


def main() -> None:
    """Reads the arguments and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rows = [*PublicRows(PublicSets(given.data), Random(given.seed)).rows()]
    given.out.write_text("".join(f"{row.line()}\n" for row in rows), encoding="utf-8")
    kinds = Counter(f"{row.kind} {row.lang}" for row in rows)
    print(f"{len(rows)} rows: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))


if __name__ == "__main__":
    main()
