from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.capability import AgentSpec, Skill, ToolSpec
from plansmith_planner.language.words import english_terms
from plansmith_planner.ranking.index import IndexCache
from plansmith_planner.ranking.pick import Pick, shortlist

WEATHER = ToolSpec(name="get_weather", description="Current weather and forecast for a city.")
MAIL = ToolSpec(name="send_email", description="Send an email to one or more people.")
STOCKS = ToolSpec(name="stock_quote", description="Price of a share on the stock market.")
ALARM = ToolSpec(name="clock_alarm_set", description="设定闹钟工具")
HOTEL = ToolSpec(name="hotel_booking", description="酒店预订工具")
TOOLS = (STOCKS, MAIL, WEATHER, ALARM, HOTEL)


def names(picks: Sequence[Pick]) -> list[str]:
    return [pick.name for pick in picks]


def many(count: int) -> list[ToolSpec]:
    return [
        ToolSpec(name=f"report_{at}", description=f"Writes the weather report number {at}.")
        for at in range(count)
    ]


SUSHI = {"cuisine": {"enum": ["sushi", "pizza"], "description": "kind of kitchen"}}
TRANSLATOR = ToolSpec(name="translator", description="Translation between languages")
REPORTS = "Write the weather report about the weather. Also check the stock market."
FORECAST = "io.github.acme/forecast"
FILMS: dict[str, Any] = {
    "get_credits": {
        "description": "Cast and crew of a film",
        "input_schema": {"properties": {"film_id": {}}, "required": ["film_id"]},
    },
    **{f"other_{at}": {"description": "crew rota"} for at in range(9)},
    "search_film": {"description": "By title"},
}
PUBLISHED = {
    "io.github.weather-fans/chess": {"description": "Play a game"},
    FORECAST: {"description": "Weather for a city"},
}
LETTERS = {"alpha": {"description": "a b c"}, "forecast": {"description": "weather"}}
EVERYDAY = {"help_me": {"description": "odd"}, "get_weather": {"description": "weather in a city"}}
FITTING: dict[str, tuple[str, Any, list[str]]] = {
    "words describe it": ("What will the weather be in Oslo?", TOOLS, ["get_weather"]),
    "another form of a word": ("translate this sentence", [*TOOLS, TRANSLATOR], ["translator"]),
    "Chinese": ("我想取消明早7点的闹钟", TOOLS, ["clock_alarm_set"]),
    "other Chinese": ("在上海预订一家酒店", TOOLS, ["hotel_booking"]),
    "an English tool": ("明天天气怎么样", [STOCKS, MAIL, WEATHER], ["get_weather"]),
    "no part of a word": ("i a weather", LETTERS, ["forecast"]),
    "a choice": (
        "where is good sushi",
        {"one": {}, "two": {"input_schema": {"properties": SUSHI}}},
        ["two"],
    ),
    "not who published it": ("weather in Oslo", PUBLISHED, [FORECAST]),
    "its whole name": (f"report with {FORECAST}", [*many(9), ToolSpec(name=FORECAST)], [FORECAST]),
    "what finds an identifier": (
        "who is in the cast of Titanic",
        FILMS,
        ["get_credits", "search_film"],
    ),
    "a name in words": (
        "weather report, export ledger rows",
        [*many(50), ToolSpec(name="export_ledger_rows")],
        ["export_ledger_rows"],
    ),
    "a Chinese name": (
        "weather report 请用查账助手",
        [*many(50), ToolSpec(name="查账助手")],
        ["查账助手"],
    ),
    "no everyday word": (
        "can you help me with the weather in this city",
        EVERYDAY,
        ["get_weather"],
    ),
}


@pytest.mark.parametrize(("query", "tools", "wanted"), FITTING.values(), ids=FITTING)
def test_the_tool_that_fits_comes_first(query: str, tools: Any, wanted: list[str]) -> None:
    assert names(shortlist(query, tools, len(wanted))) == wanted


def test_another_word_for_the_same_thing_is_found() -> None:
    picks = shortlist("will it rain tomorrow?", TOOLS, 1)
    assert names(picks) == ["get_weather"]
    assert picks[0].reason.startswith("related: rain ~ ")


