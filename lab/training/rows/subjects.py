"""Questions about documents on everyday things, where only the listing tells which one is meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.training.rows.naming import people
from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import Lang, call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import World
from plansmith_desk.folder_brief import Entry

BOOK: Final = "subjects"
_ENDINGS: Final = ("md", "txt", "pdf", "docx", "md", "txt", "pdf", "html", "eml")
_READ: Final = frozenset({"md", "txt", "docx", "html"})


@dataclass(frozen=True, slots=True)
class Paper:
    """A document on one thing: what kind of paper it is, and about what."""

    path: str
    kind: str
    subject: str


def _pairs(name: str) -> list[tuple[str, str]]:
    """Returns the words of a list in English and Chinese."""
    book = texts(BOOK)
    return list(zip(book[name, "en"], book[name, "zh"], strict=True))


class SubjectAsker:
    """Asks about papers that it lays into a world."""

    def __init__(self, world: World, voice: Voice) -> None:
        self._world, self._voice, self._rng = world, voice, voice.rng
        other: Lang = "en" if voice.is_zh else "zh"
        self._files: Lang = voice.lang if self._rng.random() < 0.6 else other
        count = self._rng.choice((1, 2, 3, 3, 4, 5))
        subjects = self._rng.sample(self._subjects(), count)
        self._papers = [self._paper(self._rng.choice(_pairs("kinds")), each) for each in subjects]
        taken = {each.path for each in world.entries}
        if taken & {each.path for each in self._papers}:
            raise Unfit

    def _subjects(self) -> list[tuple[str, str]]:
        held = self._voice.part == "validation"
        known = _pairs("subjects")
        return [each for place, each in enumerate(known) if (place % 7 == 3) == held]

    def _paper(self, kinds: tuple[str, str], subjects: tuple[str, str]) -> Paper:
        rng, ending = self._rng, self._rng.choice(_ENDINGS)
        kind, subject = (each[self._files == "zh"] for each in (kinds, subjects))
        if self._files == "zh":
            stem = rng.choice(
                (f"{subject}{kind}", f"{kind}-{subject}", f"{subject}_{kind}", subject)
            )
            title = rng.choice((f"{subject}{kind}", f"关于{subject}的{kind}"))
        else:
            dashed = subject.replace(" ", rng.choice(("-", "_")))
            stem = rng.choice((f"{kind}-{dashed}", f"{dashed}_{kind}", dashed, f"{kind} {subject}"))
            title = f"{kind.capitalize()} for the {subject}"
        if rng.random() < 0.3:
            stem += rng.choice(("_2025", "-2026", "_v2", "_final", "-1", "_03"))
        folder = rng.choice(texts(BOOK)["folders", self._files])
        path = f"{folder}/{stem}.{ending}" if rng.random() < 0.5 else f"{stem}.{ending}"
        details = f"{rng.randrange(1, 20)} pages: {title}" if ending == "pdf" else title
        self._world.entries.append(Entry(path, "" if ending == "eml" else details))
        spoken = self._voice.is_zh
        return Paper(path, kinds[spoken], subjects[spoken])

    def _question(self, paper: Paper, book: str = "questions") -> str:
        person = people(self._rng, self._voice.lang, 1)[0]
        self._voice.kept.append(person)
        return self._voice.say(BOOK, book, s=paper.subject, k=paper.kind, person=person)

    def _lookup(self, text: str, path: str | None) -> Ask:
        self._voice.kept.append(text)
        bare = text.rstrip("?？.。 ")
        said = bare.lower() if self._voice.lower else bare
        return Ask(
            "lookup", text, (call("files.lookup", question=said, path=path),), names_file=True
        )

    def meant(self) -> Ask:
        """Asks about the thing of one paper: its title tells which one is meant."""
        paper = self._rng.choice(self._papers)
        return self._lookup(self._question(paper), paper.path)

    def anywhere(self) -> Ask:
        """Asks about a thing that no title names: any document may tell."""
        mine = {each.subject for each in self._papers}
        spoken = [each[self._voice.is_zh] for each in self._subjects()]
        others = [each for each in spoken if each not in mine]
        paper = Paper("", "", self._rng.choice(others))
        return self._lookup(self._question(paper, "plain"), None)

    def which(self) -> Ask:
        """Asks which paper says something: the meaning is looked up everywhere."""
        paper = self._rng.choice(self._papers)
        return self._lookup(self._question(paper, "which"), None)

    def where(self) -> Ask:
        """Asks in which files an exact word stands."""
        voice = self._voice
        word = self._rng.choice(
            (people(self._rng, voice.lang, 1)[0], self._rng.choice(self._subjects())[voice.is_zh])
        )
        voice.kept.append(word)
        said = word.lower() if voice.lower else word
        text = voice.say(BOOK, "where", x=word)
        return Ask("search", text, (call("files.search", text=said),), names_file=True)

    def read(self) -> Ask:
        paper = self._rng.choice(self._papers)
        text = self._question(paper, "summaries")
        return Ask("read", text, (call("files.read", path=paper.path),), names_file=True)

    def folder(self) -> Ask:
        """Asks for the gist of a folder."""
        inside = sorted({each.path.rpartition("/")[0] for each in self._papers} - {""})
        if not inside:
            raise Unfit
        folder = self._rng.choice(inside)
        self._voice.kept.append(folder)
        text = self._voice.say(BOOK, "folder", f=folder)
        made = call("files.read_all", pattern=f"{folder}/*")
        return Ask("read all", text, (made,), names_file=True)

    def two(self) -> Ask:
        """Asks about two papers at once."""
        if len(self._papers) < 2:
            raise Unfit
        first, second = self._rng.sample(self._papers, 2)
        asks = [self._lookup(self._question(each), each.path) for each in (first, second)]
        a, b = (each.text.rstrip("?？.。 ") for each in asks)
        text = self._voice.either(
            (f"{a}? And {b[:1].lower()}{b[1:]}?",), (f"{a}？另外，{b}？", f"{a}？还有{b}？")
        )
        calls = tuple(each for ask in asks for each in ask.calls)
        if not self._voice.is_zh:
            asked = f"{b[:1].lower()}{b[1:]}"
            calls = (calls[0], call("files.lookup", question=asked, path=second.path))
        return Ask("two questions", text, calls, names_file=True)

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.meant, 40), (self.anywhere, 14), (self.which, 10), (self.where, 9)),
            *((self.read, 10), (self.folder, 6), (self.two, 6)),
        ]
