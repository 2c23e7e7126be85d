"""Questions about papers of everyday folders, in the language of the paper or in the other one.

The paper is named in the call only where the request points to it: by its file or by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lab.training.rows.answers_papers import PAPERS, VALIDATION_PAPERS, Sheet, sheet
from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import World
from plansmith.text import clip
from plansmith_desk.folder_brief import Entry
from plansmith_planner.language.characters import HAN

BOOK: Final = "paper_phrases"
_MAX_TITLE: Final = 60
_NAMES: Final = re.compile(
    r"[A-Z]{1,3}-?\d{4,5}|\d{3}-\d{4}|\b[A-Z][a-z]{2,} [A-Z][a-z]{2,}\b|[a-z]+@[a-z]+\.example"
)
_ENDS: Final = "?？.。 "


class PaperAsker:
    """Asks about papers that it lays into a world."""

    def __init__(self, world: World, voice: Voice) -> None:
        self._voice, self._rng = voice, voice.rng
        known = PAPERS if voice.part == "train" else VALIDATION_PAPERS
        chosen = self._rng.sample(known, min(len(known), self._rng.choice((2, 3, 3, 4, 5, 6, 8))))
        made = [sheet(self._rng, each) for each in chosen]
        taken = {each.path for each in world.entries}
        self.sheets = [each for each in made if each.path not in taken]
        if len({each.path for each in self.sheets}) < len(self.sheets) or not self.sheets:
            raise Unfit
        world.entries += [self._entry(each) for each in self.sheets]

    def _entry(self, made: Sheet) -> Entry:
        """Returns what the folder's lines tell of a paper: its first line, as the product does."""
        lines = (line.strip(" \t#*=-_<>!") for line in made.text.splitlines())
        first = next((line for line in lines if any(map(str.isalnum, line))), "")
        longest = _MAX_TITLE // (2 if HAN.search(first) else 1)
        title = clip(" ".join(first.split()), longest)
        if made.path.endswith(".pdf"):
            title = f"{self._rng.randrange(1, 9)} pages: {title}"
        return Entry(made.path, title)

    # -- words

    def _pick(self, *, answered: bool = True) -> tuple[Sheet, str]:
        """Returns a paper and a question about it in the language of the request."""
        made = self._rng.choice(self.sheets)
        asked = [
            way.strip()
            for each in made.asked
            if answered == (each.answer is not None)
            for way in each.ask.says(self._voice.lang).split("/ ")
            if way.strip()
        ]
        if not asked:
            raise Unfit
        question = self._rng.choice(asked)
        self._voice.kept.append(question)
        return made, question[:1].upper() + question[1:]

    def _name(self, made: Sheet) -> str:
        """Returns what a request calls a paper; two of one name would not be told apart."""
        name = made.paper.name.says(self._voice.lang)
        if [each.paper.name for each in self.sheets].count(made.paper.name) > 1 or not name:
            raise Unfit
        self._voice.kept.append(name)
        return name

    def _asked(self, text: str, question: str, path: str | None) -> Ask:
        bare = question.rstrip(_ENDS)
        said = bare.lower() if self._voice.lower else bare
        return Ask(
            "lookup", text, (call("files.lookup", question=said, path=path),), names_file=True
        )

    # -- requests

    def bare(self) -> Ask:
        """Asks without a word about the paper: any of them may tell."""
        made, question = self._pick(answered=self._rng.random() < 0.85)
        return self._asked(question, question, made.path if made.paper.is_named else None)

    def pointed(self) -> Ask:
        """Asks with the name of the paper: its title or its file tells which one is meant."""
        made, question = self._pick(answered=self._rng.random() < 0.9)
        way = self._voice.pick(texts(BOOK)["pointed", self._voice.lang])
        said = question
        if not self._voice.is_zh and not re.search(r"[:.-] \{q\}|^\{q\}", way):
            said = question[:1].lower() + question[1:]
        text = self._voice.fill(way, q=said, k=self._name(made))
        return self._asked(text, question, made.path)

    def in_file(self) -> Ask:
        made, question = self._pick()
        return self._asked(self._voice.mention(question, made.path), question, made.path)

    def whole(self) -> Ask:
        made = self._rng.choice(self.sheets)
        named = self._rng.random() < 0.3
        name = self._voice.file(made.path) if named else self._name(made)
        text = self._voice.say(BOOK, "whole", k=name).replace("the the ", "the ")
        if named and not self._voice.is_zh:
            text = text.replace(f"the {name}", name, 1)
        return Ask("read", text, (call("files.read", path=made.path),), names_file=True)

    def which(self) -> Ask:
        _, question = self._pick()
        low = question if self._voice.is_zh else question[:1].lower() + question[1:]
        text = self._voice.say(BOOK, "which", q=low)
        return self._asked(text, text, None)

    def mentions(self) -> Ask:
        """Asks in which files an exact name or number stands."""
        made = self._rng.choice(self.sheets)
        found = sorted(set(_NAMES.findall(made.text)))
        if not found:
            raise Unfit
        word = self._rng.choice(found)
        self._voice.kept.append(word)
        said = word.lower() if self._voice.lower else word
        text = self._voice.say(BOOK, "mentions", x=word)
        return Ask("search", text, (call("files.search", text=said),), names_file=True)

    def both(self) -> Ask:
        """Asks two things, each of a paper that is named or of none."""
        first, second = (
            self._rng.choice((self.pointed, self.bare, self.in_file))() for _ in range(2)
        )
        if first.calls == second.calls:
            raise Unfit
        text = self._voice.say(BOOK, "both", a=first.text, b=second.text)
        return Ask("two questions", text, (*first.calls, *second.calls), names_file=True)

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.bare, 34), (self.pointed, 24), (self.in_file, 8), (self.whole, 10)),
            *((self.which, 6), (self.mentions, 6), (self.both, 8)),
        ]
