"""Writes rows of calls that feed each other: `python -m lab.training.rows.workflows --out FILE`.

The tools are made up: of many trades, each list in names of its own.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from lab.training.rows.domains import Part
from lab.training.rows.row import Call, Lang, Row
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.workflow_sets import (
    Size,
    can_do,
    dressed_tools,
    feeds,
    nearest_offered,
    some_tools,
)
from lab.training.rows.workflow_text import joined, pronoun, sentence
from lab.training.rows.workflow_tools import Dressed, work_tools
from lab.training.rows.workflow_values import Values

_START: Final = datetime(2025, 1, 6, 8, 0)  # noqa: DTZ001 - the wall clock of a request
_APOLOGY: Final[dict[Lang, str]] = {
    "en": "None of the tools here can do this.",
    "zh": "这里没有能完成这件事的工具。",
}
# So many rows come of one list of tools, in at most so many tries. A list of many tools is the
# start of its rows, which a batch reads once.
_TRIES: Final[dict[Size, tuple[int, int]]] = {"many": (64, 768), "near": (4, 8), "few": (1, 2)}
_MANY: Final = 0.012  # such a list makes as many rows as some sixty others
_NEAR: Final = 0.16
_LISTED: Final = frozenset(
    {"city", "person", "email", "id", "file", "word", "product", "song", "picture", "url", "food"}
)
_REPLIES_HELD: Final = 0.15  # most rows of validation are of no use, those with replies always
_ROWS: Final = {"train": 16_000, "validation": 500}
Result = tuple[str, int]
"""What a request calls a result, and the place of its call."""


class WorkflowRows:
    """Makes rows over lists of made-up tools."""

    def __init__(self, rng: Random, part: Part) -> None:
        self._rng = rng
        self._part: Part = part

    def rows(self) -> Iterator[Row]:
        """Yields rows without end."""
        while True:
            roll = self._rng.random()
            if roll < _MANY:
                yield from self._rows_of("many")
            else:
                yield from self._rows_of("near" if roll < _NEAR else "few")

    def _rows_of(self, size: Size) -> Iterator[Row]:
        """Yields the rows of one list of tools, unlike each other."""
        lang: Lang = self._rng.choice(("en", "zh"))
        self._tools = dressed_tools(self._rng, some_tools(self._rng, size), lang)
        self._specs = tuple(each.spec for each in self._tools)
        wanted, tries = _TRIES[size]
        found: dict[str, Row] = {}
        for _ in range(tries):
            row = self._made(lang if size == "few" else self._rng.choice(("en", "zh")))
            if row is not None and self._is_of_part(row):
                row = nearest_offered(self._rng, row) if size == "near" else row
                found.setdefault(row.request.casefold(), row)
            if len(found) >= wanted:
                break
        yield from found.values()

    def _made(self, lang: Lang) -> Row | None:
        self._now = _START + timedelta(minutes=self._rng.randrange(60 * 24 * 900))
        self._voice = Voice(self._rng, lang, self._part)
        self._values = Values(self._voice, self._now)
        makers: dict[Callable[[], Row | None], int] = {
            self.single: 20, self.open: 9, self.chain: 26, self.long_chain: 11,
            self.two_results: 6, self.several: 9, self.same: 8, self.chain_and: 5,
            self.unfit: 5, self.talk: 2,
        }  # fmt: skip
        return self._rng.choices([*makers], [*makers.values()])[0]()

    def _is_of_part(self, row: Row) -> bool:
        """Whether the tools of a row are those of its part: some are only validated on."""
        used = {str(each["tool"]) for each in row.calls}
        if not used:
            return self._part == "train" or self._rng.random() < _REPLIES_HELD
        held = any(each.of.held for each in self._tools if each.name in used)
        return held == (self._part == "validation")

    # -- kinds of rows

    def single(self) -> Row | None:
        """Asks for one thing, with all values said."""
        tool = self._any(self._voice.lang)
        return self._row("single", *self._asked(tool, self._voice.lang)) if tool else None

    def open(self) -> Row | None:
        """Asks for one thing and leaves a required value open."""
        tool = self._any(f"{self._voice.lang}?")
        if tool is None:
            return None
        return self._row("missing", *self._asked(tool, f"{self._voice.lang}?"))

    def chain(self) -> Row | None:
        """Asks for something that takes the result of another call."""
        pair = self._pair()
        if pair is None:
            return None
        text, calls = self._chained(*pair)
        return self._row("calls", text, *calls) if text else None

    def long_chain(self) -> Row | None:
        """Asks for three calls, each with the result of the one before."""
        pair = self._pair()
        if pair is None:
            return None
        first, second = pair
        last = [each for each in self._tools if feeds(second.of, each.of)]
        last = [each for each in last if each not in pair]
        if not last:
            return None
        third = self._rng.choice(last)
        roll = self._rng.random()
        if roll < 0.35:
            noun = self._noun(first)
            between = self._noun(second, (noun[0], 1)) if noun else None
            end = self._handed(third, second, (between[0], 2)) if between else None
            if not (noun and between and end):
                return None
            return self._row("calls", end[0], noun[1], between[1], end[1])
        text, calls = self._chained(first, second)
        end = self._handed(third, second, (pronoun(self._voice, second.of.gives, 2), 2))
        if not text or end is None:
            return None
        return self._row("calls", joined(self._voice, [text, end[0]]), *calls, end[1])

    def two_results(self) -> Row | None:
        """Asks for something that takes the results of two calls."""
        lang, rng = self._voice.lang, self._rng
        ways = [
            (tool, way)
            for tool in self._tools
            for way in (*tool.of.ways.get(lang, ()), *tool.of.ways.get(f"{lang}>", ()))
            if len(_open_slots(tool, way)) > 1
        ]
        if not ways:
            return None
        tool, way = rng.choice(ways)
        results: dict[str, Result] = {}
        calls: list[Call] = []
        for slot, argument in _open_slots(tool, way)[:2]:
            kinds = tool.of.takes[argument]
            giving = [each for each in self._tools if each.of.gives in kinds and each is not tool]
            noun = self._noun(rng.choice(giving)) if giving else None
            if noun is None:
                return None
            results[slot] = noun[0], len(calls) + 1
            calls.append(noun[1])
        if calls[0] == calls[1]:
            return None
        text, made = self._filled(tool, way, results)
        return self._row("calls", text, *calls, made)

    def several(self) -> Row | None:
        """Asks for two to four things that do not need each other."""
        count = self._rng.choice((2, 2, 2, 3, 3, 4))
        tools = [self._any(self._voice.lang) for _ in range(count)]
        known = {each.name: each for each in tools if each is not None}
        if len(known) < count:
            return None
        asked = [self._asked(each, self._voice.lang) for each in known.values()]
        text = joined(self._voice, [each for each, _ in asked], apart=True)
        return self._row("calls", text, *(call for _, call in asked))

    def same(self) -> Row | None:
        """Asks one tool about several values: a call for each."""
        tool = self._any(self._voice.lang)
        if tool is None:
            return None
        way = self._rng.choice(tool.of.ways[self._voice.lang])
        slots = [
            each
            for each in tool.of.inputs
            if each.kind.partition("(")[0] in _LISTED and way.count(f"{{{each.name}}}") == 1
        ]
        if not slots:
            return None
        left = self._rng.choice(slots)
        count = self._rng.choice((2, 2, 3, 3, 4))
        pairs = dict(self._values.value(left.kind) for _ in range(count))
        said, mark = list(pairs), "、" if self._voice.is_zh else ", "
        last = self._rng.choice(("和", "、")) if self._voice.is_zh else " and "
        if len(said) < 2:
            return None
        listed = mark.join(said[:-1]) + last + said[-1]
        text, made = self._filled(tool, way.replace(f"{{{left.name}}}", "\0"))
        label = tool.names[left.name]
        calls = [{"tool": tool.name, "args": made["args"] | {label: v}} for v in pairs.values()]
        return self._row("calls", text.replace("\0", listed), *calls)

    def chain_and(self) -> Row | None:
        """Hands a result on, and asks for one more thing that needs none."""
        pair, other = self._pair(), self._any(self._voice.lang)
        if pair is None or other is None or other in pair:
            return None
        text, calls = self._chained(*pair)
        more, call = self._asked(other, self._voice.lang)
        if not text:
            return None
        said = joined(self._voice, [text, more], apart=True)
        return self._row("calls", said, *calls, call)

    def unfit(self) -> Row | None:
        """Asks for something that no tool of the list does."""
        offered = [each.of for each in self._tools]
        others = [each for each in work_tools() if not can_do(each, offered)]
        others = [each for each in others if self._voice.lang in each.ways]
        if not others:
            return None
        [asked] = dressed_tools(self._rng, [self._rng.choice(others)], self._voice.lang)
        text, _ = self._asked(asked, self._voice.lang)
        return self._replied(sentence(self._voice, text), _APOLOGY[self._voice.lang], "unfit")

    def talk(self) -> Row | None:
        """Says something that needs no tool."""
        line = self._voice.pick(texts("workflow_words")["talk", self._voice.lang])
        text, _, reply = line.partition(" => ")
        return self._replied(text, reply, "talk")

    # -- parts

    def _any(self, mark: str) -> Dressed | None:
        """Returns a tool that can be asked for in some way."""
        known = [each for each in self._tools if each.of.ways.get(mark)]
        return self._rng.choice(known) if known else None

    def _pair(self) -> tuple[Dressed, Dressed] | None:
        mark = f"{self._voice.lang}>"
        pairs = [
            (first, second)
            for second in self._tools
            if second.of.ways.get(mark)
            for first in self._tools
            if first is not second
            and feeds(first.of, second.of)
            # A tool that takes a result itself begins no chain.
            and first.of.ways.get(self._voice.lang)
        ]
        return self._rng.choice(pairs) if pairs else None

    def _chained(self, first: Dressed, second: Dressed) -> tuple[str, list[Call]]:
        """Returns a request for two calls: one after the other, or one in the words of the other.

        Its text is empty where this pair cannot be asked for so.
        """
        if self._rng.random() < 0.5:
            noun = self._noun(first)
            end = self._handed(second, first, (noun[0], 1)) if noun else None
            return (end[0], [noun[1], end[1]]) if noun and end else ("", [])
        text, call = self._asked(first, self._voice.lang)
        end = self._handed(second, first, (pronoun(self._voice, first.of.gives, 1), 1))
        if end is None:
            return "", []
        return joined(self._voice, [text, end[0]]), [call, end[1]]

    def _noun(self, tool: Dressed, it: Result | None = None) -> tuple[str, Call] | None:
        """Returns a noun phrase for the result of a tool, and the call."""
        ways = tool.of.ways.get(f"{self._voice.lang}:", ())
        ways = tuple(way for way in ways if ("{it}" in way) == (it is not None))
        if not ways:
            return None
        return self._filled(tool, self._rng.choice(ways), {"it": it} if it else {})

    def _handed(self, tool: Dressed, giver: Dressed, it: Result) -> tuple[str, Call] | None:
        """Returns a request that hands a result to a tool."""
        ways = [
            way
            for way in tool.of.ways.get(f"{self._voice.lang}>", ())
            for taking in [tool.of.taking(way)]
            if taking and giver.of.gives in tool.of.takes[taking.name]
        ]
        return self._filled(tool, self._rng.choice(ways), {"it": it}) if ways else None

    def _asked(self, tool: Dressed, mark: str) -> tuple[str, Call]:
        return self._filled(tool, self._rng.choice(tool.of.ways[mark]))

    def _filled(
        self, tool: Dressed, way: str, results: Mapping[str, Result] | None = None
    ) -> tuple[str, Call]:
        """Fills a request with values and results; returns it with its call."""
        known: dict[str, object] = {}
        taking = tool.of.taking(way)
        for slot, (said, place) in (results or {}).items():
            argument = taking.name if slot == "it" and taking else slot
            known[argument] = f"${place}"
            way = _put(way, slot, said)
        for each in tool.of.inputs:
            if f"{{{each.name}}}" in way:
                said, known[each.name] = self._values.value(each.kind, tool.forms[each.name])
                way = _said_at(way, f"{{{each.name}}}", said)
        args = {
            tool.names[each.name]: known.get(each.name, "?")
            for each in tool.of.inputs
            if each.name in known or each.required
        }
        return way, {"tool": tool.name, "args": args}

    def _row(self, kind: str, text: str, *calls: Call) -> Row:
        return Row(
            self._voice.slips(sentence(self._voice, text)), kind, self._voice.lang,
            now=self._now.strftime("%A %Y-%m-%d %H:%M"), calls=calls, tools=self._specs,
            family="tools",
        )  # fmt: skip

    def _replied(self, text: str, reply: str, kind: str) -> Row:
        return Row(
            self._voice.slips(text), kind, self._voice.lang, reply=reply, tools=self._specs,
            now=self._now.strftime("%A %Y-%m-%d %H:%M"), family="tools",
        )  # fmt: skip


def _open_slots(tool: Dressed, way: str) -> list[tuple[str, str]]:
    """Returns the slots of a request that a result can fill, with their arguments."""
    slots = [(name, name) for name in tool.of.takes if f"{{{name}}}" in way]
    taking = tool.of.taking(way)
    return [("it", taking.name), *slots] if "{it}" in way and taking else slots


def _said_at(way: str, slot: str, said: str) -> str:
    """Puts a value into a request; two values that would run into each other stay apart."""
    before, after = way.partition(slot)[::2]
    if _runs_on(before[-1:], said[:1]):
        said = f" {said}"
    if _runs_on(said[-1:], after[:1]):
        said = f"{said} "
    return way.replace(slot, said)


def _runs_on(left: str, right: str) -> bool:
    return left.isascii() and left.isalnum() and right.isascii() and right.isalnum()


def _put(way: str, slot: str, said: str) -> str:
    """Puts a result into a request; nothing said stands for it in Chinese at times."""
    if said:
        return way.replace(f"{{{slot}}}", said)
    return re.sub(rf"(?:把|将)?\{{{slot}\}}的?", "", way)


def unlike(rows: Iterator[Row], most: int = 2) -> Iterator[Row]:
    """Yields rows without those whose request came too often."""
    seen: Counter[str] = Counter()
    for row in rows:
        seen[row.request.casefold()] += 1
        if seen[row.request.casefold()] <= most:
            yield row


def workflow_rows(seed: int, part: Part, count: int | None = None) -> Sequence[Row]:
    """Returns so many rows."""
    made = WorkflowRows(Random(f"workflows {part} {seed}"), part).rows()
    return [*islice(unlike(made), count or _ROWS[part])]


def main() -> None:
    """Reads the arguments and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int)
    parser.add_argument("--part", choices=("train", "validation"), default="train")
    given = parser.parse_args()
    rows = workflow_rows(given.seed, given.part, given.count)
    given.out.write_text("".join(f"{row.line()}\n" for row in rows), encoding="utf-8")
    kinds = Counter(f"{row.kind} {row.lang}" for row in rows)
    print(f"{len(rows)} rows: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))


if __name__ == "__main__":
    main()
