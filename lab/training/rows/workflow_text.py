"""Words of requests with several parts: how parts are joined, and what results are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.training.rows.voice import Voice

_IT_EN: Final = {
    "text": ("it", "it", "it", "that", "the text"),
    "number": ("it", "the result", "the number", "that"),
    "amount": ("it", "the result", "that"),
    "list": ("them", "the list", "it", "the result"),
    "phone": ("it", "that number", "them", "her", "him"),
    "email": ("that address", "it", "them"),
    "person": ("them", "her", "him"),
    "moment": ("that time", "then"),
    "point": ("it", "that place", "there"),
    "url": ("it", "the link", "that"),
}
_FOUND_EN: Final = ("it", "the first one", "that one", "the one you find")
_IT_ZH: Final = {
    "text": ("它", "", "其内容", "这段文字"),
    "number": ("结果", "这个数", "它", ""),
    "amount": ("结果", "它", "这个金额"),
    "list": ("它们", "结果", "清单", ""),
    "phone": ("他", "她", "这个号码", "这个电话"),
    "email": ("这个邮箱", "这个地址", "他"),
    "person": ("他", "她"),
    "moment": ("那个时间", "这个时间"),
    "point": ("那里", "这个位置"),
    "url": ("它", "这个链接"),
}
_FOUND_ZH: Final = ("它", "第一个", "找到的那个")
_JOINS: Final = {
    "en": ("{a} and {b}", "{a}, then {b}", "{a} and then {b}", "{a}. Then {b}", "{a}, and {b}"),
    "zh": ("{a}，然后{b}", "{a}，再{b}", "{a}，并{b}", "{a}，{b}", "{a}后{b}", "先{a}，再{b}"),
}
_APART: Final = {
    "en": ("{a}, and {b}", "{a}. Also, {b}", "{a}; {b}", "{a}. {B}", "{a} and {b}"),
    "zh": ("{a}，另外{b}", "{a}，{b}", "{a}；{b}", "{a}。{b}", "{a}，同时{b}"),
}
_BEFORE: Final = {
    "en": ("Quick one: ", "One more thing: ", "Next: ", "My boss asks: ", "OK, ", "Hi, "),
    "zh": ("还有，", "另外，", "对了，", "你好，", "好的，", "下一件事："),
}
_MARKS: Final = "?？.。 "


def pronoun(voice: Voice, kind: str, place: int) -> str:
    """Returns what stands for a result in the next part of a request; may be nothing."""
    if voice.is_zh:
        ways = _IT_ZH.get(kind, _FOUND_ZH)
        return voice.rng.choice(("结果", "") if place > 1 and kind in ("text", "number") else ways)
    ways = _IT_EN.get(kind, _FOUND_EN)
    return voice.rng.choice(("the result", "that", "it") if place > 1 and kind == "text" else ways)


def lowered(text: str) -> str:
    """Returns a part with a small first letter, unless it is a word like `I` or a name."""
    first = text.split(" ", 1)[0]
    return text if not first[1:].islower() else text[:1].lower() + text[1:]


def joined(voice: Voice, parts: Sequence[str], *, apart: bool = False) -> str:
    """Joins the parts of a request; `apart`: they do not need each other."""
    if apart and voice.rng.random() < 0.12:
        return " ".join(f"{n}. {each.rstrip(_MARKS)}" for n, each in enumerate(parts, start=1))
    text = parts[0]
    for part in parts[1:]:
        text = _two(voice, text, part, apart=apart)
    return text


def _two(voice: Voice, first: str, second: str, *, apart: bool) -> str:
    asks = [each.endswith(("?", "？")) for each in (first, second)]
    a, b = first.rstrip(_MARKS), second.rstrip(_MARKS)
    end = second[len(b) :] if asks[1] else ""
    if asks[0] or (asks[1] and not voice.is_zh):
        stop = ("？" if voice.is_zh else "? ") if asks[0] else ". "
        return f"{a}{stop}{b}{end}"
    way = voice.rng.choice((_APART if apart else _JOINS)[voice.lang])
    small = b if voice.is_zh else lowered(b)
    return way.replace("{a}", a).replace("{b}", small).replace("{B}", b) + end


def sentence(voice: Voice, text: str) -> str:
    """Returns a request as a sentence: its first letter, manners, its end."""
    text = " ".join(text.split())
    if voice.rng.random() < 0.04:
        return voice.rng.choice(_BEFORE[voice.lang]) + (text if voice.is_zh else lowered(text))
    roll = voice.rng.random()
    if voice.is_zh:
        if roll < 0.12 and not text.endswith("？"):
            text = voice.rng.choice(("请", "帮我", "麻烦")) + text
        return text + voice.rng.choice(("", "", "。")) if not text.endswith("？") else text
    text = text[:1].upper() + text[1:]
    if roll < 0.12 and not text.endswith("?"):
        way = voice.rng.choice(("Please {}", "Can you {}?", "Could you {}?", "I need you to {}"))
        return way.replace("{}", lowered(text))
    return text + voice.rng.choice(("", "", ".")) if not text.endswith(("?", ".")) else text
