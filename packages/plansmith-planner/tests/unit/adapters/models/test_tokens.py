from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith_planner.models.tokens import count_tokens

# The right column is the largest count of GPT-4, GPT-4o, Qwen, DeepSeek and Claude 2, measured
# once with their vocabularies.
MEASURED: dict[str, tuple[str, int]] = {
    "English prose": (
        (
            "The planner reads a person's request, chooses the tools it needs, and writes "
            "a plan that is checked before anyone approves it. Nothing is dropped "
            "silently: every change is shown to the reviewer."
        ),
        41,
    ),
    "Chinese": (
        "今天天气很好，我们一起去公园散步。请帮我查询北京到上海的航班，并预订一家价格合适的酒店，然后把行程发到我的邮箱。",
        61,
    ),
    "German": (
        (
            "Die Geschwindigkeitsbegrenzung gilt für alle Verkehrsteilnehmer, die außerhalb "
            "geschlossener Ortschaften unterwegs sind."
        ),
        39,
    ),
    "Japanese": ("明日の天気を調べて、雨が降りそうなら会議をオンラインに変更してください。", 40),
    "Korean": ("내일 서울의 날씨를 확인하고 비가 오면 회의를 온라인으로 바꿔 주세요.", 41),
    "Russian": ("Проверьте погоду на завтра и перенесите встречу, если будет дождь.", 33),
    "JSON": (
        '{"steps":[{"id":"find","tool":"search_flights","inputs":{"from":"BER","to":"LIS","date":"2026-03-14","max_price":250}},{"id":"mail","tool":"send_email","after":["find"],"inputs":{"to":"ann@example.com","body":{"$from":"find","$path":["items",0,"title"]}}}]}',
        84,
    ),
    "Python": (
        (
            "def total(prices: list[float], *, tax: float = 0.19) -> float:\n"
            '    """The sum with tax."""\n'
            "    result = 0.0\n"
            "    for price in prices:\n"
            "        result += price * (1 + tax)\n"
            "    return round(result, 2)\n"
        ),
        61,
    ),
    "numbers": ("3.14159 2718 1000000 42 1999-12-31 23:59:59", 43),
    "base64": (
        "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
        69,
    ),
    "emoji": ("well done 🎉🚀👍🏽", 14),
}


@pytest.mark.parametrize("kind", MEASURED)
def test_the_estimate_is_on_the_high_side_but_not_far_off(kind: str) -> None:
    text, most = MEASURED[kind]
    assert most <= count_tokens(text) <= 1.5 * most + 3


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.text())
def test_any_text_has_a_count_and_more_text_never_has_a_much_smaller_one(a: str, b: str) -> None:
    # Two words may grow together at the seam.
    assert count_tokens(a + b) + 3 >= max(count_tokens(a), count_tokens(b))
