"""Requests for tools of other makers: names to copy, days to work out, choices to understand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from lab.training.rows.domains import Part
from lab.training.rows.naming import cities, people
from lab.training.rows.periods import MONTHS
from lab.training.rows.row import Call, Lang, Row
from lab.training.rows.texts import texts
from lab.training.rows.toolbox_data import Argument, Dressed, Toolbox, chains, toolboxes
from lab.training.rows.voice import Voice
from plansmith.plan.capability import tool_spec
from plansmith_planner.ranking.pick import shortlist

_START: Final = datetime(2025, 1, 6, 8, 0)  # noqa: DTZ001 - the wall clock of a request
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_OTHER_NAMES: Final = {
    "to": ("recipient", "to_address", "receiver"), "body": ("message", "content", "text"),
    "date": ("day", "on_date", "when_date"), "city": ("location", "town", "place"),
    "title": ("name", "headline", "summary"), "person": ("user", "assignee", "colleague"),
    "text": ("message", "content"), "quantity": ("qty", "count", "pieces"),
    "amount": ("sum", "value"), "destination": ("target", "to_city"),
    "start": ("begin", "from_date"), "due": ("due_date", "deadline"),
    "time": ("at", "clock_time"), "query": ("keywords", "search_text"),
}  # fmt: skip
# What people say where they leave a value open, by its kind: English, Chinese.
_VAGUE: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "person": (("someone", "a colleague", "somebody"), ("某人", "一个同事", "别人")),
    "email": (("someone", "a colleague"), ("某人", "一个同事")),
    "city": (("somewhere", "some place"), ("某地", "某个地方")),
    "date": (("some day", "soon", "one of these days"), ("改天", "过几天", "哪天")),
    "time": (("some time", "a good time"), ("某个时间", "合适的时间")),
    "id": (("one of them", "that one"), ("其中一个", "那一个")),
    "money": (("some", "a few"), ("一些", "若干")),
    "text": (("something", "some text"), ("一些内容", "点什么")),
}
_JOINS: Final[dict[str, tuple[str, ...]]] = {
    "en": ("{a}, and {b}", "{a}. Also, {b}", "{a} and then {b}", "1. {a} 2. {b}"),
    "zh": ("{a}，另外{b}", "{a}，然后{b}", "{a}；{b}", "1. {a} 2. {b}"),
}
_APOLOGY: Final[dict[Lang, str]] = {
    "en": "None of the tools here can do this.",
    "zh": "这里没有能完成这件事的工具。",
}


Kinds = tuple[tuple[Callable[[], Row | None], int], ...]


class ToolboxRows:
    """Makes rows over tools of other makers."""

    def __init__(self, rng: Random, part: Part) -> None:
        self._rng = rng
        self._part: Part = part

    @property
    def kinds(self) -> Kinds:
        """The kinds of rows with their weights."""
        return (
            *((self._single, 54), (self.double, 17), (self.chain, 15)),
            *((self._missing, 8), (self._unfit, 6)),
        )

    def rows(self) -> Iterator[Row]:
        """Yields rows without end."""
        while True:
            lang: Lang = "zh" if self._rng.random() < 0.5 else "en"
            self._now = _START + timedelta(minutes=self._rng.randrange(60 * 24 * 900))
            self._voice = Voice(self._rng, lang, self._part)
            makers = [maker for maker, _ in self.kinds]
            made = self._rng.choices(makers, [weight for _, weight in self.kinds])[0]()
            if made is not None:
                yield made

    def pick(self, effect: str = "") -> Dressed:
        """Returns a tool of this part: one in eight is only validated on."""
        held = self._part == "validation"
        known = [
            each
            for place, each in enumerate(toolboxes())
            if (place % 8 == 5) == held and effect in ("", each.effect)
        ]
        return self._dressed(self._rng.choice(known))

    def _dressed(self, tool: Toolbox) -> Dressed:
        """Returns a tool under some name: only what is offered tells it."""
        rng = self._rng
        area, _, deed = tool.name.partition(".")
        verb = deed.replace("_", "-")
        camel = re.sub(r"_(\w)", lambda found: found[1].upper(), f"{area}_{deed}")
        ways = (tool.name, tool.name, f"{area}_{deed}", f"{deed}_{area}", camel, f"{area}-{verb}")
        names: dict[str, str] = {}
        for each in tool.arguments:
            others = _OTHER_NAMES.get(each.name, ())
            name = rng.choice(others) if others and rng.random() < 0.35 else each.name
            names[each.name] = each.name if name in names.values() else name
        return Dressed(tool, rng.choice(ways), names)

    # -- kinds of rows

    def _single(self) -> Row | None:
        tool = self.pick()
        text, made = self._asked(tool)
        return self._row(text, "single", [tool], [made])

    def double(self) -> Row | None:
        """Asks two things that do not need each other."""
        tools = [self.pick(), self.pick()]
        if tools[0].of is tools[1].of:
            tools[1] = tools[0]
        (a, first), (b, second) = (self._asked(each) for each in tools)
        if first == second:
            return None
        a, b = (each.rstrip("?？.。") for each in (a, b))
        b = b if self._voice.is_zh else b[:1].lower() + b[1:]
        text = self._rng.choice(_JOINS[self._voice.lang]).replace("{a}", a).replace("{b}", b)
        return self._row(
            text, "calls", tools[:1] if tools[0] is tools[1] else tools, [first, second]
        )

    def chain(self) -> Row | None:
        """Hands what one tool reads to another one."""
        first = self.pick("read")
        ways = [way[2:].strip() for way in chains() if way.startswith(self._voice.lang)]
        way, _, target = self._rng.choice(ways).partition(" > ")
        name, argument = target.split()
        if first.of.name == name:
            return None
        second = self._dressed(next(each for each in toolboxes() if each.name == name))
        core, made = self._asked(first)
        behind, values = self._filled(way, second.of)
        args = {
            second.names[each.name]: "$1" if each.name == argument else values[each.name]
            for each in second.of.arguments
            if each.name == argument or each.name in values
        }
        core = core.rstrip("?？.。") + ("." if behind.startswith("{} T") else "")
        text = behind.replace("{}", core)
        calls = [made, {"tool": second.name, "args": args}]
        return self._row(text, "calls", [first, second], calls)

    def _missing(self) -> Row | None:
        """Asks with one required value left vague."""
        tool = self.pick()
        way = self._rng.choice(self._ways(tool.of))
        vague = [
            each
            for each in tool.of.arguments
            if each.required and each.kind in _VAGUE and f"{{{each.name}}}" in way
        ]
        if not vague:
            return None
        left = self._rng.choice(vague)
        said = self._rng.choice(_VAGUE[left.kind][self._voice.is_zh])
        text, values = self._filled(way.replace(f"{{{left.name}}}", said), tool.of)
        args = {
            tool.names[each.name]: values.get(each.name, "?")
            for each in tool.of.arguments
            if each.name in values or each.required
        }
        return self._row(text, "missing", [tool], [{"tool": tool.name, "args": args}])

    def _unfit(self) -> Row | None:
        """Asks for something whose tool is not among the near ones offered."""
        tool = self.pick()
        text, _ = self._asked(tool)
        area = tool.of.name.partition(".")[0]
        # What is named alike could do it after all: tools of the same area are not offered.
        others = [each for each in toolboxes() if each.name.partition(".")[0] != area]
        related = {"mail": "chat", "chat": "mail", "orders": "payments", "crm": "contacts"}
        gone = (related.get(area, "-"), "contacts" if area in ("hr", "crm") else "-", "tasks")
        others = [each for each in others if each.name.partition(".")[0] not in gone]
        specs = [self._dressed(each).spec for each in self._near(text, others, 6)]
        return Row(
            self._voice.slips(text), "unfit", self._voice.lang, now=self._now_text,
            reply=_APOLOGY[self._voice.lang], tools=tuple(specs), family="tools",
        )  # fmt: skip

    # -- parts

    @property
    def _now_text(self) -> str:
        return self._now.strftime("%A %Y-%m-%d %H:%M")

    def _near(self, text: str, tools: Sequence[Toolbox], most: int) -> list[Toolbox]:
        """Returns near misses by the product's own shortlist, and some others."""
        specs = [tool_spec({**self._plain(each).spec}) for each in tools]
        picks = {pick.name for pick in shortlist(text, tuple(specs), most)}
        near = [each for each in tools if each.name in picks]
        far = self._rng.sample(list(tools), min(3, len(tools)))
        chosen = dict.fromkeys([*near, *far])
        return self._rng.sample(list(chosen), min(len(chosen), self._rng.randint(1, most)))

    def _plain(self, tool: Toolbox) -> Dressed:
        return Dressed(tool, tool.name, {each.name: each.name for each in tool.arguments})

    def _row(self, text: str, kind: str, tools: Sequence[Dressed], calls: Sequence[Call]) -> Row:
        used = [each.of for each in tools]
        others = self._near(text, [each for each in toolboxes() if each not in used], 7)
        if self._rng.random() < 0.5:
            # A look-up that is not needed lies beside: the request gives what it would find.
            areas = {each.name.partition(".")[0] for each in used} | {"contacts", "crm", "hr"}
            reads = [each for each in toolboxes() if each.effect == "read" and each not in used]
            reads = [each for each in reads if each.name.partition(".")[0] in areas]
            others = [*dict.fromkeys([*others, *reads[: self._rng.randint(1, 2)]])]
        specs = [each.spec for each in (*tools, *map(self._dressed, others))]
        unique = list({each["name"]: each for each in reversed(specs)}.values())
        self._rng.shuffle(unique)
        return Row(
            self._voice.slips(text), kind, self._voice.lang, now=self._now_text,
            calls=tuple(calls), tools=tuple(unique), family="tools",
        )  # fmt: skip

    def _ways(self, tool: Toolbox) -> list[str]:
        lang = self._voice.lang
        return [each[2:].strip() for each in tool.ways if each.startswith(lang)]

    def _asked(self, tool: Dressed) -> tuple[str, Call]:
        """Returns a request for a tool and its call."""
        text, values = self._filled(self._rng.choice(self._ways(tool.of)), tool.of)
        args = {
            tool.names[each.name]: values.get(each.name, "?")
            for each in tool.of.arguments
            if each.name in values or each.required
        }
        if self._rng.random() < 0.15:
            polite = (
                ("Please {}", "Could you {}", "Hi, {}")
                if not self._voice.is_zh
                else ("请{}", "麻烦{}", "帮我{}")
            )
            low = text if self._voice.is_zh else text[:1].lower() + text[1:]
            if not text.endswith(("?", "？")):
                text = self._rng.choice(polite).replace("{}", low)
        return text, {"tool": tool.name, "args": args}

    def _filled(self, way: str, tool: Toolbox) -> tuple[str, dict[str, Any]]:
        values: dict[str, Any] = {}
        for each in tool.arguments:
            slot = f"{{{each.name}}}"
            if slot in way:
                said, values[each.name] = self._value(each)
                self._voice.kept.append(said)
                if (
                    self._voice.lower
                    and isinstance(values[each.name], str)
                    and said == values[each.name]
                ):
                    values[each.name] = said.lower()
                way = way.replace(slot, said)
        return way, values

    def _value(self, argument: Argument) -> tuple[str, Any]:
        """Returns what a request says, and the value that the call takes."""
        rng, zh = self._rng, self._voice.is_zh
        match argument.kind:
            case "date" if argument.name == "since":
                day = self._now.date() - timedelta(days=rng.randrange(1, 90))
                past = (
                    f"{day.year}年{day.month}月{day.day}日",
                    f"{day.day} {MONTHS[day.month - 1]} {day.year}",
                )
                return rng.choice((past[not zh], day.isoformat())), day.isoformat()
            case "date":
                return self._date()
            case "time":
                return self._time()
            case "pick":
                value, en, said_zh = rng.choice(argument.choices)
                return (said_zh if zh else en), value
            case "word":
                _, en, said_zh = rng.choice(argument.choices)
                word = said_zh if zh else en
                return word, word
            case "int":
                low, high = map(int, argument.detail.split(".."))
                number = rng.randint(low, high)
                return str(number), number
            case "money":
                amount = rng.choice((rng.randint(5, 4000), round(rng.uniform(5, 900), 2)))
                return str(amount), amount
            case _:
                text = self._text(argument)
                return text, text

    def _text(self, argument: Argument) -> str:
        rng, lang = self._rng, self._voice.lang
        match argument.kind:
            case "person":
                return people(rng, lang, 1)[0]
            case "city":
                return cities(rng, lang, 1)[0]
            case "email":
                name = rng.choice(texts("names")["first", "en"]).lower()
                host = rng.choice(texts("names")["words", "en"])
                more = rng.choice(("", ".k", str(rng.randrange(99))))
                return f"{name}{more}@{host}.{rng.choice(('com', 'org', 'net', 'cn'))}"
            case "id":
                mark = rng.choice(("-", "", "_")) if argument.detail != "+49" else " "
                return f"{argument.detail}{mark}{rng.randrange(10, 10 ** rng.choice((3, 4, 6)))}"
            case "title":
                return rng.choice(texts("toolbox_texts")["titles", lang])
            case _:
                return rng.choice(texts("toolbox_texts")["texts", lang])

    def _date(self) -> tuple[str, str]:
        """Returns a day as it is said, and as a call gives it."""
        rng, now, zh = self._rng, self._now.date(), self._voice.is_zh
        near = (
            (0, "today", "今天"),
            (1, "tomorrow", "明天"),
            (2, "the day after tomorrow", "后天"),
        )
        roll = rng.random()
        if roll < 0.4:
            days, en, said = rng.choice(near)
            return (said if zh else en), (now + timedelta(days=days)).isoformat()
        if roll < 0.6:
            weekday = rng.randrange(7)
            monday = now - timedelta(days=now.weekday()) + timedelta(days=7)
            day = monday + timedelta(days=weekday)
            if zh:
                return f"下周{'一二三四五六日'[weekday]}", day.isoformat()
            ahead = (weekday - now.weekday() - 1) % 7 + 1
            return f"on {_DAYS[weekday]}", (now + timedelta(days=ahead)).isoformat()
        day = now + timedelta(days=rng.randrange(3, 300))
        if roll < 0.8:
            spoken = (
                f"{day.year}年{day.month}月{day.day}日"
                if zh
                else f"on {day.day} {MONTHS[day.month - 1]} {day.year}"
            )
            return spoken, day.isoformat()
        return (day.isoformat() if zh else f"on {day.isoformat()}"), day.isoformat()

    def _time(self) -> tuple[str, str]:
        hour, half = self._rng.randrange(7, 22), self._rng.random() < 0.3
        value = f"{hour:02}:{'30' if half else '00'}"
        if self._rng.random() < 0.5:
            return value, value
        if self._voice.is_zh:
            part = "上午" if hour < 12 else "下午" if hour < 18 else "晚上"
            return f"{part}{hour if hour <= 12 else hour - 12}点{'半' if half else ''}", value
        clock = hour if hour <= 12 else hour - 12
        return f"{clock}{':30' if half else ''} {'am' if hour < 12 else 'pm'}", value
