"""Requests that no tool of the folder answers: greetings, general questions, other deeds."""

from __future__ import annotations

from dataclasses import dataclass

from training.rows.texts import texts
from training.rows.voice import Voice


@dataclass(frozen=True, slots=True)
class Said:
    """A request and the reply to it."""

    kind: str
    text: str
    reply: str


def apology(deed: str, voice: Voice) -> str:
    """Returns the sentence that says what cannot be done."""
    return f"这里没有能{deed}的工具。" if voice.is_zh else f"None of the tools here can {deed}."


def spoken(voice: Voice) -> Said:
    """Returns a request that gets a reply."""
    kind = voice.rng.choices(("chat", "facts", "deeds"), (14, 26, 60))[0]
    line = voice.pick(texts("replies")[kind, voice.lang])
    text, _, reply = line.partition(" => ")
    person = voice.rng.choice(texts("people")["people", voice.lang])
    text = text.replace("{person}", person)
    voice.kept.append(text)
    if kind == "deeds":
        return Said("impossible", text, apology(reply, voice))
    return Said(kind, text, reply)
