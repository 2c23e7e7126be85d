from __future__ import annotations

import re

import pytest

from plansmith.cli.ui.own_locale import own_locale
from plansmith.cli.ui.words import words_for
from plansmith.plan.run import RunStatus, StepStatus

ENGLISH, CHINESE = words_for("en"), words_for("zh")


def places(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


def test_both_languages_have_the_same_words_with_the_same_places() -> None:
    assert ENGLISH.keys() == CHINESE.keys()
    for key, text in ENGLISH.items():
        assert places(text) == places(CHINESE[key]), key
        assert CHINESE[key] != text


@pytest.mark.parametrize("status", sorted({each.value for each in (*RunStatus, *StepStatus)}))
def test_every_status_has_a_word_in_both(status: str) -> None:
    assert ENGLISH[status]
    assert CHINESE[status]


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "de_DE"}, "de-DE"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US"}, "zh-TW"),
    ],
)
def test_the_environment_says_the_language(environment: dict[str, str], locale: str) -> None:
    assert own_locale(environment) == locale
    assert words_for(locale) is (CHINESE if locale.startswith("zh") else ENGLISH)