def test_each_part_of_a_request_gets_its_tool() -> None:
    assert "stock_quote" in names(shortlist(REPORTS, [*many(20), MAIL, STOCKS], 3))


@pytest.mark.parametrize(
    "spelling", ["crm.lookupUser", "`crm.lookupUser`", "lookup_user", "lookupUser", "`lookup user`"]
)
def test_a_named_tool_is_always_kept_and_comes_first(spelling: str) -> None:
    named = ToolSpec(name="crm.lookupUser", description="")
    query = f"With {spelling}, make the weather report number 3, the weather report."
    picks = shortlist(query, [*many(50), named], 3)
    assert picks[0].name == "crm.lookupUser"
    assert "named in the request" in picks[0].reason


def test_an_agent_is_found_by_its_card() -> None:
    agent = AgentSpec(
        name="Ledger",
        description="Back office",
        skills=(Skill(name="Reconcile", examples=("Match receipts to invoices",), tags=("tax",)),),
    )
    for query in ("match my receipts", "reconcile my statements", "a question about tax"):
        pick = shortlist(query, [*TOOLS, agent], 1)[0]
        assert (pick.name, pick.kind) == ("Ledger", "agent")


def test_hidden_and_disabled_agents_are_never_picked() -> None:
    shy = AgentSpec(name="shy", description="weather", hidden=True)
    off = AgentSpec(name="off", description="weather", enabled=False)
    assert names(shortlist("weather, `shy`, `off`", [shy, off, WEATHER])) == ["get_weather"]


def test_a_tool_picked_for_the_kind_of_request_says_so() -> None:
    tools = {"notebook": {"description": "Keep notes"}, "web": {"description": "Look in the web"}}
    first, last = shortlist("who is Zygmunt?", tools)
    assert (first.name, first.reason) == ("web", "fits this kind of request")
    assert (last.score, last.reason) == (0.0, "fills the list, nothing in the request matches")


@pytest.mark.parametrize("k", [0, -1, True, False, 2.0, "6", None])
def test_k_must_be_a_positive_whole_number(k: Any) -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        shortlist("weather", TOOLS, k)


def loop() -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["self"] = schema
    return schema


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"description": None, "input_schema": None},
        {"description": 7, "input_schema": True},
        {"input_schema": {"properties": True}},
        {"input_schema": {"properties": {"a": True, "b": None, "c": {"enum": 5, "items": False}}}},
        {"input_schema": {"properties": {1: {"description": ["no"]}}, "required": "x"}},
        {"input_schema": loop()},
        {"description": "lone \ud800 surrogate"},
    ],
)
def test_an_odd_tool_is_ranked_like_any_other(entry: Any) -> None:
    tools = {"odd \udfff": entry, "get_weather": {"description": "weather"}}
    assert names(shortlist("weather \ud83d", tools))[0] == "get_weather"
    assert len(shortlist("", tools)) == 2


def test_a_megabyte_of_request_is_read() -> None:
    assert names(shortlist("weather " + "x" * 500_000 + " y" * 250_000, TOOLS, 1)) == [
        "get_weather"
    ]


class Meaning:
    """A ranker that knows one text."""

    def __init__(self, about: str, values: Sequence[float] = ()) -> None:
        self.about, self.values = about, values

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return self.values or [0.9 if self.about in text else 0.1 for text in texts]


def test_a_semantic_ranker_brings_in_what_no_word_matches() -> None:
    pick = shortlist("zzzz", TOOLS, 1, ranker=Meaning("send email"))[0]
    assert (pick.name, pick.reason) == ("send_email", "similar meaning")


UNHEARD = ("zeppelin", "quark", "gluon", "boson", "lepton", "muon", "tau", "axion", "hadron")


def test_a_ranker_that_loses_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="1 scores for 5 texts"):
        shortlist("weather", TOOLS, ranker=Meaning("", [1.0]))


