"""Rows in which a text is to be written from a result: letters, lists, notices, translations."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from lab.training.rows.answers_documents import Document, Kind
from lab.training.rows.answers_results import read, target_document
from lab.training.rows.answers_rows import Draft, joined, languages
from lab.training.rows.answers_statements import person
from lab.training.rows.answers_words import Language, Pair

_ASKS: Final = {
    "summary": Pair(
        "a short summary;summarise the text in a few sentences;a summary of the {k};"
        "sum up the main facts;a short summary for the archive;two or three sentences on the {k}",
        "写一份简短的摘要;用几句话总结内容;{k}的总结;概括主要事实;写一段总结;总结这份{k}",
    ),
    "points": Pair(
        "a bullet list of the key points;the main facts as a list;list the most important points;"
        "a Markdown list of what the {k} says;make bullets of it",
        "用列表写出要点;列出主要事实;把要点写成清单;用Markdown列表写出{k}的内容;逐条列出重点",
    ),
    "letter": Pair(
        "a short letter to {n} with the main facts;an email to {n} about the {k};"
        "a friendly mail that tells {n} what the {k} says;write to {n} and pass on the facts",
        "给{n}写一封简短的信，说明主要内容;给{n}写一封关于{k}的邮件;写邮件告诉{n}{k}的内容",
    ),
    "notice": Pair(
        "a notice for the team;an announcement with the facts;a short post for the notice board",
        "写一份团队通知;写一则公告说明这些内容;写一条简短的告示",
    ),
    "translation": Pair(
        "translate it into English;an English translation;put the text into English",
        "翻译成中文;写出中文译文;把内容译成中文",
    ),
}


def written(rng: Random, kinds: Sequence[Kind]) -> Draft:
    """A text of a given form, from the first statements of a document."""
    language, source = languages(rng)
    form = rng.choice(tuple(_ASKS))
    if form == "translation":
        source = "zh" if language == "en" else "en"
    target = target_document(rng, rng.choice(kinds), source, least=2, named=False)
    most = 6 if form in ("points", "translation") else 4
    told = [each.told.says(language) for each in target.statements[:most]]
    name = person(rng, language)
    asks = rng.choice(_ASKS[form].says(language).split(";"))
    request = asks.format(k=target.kind.name.says(language), n=name)
    given = read(target) if rng.random() < 0.7 and form != "translation" else _plain(target, most)
    return Draft(
        kind="write",
        lang=language,
        request=request,
        given=[given],
        answer=_text(form, told, name, language),
        needs=[],
    )


def _plain(given: Document, most: int) -> str:
    lines = [each.say.says(given.language) for each in given.statements[:most]]
    return "\n".join(lines)


def _text(form: str, told: Sequence[str], name: str, language: Language) -> str:
    if form == "points":
        return "\n".join(f"- {each}" for each in told)
    if form == "translation":
        return "\n".join(told)
    body = joined(told, language)
    if form == "letter":
        if language == "zh":
            return f"{name}，您好：\n\n{body}\n\n祝好"
        return f"Dear {name},\n\n{body}\n\nBest regards"
    if form == "notice":
        return f"{'Notice' if language == 'en' else '通知'}\n\n{body}"
    return body
