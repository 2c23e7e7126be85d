from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plansmith_planner.ranking.pick import shortlist

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
    other = {pick.name: pick.score for pick in shortlist(query, shuffled, 9)}
    assert one == other
    assert list(one.values()) == sorted(one.values(), reverse=True)
