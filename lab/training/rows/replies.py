"""Requests that no tool of the folder answers: greetings, general questions, other deeds."""

from __future__ import annotations

from dataclasses import dataclass

from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice


@dataclass(frozen=True, slots=True)
class Said:
    """A request and the reply to it."""

    kind: str
    text: str
    reply: str


def apology(deed: str, voice: Voice) -> str:
    """Returns the sentence that says what cannot be done."""
    return f"这里没有能{deed}的工具。" if voice.is_zh else f"None of the tools here can {deed}."


def known_fact(voice: Voice) -> Said:
    """Returns a question of general knowledge with its answer."""
    book = texts("facts")
    kind = voice.rng.choice(sorted({name for name, _ in book if "." not in name}))
    a, _, b = voice.pick(book[f"{kind}.pairs", voice.lang]).partition(" = ")
    way = voice.rng.choice(book[kind, voice.lang])
    text, _, reply = way.replace("{a}", a).replace("{b}", b).partition(" => ")
    voice.kept.append(text)
    return Said("facts", text, reply)


def spoken(voice: Voice) -> Said:
    """Returns a request that gets a reply."""
    kind = voice.rng.choices(("chat", "facts", "known", "deeds"), (10, 12, 33, 45))[0]
    if kind == "known":
        return known_fact(voice)
    line = voice.pick(texts("replies")[kind, voice.lang])
    text, _, reply = line.partition(" => ")
    person = voice.rng.choice(texts("people")["people", voice.lang])
    text = text.replace("{person}", person)
    voice.kept.append(text)
    if kind == "deeds":
        return Said("impossible", text, apology(reply, voice))
    return Said(kind, text, reply)
