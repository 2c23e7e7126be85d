"""Statements of generated documents: one fact in two languages, with questions about it."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, timedelta
from random import Random
from typing import Final, NamedTuple

from lab.training.rows import answers_phrases as phrases
from lab.training.rows import answers_words as words
from lab.training.rows.answers_words import Language, Pair

_MONTHS: Final = tuple(calendar.month_name)[1:]


class Question(NamedTuple):
    """A question with its answer, both in two languages."""

    ask: Pair
    answer: Pair


class Statement(NamedTuple):
    """A fact: what a document says, what can be asked, and how it is said that nothing says it."""

    topic: str
    say: Pair
    questions: tuple[Question, ...]
    unknown: Pair
    field: tuple[Pair, Pair] | None = None
    plainly: Pair | None = None

    @property
    def told(self) -> Pair:
        """The fact as a whole sentence."""
        return self.plainly or self.questions[0].answer


class Subject(NamedTuple):
    """What a document is about; its attributes may be called after it."""

    name: Pair
    is_named: bool = True

    def owns(self, noun: Pair) -> Pair:
        """Returns the noun with its owner: "budget of project Heron"."""
        if not self.is_named:
            return noun
        return Pair(f"{noun.en} of {self.name.en}", f"{self.name.zh}的{noun.zh}")


def upper(text: str) -> str:
    """Returns a sentence with a capital at its start."""
    return text[:1].upper() + text[1:]


def person(rng: Random, language: Language) -> str:
    """Returns a name as it is usual in documents of a language."""
    if rng.random() < (0.85 if language == "zh" else 0.08):
        return rng.choice(words.SURNAMES) + rng.choice(words.GIVEN)
    first, last = rng.choice(words.FIRST), rng.choice(words.LAST)
    title = rng.choice(("Ms", "Mr", "Dr"))
    full = f"{first} {last}"
    return rng.choice((full, full, full, first, f"{title} {last}"))


def _pick(rng: Random, english: str, chinese: str, **slots: Pair) -> Pair:
    """Fills one of the templates of each language, separated by `;`."""
    said = [rng.choice(each.split(";")).strip() for each in (english, chinese)]
    return Pair(
        upper(said[0].format(**{key: each.en for key, each in slots.items()})),
        said[1].format(**{key: each.zh for key, each in slots.items()}),
    )


def day(rng: Random) -> Pair:
    """Returns a day in words, or in digits that are the same in both languages."""
    at = date(2024, 1, 1) + timedelta(days=rng.randrange(1500))
    if rng.random() < 0.2:
        return Pair(at.isoformat(), at.isoformat())
    month = _MONTHS[at.month - 1]
    forms = (f"{at.day} {month} {at.year}", f"{month} {at.day}, {at.year}", f"{at.day} {month}")
    english = rng.choice((*forms[:2], forms[0], forms[2]))
    year = f"{at.year}年" if str(at.year) in english else ""
    return Pair(english, f"{year}{at.month}月{at.day}日")


def money(rng: Random) -> Pair:
    """Returns an amount; the digits are the same in both languages."""
    size = rng.choice((100, 1_000, 10_000, 1_000_000))
    number = rng.randrange(size // 10, size)
    number -= number % rng.choice((1, 5, 10)) if number > 20 else 0
    cents = f".{rng.randrange(100):02}" if size <= 1_000 and rng.random() < 0.5 else ""
    digits = (f"{number:,}" if rng.random() < 0.7 else str(number)) + cents
    return rng.choice(
        (
            Pair(f"€{digits}", f"{digits}欧元"),
            Pair(f"{digits} euros", f"{digits}欧元"),
            Pair(f"EUR {digits}", f"{digits}欧元"),
            Pair(f"${digits}", f"{digits}美元"),
            Pair(f"{digits} USD", f"{digits}美元"),
            Pair(f"£{digits}", f"{digits}英镑"),
            Pair(f"{digits} yuan", f"{digits}元"),
            Pair(f"{digits} yuan", f"{digits}元"),
            Pair(f"CHF {digits}", f"{digits}瑞士法郎"),
        )
    )


def number(rng: Random) -> Pair:
    """Returns a count."""
    digits = str(rng.randrange(2, rng.choice((12, 60, 400))))
    return Pair(digits, digits)


def clock(rng: Random) -> Pair:
    """Returns a time of day."""
    at = f"{rng.randrange(7, 21)}:{rng.choice(('00', '15', '30', '45'))}"
    return Pair(at, at)


def span(rng: Random) -> Pair:
    """Returns a length of time."""
    count = rng.randrange(2, 37)
    unit = rng.choice(
        (
            ("days", "天"),
            ("weeks", "周"),
            ("months", "个月"),
            ("hours", "小时"),
            ("minutes", "分钟"),
        )
    )
    return Pair(f"{count} {unit[0]}", f"{count}{unit[1]}")


_NOUN: Final = (
    (
        "the {a} is {v}.;{a}: {v};the {a} was set at {v}.;a {a} of {v} was agreed.;"
        "please note that the {a} is {v}.;we have fixed the {a} at {v}.;the {a} comes to {v}."
    ),
    "{a}为{v}。;{a}：{v};{a}是{v}。;双方商定{a}为{v}。;请注意，{a}为{v}。;{a}定为{v}。",
)
_ASK_AMOUNT: Final = (
    (
        "how much is the {a}?;what is the {a}?;what's the {a};tell me the {a};how high is the {a}?;"
        "look up the {a}, please;{a}?;I need to know the {a}.;what do the papers say about the {a}?"
    ),
    "{a}是多少？;{a}多少？;查一下{a};告诉我{a}是多少;请问{a}是多少？;{a}有多少？;文件里写的{a}是多少",
)
_ASK_LENGTH: Final = (
    (
        "how long is the {a}?;what is the {a}?;the {a} is how long?;tell me how long the {a} is;"
        "for how long is the {a}?;look up the {a}"
    ),
    "{a}有多长？;{a}是多久？;{a}多长时间；请查一下;请问{a}是多久？;查一下{a};{a}多久",
)


def _noun(
    rng: Random,
    subject: Subject,
    noun: Pair,
    values: tuple[Pair, Pair],
    asks: tuple[str, str],
    unknown: str,
) -> Statement:
    value, other = values
    owned = subject.owns(noun)
    asked = _pick(rng, *asks, a=owned)
    answer = _pick(rng, "the {a} is {v}.", "{a}为{v}。;{a}是{v}。", a=owned, v=value)
    right = Pair(f"Is the {owned.en} {value.en}?", f"{owned.zh}是{value.zh}吗？")
    wrong = Pair(f"Is the {owned.en} {other.en}?", f"{owned.zh}是{other.zh}吗？")
    confirmed = Pair(f"Yes, the {owned.en} is {value.en}.", f"是的，{owned.zh}是{value.zh}。")
    denied = Pair(f"No, the {owned.en} is {value.en}.", f"不是，{owned.zh}是{value.zh}。")
    checked = Question(right, confirmed) if rng.random() < 0.5 else Question(wrong, denied)
    there = _pick(
        rng,
        "is there a {a}?;do the documents mention a {a}?;does it say anything about the {a}?",
        "有提到{a}吗？;文件里有没有写{a}？;有{a}吗？",
        a=owned,
    )
    said = Pair(f"Yes, the {owned.en} is {value.en}.", f"有，{owned.zh}是{value.zh}。")
    return Statement(
        noun.en,
        _pick(rng, *_NOUN, a=noun if rng.random() < 0.6 else owned, v=value),
        (Question(asked, answer), checked, Question(there, said)),
        Pair(f"{unknown} the {owned.en} is", f"{owned.zh}是多少"),
        (Pair(upper(noun.en), noun.zh), value),
    )


def amount(rng: Random, subject: Subject, _language: Language) -> Statement:
    """An amount of money."""
    return _noun(
        rng, subject, rng.choice(words.MONEY), (money(rng), money(rng)), _ASK_AMOUNT, "how much"
    )


def share(rng: Random, subject: Subject, _language: Language) -> Statement:
    """A percentage."""
    rates = [f"{each}{rng.choice(('', '', '.5'))}%" for each in rng.sample(range(1, 60), 2)]
    values = (Pair(rates[0], rates[0]), Pair(rates[1], rates[1]))
    return _noun(rng, subject, rng.choice(words.PERCENT), values, _ASK_AMOUNT, "how high")


def length(rng: Random, subject: Subject, _language: Language) -> Statement:
    """A length of time."""
    return _noun(
        rng, subject, rng.choice(words.DURATION), (span(rng), span(rng)), _ASK_LENGTH, "how long"
    )


def identifier(rng: Random, subject: Subject, _language: Language) -> Statement:
    """A number or code that something is known by."""
    english, chinese, start = rng.choice(words.IDS)
    codes = [f"{start}{rng.randrange(100, 99999)}" for _ in range(2)]
    if start == "v":
        codes = [f"{each}.{rng.randrange(20)}.{rng.randrange(10)}" for each in (1, 2)]
    asks = (
        "what is the {a}?;which {a} is it?;give me the {a};{a}?;I'm looking for the {a}",
        "{a}是什么？;{a}是多少？;把{a}给我;请问{a}？;我要找{a}",
    )
    values = (Pair(codes[0], codes[0]), Pair(codes[1], codes[1]))
    return _noun(rng, subject, Pair(english, chinese), values, asks, "what")


def role(rng: Random, subject: Subject, language: Language) -> Statement:
    """Who somebody is."""
    noun, name = rng.choice(words.ROLES), person(rng, language)
    owned, value = subject.owns(noun), Pair(name, name)
    asked = _pick(
        rng,
        "who is the {a}?;what is the name of the {a}?;who's the {a};name the {a};"
        "do you know who the {a} is?",
        "谁是{a}？;{a}是谁？;{a}叫什么名字？;请问{a}是哪位？;查一下{a}是谁",
        a=owned,
    )
    back = _pick(
        rng, "what is {v}'s role?;who is {v}?", "{v}是谁？;{v}担任什么职务？;{v}是什么人", v=value
    )
    answer = _pick(rng, "the {a} is {v}.", "{a}是{v}。", a=owned, v=value)
    told = _pick(rng, "{v} is the {a}.", "{v}是{a}。", a=owned, v=value)
    return Statement(
        noun.en,
        _pick(
            rng,
            "{v} is the {a}.;the {a} is {v}.;{a}: {v};{v} acts as {a}.;as {a} we named {v}.",
            "{a}是{v}。;{v}担任{a}。;{a}：{v};由{v}担任{a}。",
            a=noun,
            v=value,
        ),
        (Question(asked, answer), Question(back, told)),
        Pair(f"who the {owned.en} is", f"{owned.zh}是谁"),
        (Pair(upper(noun.en), noun.zh), value),
    )


def event(rng: Random, subject: Subject, _language: Language) -> Statement:
    """What happens on a day."""
    who, does, base, chinese, verb = rng.choice(phrases.EVENTS)
    plural = who.endswith("goods")
    owner = f" of {subject.name.en}" if subject.is_named else ""
    owned = f"{subject.name.zh}的{chinese}" if subject.is_named else chinese
    value = day(rng)
    do = "do" if plural else "does"
    if does.startswith("is "):
        asked = f"when is {who}{owner} {does[3:]}?"
    else:
        asked = f"when {do} {who}{owner} {base}?"
    asks = Pair(
        rng.choice(
            (asked, asked, f"on what date {asked[5:]}", f"tell me when {who}{owner} {does}")
        ),
        rng.choice(
            (f"{owned}什么时候{verb}？", f"{owned}哪天{verb}？", f"{owned}的{verb}日期是？")
        ),
    )
    answer = Pair(f"{upper(who)}{owner} {does} on {value.en}.", f"{owned}于{value.zh}{verb}。")
    say = Pair(
        rng.choice(
            (
                f"{upper(who)} {does} on {value.en}.",
                f"On {value.en} {who} {does}.",
                f"As agreed, {who} {does} on {value.en}.",
                f"{upper(who)} {does} on {value.en}, not earlier.",
            )
        ),
        rng.choice(
            (
                f"{chinese}于{value.zh}{verb}。",
                f"{value.zh}，{chinese}{verb}。",
                f"按照约定，{chinese}将于{value.zh}{verb}。",
                f"{chinese}{verb}的时间为{value.zh}。",
            )
        ),
    )
    unknown = Pair(f"when {who}{owner} {does}", f"{owned}什么时候{verb}")
    return Statement(f"{who} {does}", say, (Question(upper_pair(asks), answer),), unknown)


def upper_pair(text: Pair) -> Pair:
    """Returns both sentences, the English one with a capital at its start."""
    return Pair(upper(text.en), text.zh)


def gathering(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """Where and at what time people meet."""
    what, at = rng.choice(phrases.GATHERINGS), clock(rng)
    digits = str(rng.randrange(1, 9))
    room = rng.choice(phrases.ROOMS)
    place = Pair(room.en.format(n=digits), room.zh.format(n=digits))
    say = _pick(
        rng,
        "{w} starts at {t} in {p}.;we meet for {w} at {t} in {p}.;{w}: {t}, {p}.;"
        "{w} is held in {p}, starting at {t}.",
        "{w}{t}在{p}开始。;{w}定于{t}在{p}举行。;{w}：{t}，{p}。;{w}在{p}举行，{t}开始。",
        w=what,
        t=at,
        p=place,
    )
    questions = (
        Question(
            _pick(
                rng,
                "where is {w}?;where does {w} take place?;in which place is {w}?",
                "{w}在哪里？;{w}在什么地方举行？;{w}的地点是？",
                w=what,
            ),
            _pick(rng, "{w} takes place in {p}.", "{w}在{p}举行。", w=what, p=place),
        ),
        Question(
            _pick(
                rng,
                "what time does {w} start?;when does {w} begin?;at what time is {w}?",
                "{w}几点开始？;{w}什么时间开始？;{w}几点",
                w=what,
            ),
            _pick(rng, "{w} starts at {t}.", "{w}{t}开始。", w=what, t=at),
        ),
    )
    unknown = Pair(f"where {what.en} is", f"{what.zh}在哪里")
    return Statement(what.en, say, questions, unknown)


def count(rng: Random, _subject: Subject, _language: Language) -> Statement:
    """How many there are of something."""
    english, measured, chinese = rng.choice(phrases.THINGS)
    value = number(rng)
    thing = Pair(english, chinese)
    say = _pick(
        rng,
        "there are {v} {a}.;in all we have {v} {a}.;{a}: {v};the plan is for {v} {a}.",
        f"共有{{v}}{measured}。;一共{{v}}{measured}。;{{a}}：{{v}};计划安排{{v}}{measured}。",
        a=thing,
        v=value,
    )
    asked = _pick(
        rng,
        "how many {a} are there?;how many {a}?;what is the number of {a}?;count of {a}",
        "有多少{a}？;{a}有多少？;{a}的数量是多少？;一共多少{a}",
        a=thing,
    )
    answer = Pair(f"There are {value.en} {english}.", f"共有{value.zh}{measured}。")
    unknown = Pair(f"how many {english} there are", f"有多少{chinese}")
    return Statement(
        english, say, (Question(asked, answer),), unknown, (Pair(upper(english), chinese), value)
    )


Builder = Callable[[Random, Subject, Language], Statement]
SIMPLE: Final[tuple[Builder, ...]] = (
    amount, share, length, identifier, role, event, gathering, count,
)  # fmt: skip
