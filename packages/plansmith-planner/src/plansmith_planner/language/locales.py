"""Detects the language of a request offline, by its scripts and its most common words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plansmith_planner.language import lines, word_list
from plansmith_planner.language.characters import HAN, READ_BY_RULES
from plansmith_planner.language.verbs import ORDERS

DEFAULT: Final = "en"

_TAG: Final = re.compile(r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{4}))?(?:[-_]([A-Za-z]{2}|[0-9]{3}))?")
# Code, addresses and tool names say nothing about the language of a text.
_CODE: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|(?<!\w)\w++://[^\s\u3000-\u9fff]+|(?<![\w.+-])[\w.+-]++@[\w.-]+"
    r"|(?<![A-Za-z0-9])[A-Za-z0-9]++(?:[_.:/\\-][A-Za-z0-9]+)+|\b[a-z]+[A-Z]\w*|<<\w+>>|\{\{[^{}]*\}\}",
    re.DOTALL | re.ASCII,
)
_SCRIPTS: Final[Mapping[str, re.Pattern[str]]] = {
    "han": HAN,
    "kana": re.compile("[\u3041-\u30fa\u31f0-\u31ff\uff66-\uff9d]"),
    "ko": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]"),
    "cyrillic": re.compile("[\u0400-\u052f]+"),
    "arabic": re.compile("[\u0620-\u064a\u066e-\u06d3\u0750-\u077f]+"),
    "hi": re.compile("[\u0900-\u097f]+"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "he": re.compile("[\u05d0-\u05ea]+"),
    "el": re.compile("[\u0370-\u03ff\u1f00-\u1fff]+"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+(?:['’][A-Za-z]+)?"),
}
# How many words one match counts as; a Chinese or Japanese character is less than a word.
_WEIGHTS: Final = {"han": 0.6, "kana": 0.6, "ko": 0.6, "th": 0.25}

_TRADITIONAL: Final = word_list("traditional")
_SIMPLIFIED: Final = word_list("simplified")
_COMMON: Final[Mapping[str, frozenset[str]]] = {
    language: frozenset(words) for language, *words in map(str.split, lines("common_words.txt"))
}
_LETTERS: Final[Mapping[str, frozenset[str]]] = {
    language: frozenset(letters) for language, letters in map(str.split, lines("letters.txt"))
}


def locale_of(text: str, given: str = "") -> str:
    """Returns the language tag of a text, such as `zh-CN`; keeps a valid given tag."""
    return normal_tag(given) or _detected(text[:READ_BY_RULES])


def normal_tag(tag: str) -> str:
    """Returns a language tag in normal form, `zh_cn` as `zh-CN`; empty if it is invalid."""
    found = _TAG.fullmatch(tag.strip().partition(".")[0])
    if found is None:
        return ""
    language, script, region = found.groups()
    parts = (language.lower(), script and script.title(), region and region.upper())
    return "-".join(part for part in parts if part)


def _detected(text: str) -> str:
    prose = _CODE.sub(" ", text)
    weights = _weights(prose)
    if not any(weights.values()):
        prose, weights = text, _weights(text)
    words = [word.lower() for word in _SCRIPTS["latin"].findall(prose)]
    is_order = prose.lstrip()[:1].isascii() and bool(words) and words[0] in ORDERS
    weights["latin"] += is_order
    # A foreign sentence with English names counts as foreign, unless its grammar is English.
    if not is_order and _COMMON["en"].isdisjoint(words):
        rest = {script: weight for script, weight in weights.items() if script != "latin"}
        weights = rest if any(rest.values()) else weights
    best = max(weights, key=weights.__getitem__)
    return _of_script(best, prose) if weights[best] else DEFAULT


def _weights(text: str) -> dict[str, float]:
    found = {
        name: len(pattern.findall(text)) * _WEIGHTS.get(name, 1.0)
        for name, pattern in _SCRIPTS.items()
    }
    kana, han = found.pop("kana"), found.pop("han")
    is_japanese = kana > 0 and kana >= 0.15 * (kana + han)
    return found | {"ja" if is_japanese else "zh": han + kana}


def _of_script(script: str, text: str) -> str:
    match script:
        case "zh":
            traditional = sum(letter in _TRADITIONAL for letter in text)
            simplified = sum(letter in _SIMPLIFIED for letter in text)
            return "zh-TW" if traditional > simplified else "zh-CN"
        case "latin":
            return _of_words(text.lower())
        case "cyrillic":
            return "uk" if re.search("[іїєґ]", text.lower()) else "ru"
        case "arabic":
            return "fa" if re.search("[پچژگ]", text) else "ar"
        case _:
            return script


def _of_words(text: str) -> str:
    words = [word.replace("’", "'") for word in _SCRIPTS["latin"].findall(text)]
    votes = dict.fromkeys([DEFAULT, *_COMMON, *_LETTERS], 0)
    for language, common in _COMMON.items():
        votes[language] += sum(word in common for word in words)
    votes[DEFAULT] += bool(words) and words[0] in ORDERS
    for language, letters in _LETTERS.items():
        votes[language] += 2 * sum(letter in letters for letter in text)
    return max(votes, key=votes.__getitem__)
