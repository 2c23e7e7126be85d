from __future__ import annotations

import random
from functools import cache

import pytest
from lab.training.tokenizer import ANSWER_START, Tokenizer, chat_text
from tests.unit.adapters.models.toy_model import Runtime, toy_header, write_toy_model

SAMPLES = [
    "the total of the region in sales.csv",
    '{"calls":[{"tool":"tables.sql","args":{"query":"SELECT SUM(x) FROM \\"a b\\""}}]}',
    "你好，一共多少？二〇二六年 12 月 24 日 ½ Ⅳ ２３",
    "  two\n\n lines\t and \r\n spaces  ",
    "I'LL don't we've 3.5% 12345",
    "é e\u0301 ñ 日本語 한국어 العربية 😀 \u00a0\u2028\u3000x\x85y",
    "<|im_start|>user\nhi<|im_end|>\n",
    "",
]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime(write_toy_model(tmp_path_factory.mktemp("toy") / "toy.gguf"))


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer(toy_header())


@pytest.mark.parametrize("text", SAMPLES)
def test_the_tokenizer_gives_the_ids_of_the_runtime(runtime: Runtime, text: str) -> None:
    assert tokenizer().encode(text) == runtime.tokens(text)


def test_the_tokenizer_splits_arbitrary_signs_like_the_runtime(runtime: Runtime) -> None:
    rng = random.Random(1)
    ranges = [(32, 127), (0x4E00, 0x9FFF), (0xA0, 0x3000), (9, 14), (32, 33)]
    for _ in range(40):
        text = "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(60))
        assert tokenizer().encode(text) == runtime.tokens(text)


@pytest.mark.parametrize("text", SAMPLES)
def test_the_tokenizer_reads_back_what_it_wrote(text: str) -> None:
    assert tokenizer().decode(tokenizer().encode(text)) == text


def test_a_chat_is_written_as_the_template_of_the_runtime_writes_it(runtime: Runtime) -> None:
    messages = [("system", "Be short. "), ("user", "Tools:\nx\nRequest: 你好")]
    assert chat_text(messages) + ANSWER_START == runtime.chat(messages)
