"""Makes rows: chooses a world, a voice and a kind of request, and checks what comes out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from random import Random
from typing import Any, Final

from lab.training.rows.comparing import ComparingAsker
from lab.training.rows.deeds import impossible_deed, written_draft
from lab.training.rows.documents import DocumentAsker
from lab.training.rows.domains import Part
from lab.training.rows.file_sets import FileSetAsker
from lab.training.rows.files import FileAsker
from lab.training.rows.folder_lines import folder_lines
from lab.training.rows.joins import JoinAsker, joined_pair
from lab.training.rows.natural import NaturalAsker
from lab.training.rows.outputs import OutputAsker
from lab.training.rows.papers import PaperAsker
from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.replies import Said, spoken
from lab.training.rows.row import Call, Lang, Row
from lab.training.rows.subjects import SubjectAsker
from lab.training.rows.sums import SumAsker
from lab.training.rows.tables import Table, database
from lab.training.rows.triples import TripleAsker, triple
from lab.training.rows.twins import TwinAsker
from lab.training.rows.voice import Voice
from lab.training.rows.world import World, WorldMaker
from plansmith_desk.folder_brief import words

# How often each family of requests comes, in a hundred.
FAMILIES: Final = {
    "tables": 38,
    "joins": 6,
    "triples": 9,
    "twins": 5,
    "documents": 13,
    "papers": 14,
    "files": 6,
    "changes": 5,
    "outputs": 12,
    "sums": 4,
    "replies": 5,
    "deeds": 4,
    "missing": 1,
    "double": 5,
}
_ZH: Final = 0.53
_TRIES: Final = 12


class RowMaker:
    """Makes rows of one part; the same seed gives the same rows."""

    def __init__(self, rng: Random, part: Part, only: Collection[str] = ()) -> None:
        self._rng = rng
        self._part: Part = part
        self._weights = {name: n for name, n in FAMILIES.items() if not only or name in only}
        self._worlds = WorldMaker(rng, part)

    def rows(self) -> Iterator[Row]:
        """Yields rows without end; what does not fit is left out."""
        families: dict[str, Callable[[Voice], Row]] = {
            "tables": self._of_table,
            "joins": self._of_join,
            "triples": self._of_triple,
            "twins": self._of_twins,
            "documents": self._of_documents,
            "papers": self._of_papers,
            "files": self._of_files,
            "changes": self._of_changes,
            "outputs": self._of_outputs,
            "sums": self._of_sums,
            "replies": self._of_reply,
            "deeds": self._of_deed,
            "missing": self._of_missing,
            "double": self._of_two,
        }
        names, weights = zip(*self._weights.items(), strict=True)
        while True:
            lang: Lang = "zh" if self._rng.random() < _ZH else "en"
            family = families[self._rng.choices(names, weights)[0]]
            for _ in range(_TRIES):
                try:
                    yield family(Voice(self._rng, lang, self._part))
                except Unfit:
                    continue
                break

    # -- families

    def _of_table(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 8)))
        table = self._rng.choice(world.tables)
        ways = table_ways(NaturalAsker(table, voice, world.now))
        if self._rng.random() < 0.25:
            ways = ComparingAsker(table, voice, world.now).ways()
        return self._row(world, voice, self._pick(ways), [table])

    def _of_join(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 0, 1, 2)))
        files: Lang = (
            voice.lang if self._rng.random() < 0.8 else ("zh" if voice.lang == "en" else "en")
        )
        pair = joined_pair(self._rng, self._part, files, world.now)
        self._worlds.add(world, pair)
        ask = JoinAsker(*pair, voice, world.now).ask()
        return self._row(world, voice, ask, list(pair))

    def _of_triple(self, voice: Voice) -> Row:
        world = self._world(
            tables=self._rng.choice((0, 0, 0, 1)), documents=self._rng.randint(0, 2)
        )
        files: Lang = self._rng.choice(("en", "zh", voice.lang))
        of = triple(self._rng, self._part, files, world.now)
        self._worlds.add(world, of.tables)
        if self._rng.random() < 0.25:
            # One table alone answers it, though others lie beside.
            table = self._rng.choice(of.tables)
            ask = self._pick(table_ways(NaturalAsker(table, voice, world.now)))
            return self._row(world, voice, ask, [table])
        ask = self._pick(TripleAsker(of, voice).ways())
        return self._row(world, voice, ask, [each for each in of.tables if _is_in(each, ask)])

    def _of_twins(self, voice: Voice) -> Row:
        world = self._world(tables=0, documents=self._rng.randint(0, 2))
        asker = TwinAsker(world, self._worlds, voice)
        ways = [(lambda: asker.one(table_ways), 12), (asker.together, 2), (asker.rise, 2)]
        ask = self._pick([*ways, (asker.compare, 2)])
        tables = [each.table for each in asker.twins if _is_in(each.table, ask)]
        return self._row(world, voice, ask, tables)

    def _of_papers(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 0, 1, 1, 2)), documents=0)
        asker = PaperAsker(world, voice)
        return self._row(world, voice, self._pick(asker.ways()), [])

    def _of_deed(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1, 2, 2)))
        if self._rng.random() < 0.25:
            return self._row(world, voice, written_draft(world, voice), [])
        said = impossible_deed(world, voice)
        return self._replied(world, voice, said, voice.finish(said.text))

    def _of_documents(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1, 2)), documents=self._rng.randint(1, 6))
        asker = SubjectAsker if self._rng.random() < 0.4 else DocumentAsker
        return self._row(world, voice, self._pick(asker(world, voice).ways()), [])

    def _of_files(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1, 2)))
        return self._row(world, voice, self._pick(FileAsker(world, voice).ways()), [])

    def _of_changes(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1, 2)))
        several = self._rng.random() < 0.35
        asker = FileSetAsker(world, voice).ways() if several else FileAsker(world, voice).changes()
        return self._row(world, voice, self._pick(asker), [])

    def _of_missing(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1)))
        return self._row(world, voice, FileAsker(world, voice).missing(), [])

    def _of_outputs(self, voice: Voice) -> Row:
        world = self._world(
            tables=self._rng.choice((1, 1, 2, 3)), documents=self._rng.randint(0, 3)
        )
        table = self._rng.choice(world.tables)
        asker = OutputAsker(world, NaturalAsker(table, voice, world.now), voice)
        return self._row(world, voice, self._pick(asker.ways()), [table])

    def _of_sums(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1, 2)))
        return self._row(world, voice, self._pick(SumAsker(voice, world.now).ways()), [])

    def _of_reply(self, voice: Voice) -> Row:
        world = self._world(tables=self._rng.choice((0, 1, 2)))
        said = spoken(voice)
        text = voice.finish(said.text) if said.kind == "impossible" else voice.slips(said.text)
        return self._replied(world, voice, said, text)

    def _replied(self, world: World, voice: Voice, said: Said, text: str) -> Row:
        entries = world.entries if self._rng.random() < 0.9 else ()
        lines, near = folder_lines(entries, text)
        return Row(text, said.kind, voice.lang, lines, world.now_text, reply=said.reply, near=near)

    def _of_two(self, voice: Voice) -> Row:
        """Asks two things at once that do not need each other."""
        world = self._world(tables=self._rng.choice((1, 2)), documents=self._rng.randint(1, 3))
        first, second = (self._rng.choice(world.tables) for _ in range(2))
        asks = [self._pick(table_ways(NaturalAsker(first, voice, world.now)))]
        other = self._pick(table_ways(NaturalAsker(second, voice, world.now)))
        asks.append(
            self._pick(DocumentAsker(world, voice).ways()) if self._rng.random() < 0.4 else other
        )
        used = [first, second] if asks[1] is other else [first]
        a, b = (each.text.rstrip("?？.。") for each in asks)
        if self._rng.random() < 0.25:
            return self._of_three(world, voice, asks, used)
        if voice.is_zh:
            text = self._rng.choice(
                (f"{a}？{b}？", f"{a}，另外{b}？", f"1. {a} 2. {b}", f"{a}；还有，{b}")
            )
        else:
            b_low = b[:1].lower() + b[1:]
            text = self._rng.choice(
                (
                    f"{a}? And {b_low}?",
                    f"{a}, and also: {b_low}",
                    f"1. {a} 2. {b}",
                    f"{a}. Then: {b_low}.",
                )
            )
        calls = tuple(each for ask in asks for each in ask.calls)
        if calls[0] == calls[-1]:
            raise Unfit
        return self._row(world, voice, Ask("two questions", text, calls), used)

    def _of_three(self, world: World, voice: Voice, asks: list[Ask], used: Sequence[Table]) -> Row:
        """Asks a third thing as well."""
        table = self._rng.choice(world.tables)
        asks.append(self._pick(table_ways(NaturalAsker(table, voice, world.now))))
        a, b, c = (each.text.rstrip("?？.。") for each in asks)
        low_b, low_c = (each[:1].lower() + each[1:] for each in (b, c))
        text = voice.either(
            (f"{a}? {b}? {c}?", f"1) {a} 2) {b} 3) {c}", f"{a}, {low_b}, and {low_c}"),
            (f"{a}？{b}？{c}？", f"1、{a} 2、{b} 3、{c}", f"{a}，{b}，还有{c}"),
        )
        calls = tuple(each for ask in asks for each in ask.calls)
        if len({str(each) for each in calls}) < len(calls):
            raise Unfit
        return self._row(world, voice, Ask("three questions", text, calls), [*used, table])

    # -- parts

    def _world(self, *, tables: int, documents: int | None = None) -> World:
        count = self._rng.choice((0, 0, 1, 2, 3)) if documents is None else documents
        return self._worlds.world(
            tables=tables, documents=count, others=self._rng.choice((0, 0, 1, 1, 2, 3, 4, 6))
        )

    def _pick(self, ways: Sequence[tuple[Callable[[], Ask], int]]) -> Ask:
        makers = [maker for maker, _ in ways]
        return self._rng.choices(makers, [weight for _, weight in ways])[0]()

    def _row(self, world: World, voice: Voice, ask: Ask, used: Sequence[Table]) -> Row:
        check_queries(ask, world.tables)
        text = ask.text
        if used and not ask.names_file and self._needs_file(text, world, used):
            text = voice.mention(text, used[0].path)
        text = voice.finish(text)
        lines, near = folder_lines(world.entries, text)
        if not _are_told((*lines, *near), [each.path for each in used], named(ask.calls), world):
            raise Unfit
        return Row(
            text,
            ask.kind,
            voice.lang,
            lines,
            world.now_text,
            ask.calls,
            sources=tuple((each.path, each.source) for each in used),
            columns=tuple((each.path, tuple(c.name for c in each.columns)) for each in used),
            near=near,
        )

    def _needs_file(self, text: str, world: World, used: Sequence[Table]) -> bool:
        """Whether a request names its file: often, and always where it would not be clear."""
        if len(used) > 1:
            return False
        if self._rng.random() < 0.35:
            return True
        asked = words(text)
        fits = {each.path: len(words(_known(each)) & asked) for each in world.tables}
        best = max(fits.values())
        return fits[used[0].path] < best or list(fits.values()).count(best) > 1


def _is_in(table: Table, ask: Ask) -> bool:
    """Whether a call of a request uses a table."""
    whole = " ".join(str(each["args"]) for each in ask.calls)
    return table.source in whole or table.path in whole


def _known(table: Table) -> str:
    """Returns all words that point to a table."""
    domain = table.domain
    said = [domain.rows, domain.row, domain.rows_zh, table.path.replace("_", " ")]
    for each in table.columns:
        said += [each.name.replace("_", " "), *each.of.words_en, *each.of.words_zh]
        said += [str(value) for value in table.listed(each)]
        said += [value for pair in each.of.pairs for value in pair] if each.of.translates else []
    return " ".join(said)


def _are_told(lines: Sequence[str], tables: Sequence[str], paths: set[str], world: World) -> bool:
    """Whether the lines tell what the calls need: columns of tables, names of files."""
    known = {line.partition(": ")[0] for line in lines}
    detailed = {line.partition(": ")[0] for line in lines if ": " in line}
    return set(tables) <= detailed and paths & set(world.paths) <= known


def named(calls: Sequence[Call]) -> set[str]:
    """Returns the files that calls name."""
    keys = ("path", "table", "first", "second")
    return {str(each["args"][key]) for each in calls for key in keys if key in each["args"]}


def table_ways(asker: NaturalAsker) -> list[tuple[Callable[[], Ask], int]]:
    """Returns the kinds of requests on one table with their weights."""
    return [
        *((asker.count, 10), (asker.exists, 2), (asker.aggregate, 26), (asker.listing, 9)),
        *((asker.labels, 5), (asker.pair, 3), (asker.extreme, 6), (asker.top_where, 3)),
        *((asker.share, 3), (asker.versus, 3), (asker.distinct, 4), (asker.cell, 14)),
        *((asker.missing, 9), (asker.sort, 2), (asker.recent, 4), (asker.firstn, 2)),
        *((asker.arithmetic, 3), (asker.against_average, 2), (asker.second, 2), (asker.stats, 2)),
        *((asker.describe, 5), (asker.count_all, 3), (asker.top, 6), (asker.top_one, 9)),
        *((asker.group, 9), (asker.group_where, 5), (asker.best_group, 6), (asker.months, 6)),
        *((asker.having, 2), (asker.top_groups, 2), (asker.parts_of_time, 5), (asker.natural, 42)),
    ]


def check_queries(ask: Ask, tables: Sequence[Table]) -> None:
    """Runs the queries of a request: each has to run, and to give something."""
    queries = [each["args"]["query"] for each in ask.calls if each["tool"] == "tables.sql"]
    if not queries:
        return
    with closing(database(tables)) as made:
        for query in queries:
            rows: list[Any] = made.execute(query).fetchmany(50)
            if not rows or all(value is None for row in rows for value in row):
                raise Unfit
