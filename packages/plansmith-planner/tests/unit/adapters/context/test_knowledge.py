from __future__ import annotations

from pathlib import Path

import pytest

from plansmith.errors import Misconfigured
from plansmith_planner.context.knowledge import KnowledgeSource
from plansmith_planner.models.tokens import count_tokens

TERMS: dict[str, object] = {
    "GMV": {"explanation": "gross merchandise value", "synonyms": ["交易总额"]},
    "churn": "customers who left",
    "复购率": "三十天内再次购买的客户比例",
}
MANY = {**TERMS, **{f"term{at}": "nothing of note" for at in range(100)}}


async def text_of(source: KnowledgeSource, query: str, tokens: int = 500) -> str:
    blocks = await source.gather(query, token_limit=tokens)
    assert sum(count_tokens(block.text) for block in blocks) <= tokens
    return "\n".join(block.text for block in blocks)


async def test_few_terms_are_all_told_and_the_named_ones_first() -> None:
    text = await text_of(KnowledgeSource(TERMS), "How high is the churn?")
    assert text.splitlines() == [
        "- churn: customers who left",
        "- GMV (also: 交易总额): gross merchandise value",
        "- 复购率: 三十天内再次购买的客户比例",
    ]


@pytest.mark.parametrize(
    ("query", "first"),
    [("gmv by month", "- GMV"), ("本月交易总额", "- GMV"), ("复购率是多少", "- 复购率")],
)
async def test_of_many_terms_those_of_the_request_are_told(query: str, first: str) -> None:
    text = await text_of(KnowledgeSource(MANY), query)
    assert text.startswith(first)
    assert "term99" not in text


async def test_a_part_of_a_word_is_not_the_term() -> None:
    assert await text_of(KnowledgeSource({"AI": "x", **MANY}), "wait for the mail") == ""


async def test_what_does_not_fit_is_counted() -> None:
    text = await text_of(KnowledgeSource(MANY), "nothing of note", 120)
    assert "more terms that fit are left out]" in text
    long = KnowledgeSource({"a": "x " * 5000})
    assert "characters left out]" in await text_of(long, "a", 100)
    assert await text_of(long, "a", 3) == ""
    assert await text_of(KnowledgeSource({}), "a") == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.yaml", "GMV: {explanation: gross merchandise value, synonyms: 交易总额}\nchurn: left"),
        ("t.json", '{"GMV": {"explanation": "gross", "synonyms": ["交易总额"]}, "churn": "left"}'),
    ],
)
async def test_terms_are_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    [block] = await KnowledgeSource(tmp_path / name).gather("churn", token_limit=500)
    assert block.source == name
    assert "- GMV (also: 交易总额): gross" in block.text
    assert [block] == await KnowledgeSource(str(tmp_path / name)).gather("churn", token_limit=500)


@pytest.mark.parametrize(
    "text",
    [
        "- a",
        "a: 1",
        "a: [x]",
        "a: {b: c}",
        "a: b: c",
        "a: {explanation: x, synonyms: 3}",
        "a: {explanation: x, more: y}",
        "x" * 5_000_001,
    ],
)
async def test_a_wrong_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured) as caught:
        await KnowledgeSource(tmp_path / "t.yaml").gather("x", token_limit=100)
    assert caught.value.hint
    with pytest.raises(Misconfigured, match="cannot read"):
        await KnowledgeSource(tmp_path / "none.yaml").gather("x", token_limit=100)
