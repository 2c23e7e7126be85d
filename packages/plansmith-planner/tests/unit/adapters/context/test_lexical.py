from __future__ import annotations

from plansmith_planner.context.lexical import LexicalRanker, terms

TEXTS = ["the price of bolts in Oslo", "订单金额和退款政策", "getUserOrders returns orders", ""]


def best(query: str) -> int:
    scores = LexicalRanker().scores(query, TEXTS)
    return max(range(len(TEXTS)), key=scores.__getitem__)


def test_words_are_found_across_scripts_cases_and_names() -> None:
    assert best("What does a BOLT cost?") == 0
    assert best("退款怎么办") == 1
    assert best("user_order") == 2


def test_nothing_in_common_scores_nothing() -> None:
    assert list(LexicalRanker().scores("天气", TEXTS)) == [0.0] * 4
    assert list(LexicalRanker().scores("the of in", TEXTS)) == [0.0] * 4


def test_terms_are_words_characters_and_pairs() -> None:
    assert terms("Send_mail ＡＢ 天气预报") == [
        "send",
        "mail",
        "ab",
        *"天气预报",
        "天气",
        "气预",
        "预报",
    ]


def test_an_index_is_kept_until_the_texts_change() -> None:
    ranker = LexicalRanker()
    first = ranker.scores("bolts", TEXTS)
    index = ranker._index
    assert ranker.scores("bolts", list(TEXTS)) == first
    assert ranker._index is index
    assert ranker.scores("bolts", ["no", "bolts"])[1] > 0
    assert ranker._index is not index
