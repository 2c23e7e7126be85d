"""Makes values of tools of many trades: as requests say them, and as calls take them."""

from __future__ import annotations

import re
from datetime import datetime
from random import Random
from typing import Any, Final

from lab.training.rows.naming import cities, people
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.workflow_moments import said_day, said_minutes, said_moment, said_time

_BOOK: Final = "workflow_words"
_IN_WORDS: Final = 0.3
_SLOT: Final = re.compile(r"\{(\w+)\}")
# Code: English words, Chinese words.
_CURRENCIES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "EUR": (("euros", "euro", "EUR"), ("欧元",)),
    "USD": (("US dollars", "dollars", "USD"), ("美元", "美金")),
    "GBP": (("British pounds", "pounds", "pounds sterling", "GBP"), ("英镑",)),
    "CNY": (("Chinese yuan", "yuan", "renminbi", "CNY"), ("人民币", "元人民币")),
    "JPY": (("Japanese yen", "yen", "JPY"), ("日元", "日币")),
    "CHF": (("Swiss francs", "CHF"), ("瑞士法郎",)),
    "SEK": (("Swedish kronor", "SEK"), ("瑞典克朗",)),
    "NOK": (("Norwegian kroner",), ("挪威克朗",)),
    "DKK": (("Danish kroner",), ("丹麦克朗",)),
    "PLN": (("Polish zloty", "zlotys"), ("波兰兹罗提",)),
    "CZK": (("Czech koruna",), ("捷克克朗",)),
    "HUF": (("Hungarian forints",), ("匈牙利福林",)),
    "CAD": (("Canadian dollars", "CAD"), ("加元", "加拿大元")),
    "AUD": (("Australian dollars", "AUD"), ("澳元", "澳大利亚元")),
    "NZD": (("New Zealand dollars",), ("新西兰元",)),
    "HKD": (("Hong Kong dollars",), ("港币", "港元")),
    "SGD": (("Singapore dollars",), ("新加坡元", "新币")),
    "KRW": (("Korean won", "won"), ("韩元", "韩币")),
    "INR": (("Indian rupees", "rupees"), ("印度卢比",)),
    "BRL": (("Brazilian reais",), ("巴西雷亚尔",)),
    "MXN": (("Mexican pesos",), ("墨西哥比索",)),
    "TRY": (("Turkish lira",), ("土耳其里拉",)),
    "THB": (("Thai baht", "baht"), ("泰铢",)),
    "ZAR": (("South African rand",), ("南非兰特",)),
}
# Code: English name, Chinese name.
_LANGUAGES: Final = {
    "de": ("German", "德语"), "fr": ("French", "法语"), "es": ("Spanish", "西班牙语"),
    "it": ("Italian", "意大利语"), "pt": ("Portuguese", "葡萄牙语"), "en": ("English", "英语"),
    "zh": ("Chinese", "中文"), "ja": ("Japanese", "日语"), "ko": ("Korean", "韩语"),
    "ru": ("Russian", "俄语"), "ar": ("Arabic", "阿拉伯语"), "nl": ("Dutch", "荷兰语"),
}  # fmt: skip
_ENDINGS: Final = {
    "file": ("txt", "md", "log", "docx", "pdf", "json", "csv", "html"),
    "picture": ("png", "jpg", "webp"),
    "sound": ("mp3", "wav", "m4a"),
    "sheet": ("xlsx", "csv"),
    "database": ("db", "sqlite"),
    "archive": ("zip", "tar.gz"),
}
_LISTS: Final = {
    "todo": "doing", "message": "saying", "text": "saying", "question": "asking",
    "product": "product", "song": "song", "book": "book", "scene": "scene", "food": "food",
}  # fmt: skip


