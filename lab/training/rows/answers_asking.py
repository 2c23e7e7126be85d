"""How people put a question, and how it is said that no document answers it."""

from __future__ import annotations

from random import Random
from typing import Final

from lab.training.rows.answers_words import Language, Pair

NOT_SAID: Final = Pair("The documents here do not say {u}.", "这里的文件没有提到{u}。")
_AROUND: Final = (
    (
        "{q};{q};{q};{q};Quick question: {q};Please check: {q};{q} Please look it up.;"
        "According to {f}: {q};In {f}, {q};{q} It should be in {f}.;Look into {f}. {q};hey, {q};"
        "I have a question about the {k}: {q};From the {k}: {q};{q} Thanks!"
    ),
    (
        "{q};{q};{q};{q};请问，{q};帮我看看，{q};查一下：{q};根据{f}，{q};看看{f}：{q};"
        "{k}里，{q};我想知道，{q};{q}谢谢;在{f}中，{q};麻烦查下{q};{q};{q};"
        "请告诉我{q};你好，{q};按照{k}，{q};文件{f}里写的，{q};{q}请简短回答。;急，{q};根据文件夹里的资料，{q}"
    ),
)


def as_typed(rng: Random, text: str, language: Language, path: str, name: Pair) -> str:
    """Returns a question as a person types it, at times with the file or what it is."""
    if text[-1] not in "?？.。":
        text += rng.choice(("", "?", ".") if language == "en" else ("", "？", "。"))
    form = rng.choice(_AROUND[language == "zh"].split(";"))
    starts = form.startswith("{q}")
    inside = text if starts or language == "zh" else text[:1].lower() + text[1:]
    if form.startswith("{q} ") and text[-1] not in "?.":
        inside = f"{text}."
    if not starts and text[:2] in ("I ", "I'"):
        inside = text
    said = form.format(q=inside, f=path, k=name.says(language))
    if rng.random() < 0.15:
        said = said.rstrip("?？.。!")
    if language == "en" and rng.random() < 0.12:
        said = said[:1].lower() + said[1:]
    return said