def test_a_change_of_a_tool_is_seen_even_in_place() -> None:
    tools: dict[str, dict[str, Any]] = {
        "one": {"description": "weather"},
        "two": {"description": "mail", "input_schema": {"properties": {}}},
    }
    assert names(shortlist("pizza", tools, 1)) == ["one"]
    tools["two"]["input_schema"]["properties"]["pizza"] = {}
    assert names(shortlist("pizza", tools, 1)) == ["two"]
    tools["three"] = {"description": "pizza pizza"}
    assert "three" in names(shortlist("pizza", tools, 2))
    del tools["two"]
    assert names(shortlist("pizza", tools, 2)) == ["three", "one"]


def anew(monkeypatch: pytest.MonkeyPatch, cache: Path, mark: str = "kept") -> list[Pick]:
    """What another program picks, which has no index in memory."""
    monkeypatch.setattr("plansmith_planner.ranking.pick._SHELF", IndexCache())
    tools = [ToolSpec(name=f"{mark}_{at}", description=f"weather {mark}") for at in range(5)]
    return shortlist("weather", tools, cache=cache)


def test_the_index_is_kept_on_disk_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = anew(monkeypatch, tmp_path)
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    assert anew(monkeypatch, tmp_path) == first
    assert kept.stat().st_mtime_ns == before
    anew(monkeypatch, tmp_path, "another")
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"4\n0\n{}", b"1\n", b"\xff\xfe"])
def test_a_damaged_index_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    first = anew(monkeypatch, tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage)
    assert anew(monkeypatch, tmp_path) == first
    assert kept.read_bytes() == whole


LIST = files("plansmith_planner.language").joinpath("neighbours.txt").read_text(encoding="utf-8")


def test_the_list_of_neighbours_says_where_it_comes_from() -> None:
    header = [line for line in LIST.splitlines() if line.startswith("#")]
    assert "scripts/make_neighbours.py" in " ".join(header)
    assert "Apache-2.0" in " ".join(header)


def test_the_list_puts_the_commonest_terms_first() -> None:
    places = [entry.place for entry in english_terms().values()]
    assert places == sorted(set(places))
    assert len(places) == LIST.count("\n") - LIST.count("#")


def test_meaning_weighs_more_where_words_answer_little() -> None:
    meaning = Meaning("send email")
    sure = shortlist("weather", TOOLS, ranker=meaning)
    unsure = shortlist(f"weather {' '.join(UNHEARD)}", TOOLS, ranker=meaning)
    assert names(sure)[0] == "get_weather"
    assert names(unsure)[0] == "send_email"


def test_a_ranker_without_an_opinion_changes_nothing() -> None:
    flat = Meaning("", [float("nan")] * len(TOOLS))
    assert names(shortlist("weather", TOOLS, ranker=flat)) == names(shortlist("weather", TOOLS))


ENGLISH = ("weather", "forecast", "mail", "send", "email", "get_user", "sendMail", "a", "I", "file")
WORDS = st.sampled_from((*ENGLISH, "天气", "预报", "酒店", "`", ".", "\ud800", "9"))
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=12).map(" ".join))
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "enum", "required", "description", "q"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
CATALOGUES = st.dictionaries(
    TEXTS,
    st.fixed_dictionaries({}, optional={"description": TEXTS, "input_schema": ODD}),
    max_size=8,
)


@given(query=TEXTS, tools=CATALOGUES, k=st.integers(1, 9))
def test_picks_are_unique_known_and_at_most_k(query: str, tools: dict[str, Any], k: int) -> None:
    names = [pick.name for pick in shortlist(query, tools, k)]
    assert len(names) == len(set(names)) == min(k, len(tools))
    assert set(names) <= tools.keys()


@given(query=TEXTS, tools=CATALOGUES, data=st.data())
def test_the_order_of_the_catalogue_decides_ties_only(
    query: str, tools: dict[str, Any], data: st.DataObject
) -> None:
    shuffled = dict(data.draw(st.permutations(list(tools.items()))))
    one = {pick.name: pick.score for pick in shortlist(query, tools, 9)}
    assert one == {pick.name: pick.score for pick in shortlist(query, shuffled, 9)}
    assert list(one.values()) == sorted(one.values(), reverse=True)