class Values:
    """Makes the values of one request."""

    def __init__(self, voice: Voice, now: datetime) -> None:
        self._voice, self._now = voice, now

    @property
    def _rng(self) -> Random:
        return self._voice.rng

    def value(self, kind: str, form: str = "") -> tuple[str, Any]:
        """Returns what a request says for an argument of a kind, and what its call takes."""
        name, _, detail = kind.partition("(")
        detail = detail.removesuffix(")")
        if name == "list":
            return self._several(detail)
        said, value = self._one(name, detail, form)
        self._voice.kept.append(said)
        if self._voice.lower and said == value and name not in ("currency", "pick"):
            value = said.lower()
        return said, value

    def _one(self, name: str, detail: str, form: str) -> tuple[str, Any]:
        match name:
            case "int":
                low, high = map(int, detail.split(".."))
                number = self._rng.randint(low, high)
                words = self._rng.random() < _IN_WORDS
                return (self._voice.number(number) if words else str(number)), number
            case "money":
                return self._number()
            case "currency":
                return self._currency()
            case "lang":
                return self._language(form)
            case "pick" | "word" | "bool":
                return self._chosen(name, detail)
            case "date" | "time" | "datetime" | "minutes":
                return self._moment(name, form)
            case _:
                text = self._text(name, detail)
                return text, text

    def _moment(self, name: str, form: str) -> tuple[str, Any]:
        match name:
            case "date":
                said, day = said_day(self._voice, self._now)
                return said, day.isoformat()
            case "time":
                return said_time(self._voice)
            case "minutes":
                return said_minutes(self._voice, seconds=form == "seconds")
            case _:
                return said_moment(self._voice, self._now, form)

    def _number(self) -> tuple[str, Any]:
        rng = self._rng
        roll = rng.random()
        if roll < 0.6:
            number: Any = rng.choice((rng.randint(2, 99), rng.randint(100, 9_900)))
            number = number - number % 50 or number if roll < 0.25 else number
            grouped = number >= 1000 and rng.random() < 0.3
            return (f"{number:,}" if grouped else str(number)), number
        number = round(rng.uniform(1, 900), rng.choice((1, 2)))
        return str(number), number

    def _currency(self) -> tuple[str, str]:
        code = self._rng.choice([*_CURRENCIES, *("EUR", "USD", "GBP", "CNY", "JPY") * 2])
        return self._rng.choice(_CURRENCIES[code][self._voice.is_zh]), code

    def _language(self, form: str) -> tuple[str, str]:
        code = self._rng.choice([*_LANGUAGES])
        name, chinese = _LANGUAGES[code]
        said = chinese if self._voice.is_zh else name
        return said, {"codes": code, "code": code, "names": name}.get(form, said)

    def _chosen(self, name: str, detail: str) -> tuple[str, Any]:
        value, _, words = self._rng.choice(detail.split(",")).strip().partition("=")
        en, _, zh = (words or value).partition("~")
        said = self._rng.choice(((zh or en) if self._voice.is_zh else en).split("/"))
        if name == "bool":
            return said, True
        return said, said if name == "word" else value.partition("~")[0]

    def _several(self, detail: str) -> tuple[str, Any]:
        pairs = dict(self.value(detail) for _ in range(self._rng.choice((2, 2, 3, 3, 4))))
        said = list(pairs)
        if self._voice.is_zh:
            joined = "、".join(said[:-1]) + self._rng.choice(("和", "、")) + said[-1]
        else:
            joined = ", ".join(said[:-1]) + " and " + said[-1]
        return (joined if len(said) > 1 else said[0]), list(pairs.values())

    def _text(self, name: str, detail: str) -> str:
        rng, lang = self._rng, self._voice.lang
        if name in _LISTS:
            return self._filled(rng.choice(texts(_BOOK)[_LISTS[name], lang]))
        match name:
            case "person":
                return self._person()
            case "city":
                return cities(rng, lang, 1)[0]
            case "channel":
                return rng.choice(("", "#")) + rng.choice(texts(_BOOK)["channel", lang])
            case "id":
                return self._id(detail)
            case "branch":
                version = f"release/{rng.randrange(1, 9)}.{rng.randrange(9)}"
                return rng.choice(("main", "develop", version))
            case "title":
                own = rng.choice(texts(_BOOK)["event", lang]).capitalize()
                return rng.choice((own, rng.choice(texts("toolbox_texts")["titles", lang])))
            case _:
                return self._file(name) if name in _ENDINGS else self._address(name)

    def _id(self, prefix: str) -> str:
        """Returns the number of a thing, as offices write them."""
        rng = self._rng
        number = rng.randrange(10, 10 ** rng.choice((3, 4, 6)))
        if rng.random() < 0.6:
            return f"{prefix}{rng.choice(('-', '', '_'))}{number}"
        year, letters = rng.randrange(10, 28), "".join(rng.choices("ABCEHKLMRTVXZ", k=2))
        return rng.choice(
            (
                str(rng.randrange(10, 10 ** rng.choice((3, 4, 6, 10)))),
                f"{prefix} {number}",
                f"{number}/{year}",
                f"{letters}{1900 + year}-{rng.randrange(1, 99)}",
                f"{rng.choice(('I', 'II', 'IV', 'VI', 'XII'))} {letters} {number}/{year}",
                f"{letters[0]}-{letters} {number}",
                f"{number}-{letters}",
                f"{prefix}-{year}-{number}",
            )
        )

    def _address(self, name: str) -> str:
        rng, zh = self._rng, self._voice.is_zh
        words = texts("names")["words", "en"]
        match name:
            case "url":
                page = rng.choice(words)
                ends = ("", f"/{page}", f"/{page}.html", f"/news/{rng.randrange(1, 900)}")
                host = f"{rng.choice(words)}.{rng.choice(('org', 'com', 'net', 'cn'))}"
                return f"https://{rng.choice(('', 'www.'))}{host}{rng.choice(ends)}"
            case "email":
                first = rng.choice(texts("names")["first", "en"]).lower()
                more = rng.choice(("", ".k", f"_{rng.randrange(99)}", ".office"))
                host = f"{rng.choice(words)}.{rng.choice(('com', 'org', 'net', 'cn', 'io'))}"
                return f"{first}{more}@{host}"
            case "phone":
                return self._phone()
            case "address":
                number = rng.randrange(1, 140)
                street = rng.choice(texts(_BOOK)["street", self._voice.lang])
                return f"{street}{number}号" if zh else f"{number} {street}"
            case "repo":
                return f"{rng.choice(words)}/{rng.choice(words)}"
            case "folder":
                return rng.choice((rng.choice(words), f"{rng.choice(words)}/{rng.choice(words)}"))
            case _:
                raise ValueError(f"no values of the kind {name}")

    def _phone(self) -> str:
        rng = self._rng
        if self._voice.is_zh:
            return f"1{rng.choice('3578')}{rng.randrange(10**8, 10**9)}"
        number = f"+44 20 {rng.randrange(10**6, 10**7)}"
        return rng.choice((f"555-{rng.randrange(1000, 9999)}", number))

    def _person(self) -> str:
        rng, lang = self._rng, self._voice.lang
        name = people(rng, lang, 1)[0]
        if rng.random() > 0.15:
            return name
        if lang == "zh":
            return name[0] + rng.choice(texts(_BOOK)["honorific", "zh"])
        return f"{rng.choice(('Dr.', 'Mr', 'Mrs', 'Ms'))} {name.split()[-1]}"

    def _file(self, name: str) -> str:
        rng = self._rng
        lang = "zh" if self._voice.is_zh and rng.random() < 0.4 else "en"
        stem = rng.choice(texts(_BOOK)["stem", lang])
        word = rng.choice(texts("names")["words", lang])
        stem = rng.choice((stem, f"{stem}_{word}", word, f"{stem}{rng.randrange(2019, 2029)}"))
        folder = rng.choice(texts("names")["words", "en"])
        place = f"{folder}/" if rng.random() < 0.25 else ""
        return f"{place}{stem}.{rng.choice(_ENDINGS[name])}"

    def _filled(self, way: str) -> str:
        book, lang = texts(_BOOK), self._voice.lang

        def part(found: re.Match[str]) -> str:
            match found[1]:
                case "person":
                    return self._person()
                case "city":
                    return cities(self._rng, lang, 1)[0]
                case "n":
                    return str(self._rng.randrange(2, 40))
                case "clock":
                    return said_time(self._voice)[0]
                case name:
                    return self._rng.choice(book[name, lang])

        return _SLOT.sub(part, way)
