"""Deeds in the world outside that no tool of a folder does, and texts about them that one does."""

from __future__ import annotations

from typing import Final

from lab.training.rows.naming import cities, people
from lab.training.rows.queries import Ask
from lab.training.rows.replies import Said, apology
from lab.training.rows.row import call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import World

BOOK: Final = "deeds"
_NAMES_EN: Final = ("letter", "draft", "note", "mail", "text", "invitation", "list", "message")
_NAMES_ZH: Final = ("信", "草稿", "便条", "邮件", "文本", "通知", "清单", "留言")


def _slots(world: World, voice: Voice) -> dict[str, str]:
    rng, lang, book = voice.rng, voice.lang, texts(BOOK)
    files = [each for each in world.paths if ".db/" not in each and ".sqlite/" not in each]
    slots = {
        "person": people(rng, lang, 1)[0],
        "place": cities(rng, lang, 1)[0],
        "firm": rng.choice(book["firms", lang]),
        "thing": rng.choice(book["things", lang]),
        "day": rng.choice(book["days", lang]),
        "time": rng.choice(book["times", lang]),
        "n": str(rng.choice((2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 50, 100))),
        "file": rng.choice(files) if files else "notes.txt",
    }
    voice.kept += slots.values()
    return slots


def impossible_deed(world: World, voice: Voice) -> Said:
    """Returns a deed that cannot be done here, with the sentence that says so."""
    way, _, deed = voice.pick(texts(BOOK)["deeds", voice.lang]).partition(" => ")
    return Said("impossible", voice.fill(way, **_slots(world, voice)), apology(deed, voice))


def written_draft(world: World, voice: Voice) -> Ask:
    """Returns a text that is to be written into a file: what can be done of such a deed."""
    slots = _slots(world, voice)
    name = voice.exact(voice.rng.choice(_NAMES_ZH if voice.is_zh else _NAMES_EN))
    path = f"{name}{voice.rng.choice(('', '', '-1', '_2026'))}.{voice.rng.choice(('txt', 'md'))}"
    voice.kept.append(path)
    way, _, told = voice.pick(texts("drafts")["drafts", voice.lang]).partition(" => ")
    text, instruction = (voice.fill(each, path=path, **slots) for each in (way, told))
    voice.kept.append(instruction)
    calls = (
        call("words.make", instruction=instruction.lower() if voice.lower else instruction),
        call("files.write", path=path, text="$1"),
    )
    return Ask("words", text, calls, names_file=True)
