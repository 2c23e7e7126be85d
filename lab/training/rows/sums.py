"""Requests for arithmetic, units, dates and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from lab.training.rows.periods import MONTHS
from lab.training.rows.queries import Ask
from lab.training.rows.row import Call, call
from lab.training.rows.voice import Voice

_UNITS: Final = (
    ("km", ("km", "kilometres"), ("公里", "千米"), "mile", ("miles",), ("英里",)),
    ("kg", ("kg", "kilos", "kilograms"), ("公斤", "千克"), "lb", ("pounds", "lbs"), ("磅",)),
    (
        "°C",
        ("degrees Celsius", "°C", "Celsius"),
        ("摄氏度",),
        "°F",
        ("Fahrenheit", "°F"),
        ("华氏度",),
    ),
    ("m", ("metres", "m"), ("米",), "ft", ("feet",), ("英尺",)),
    ("cm", ("cm", "centimetres"), ("厘米",), "in", ("inches",), ("英寸",)),
    ("l", ("litres",), ("升",), "gal", ("gallons",), ("加仑",)),
    ("h", ("hours",), ("小时",), "min", ("minutes",), ("分钟",)),
    ("GB", ("GB", "gigabytes"), ("GB",), "MB", ("MB", "megabytes"), ("MB",)),
    ("m/s", ("m/s", "metres per second"), ("米每秒",), "km/h", ("km/h",), ("公里每小时",)),
    ("g", ("grams", "g"), ("克",), "oz", ("ounces",), ("盎司",)),
    ("ha", ("hectares",), ("公顷",), "m^2", ("square metres",), ("平方米",)),
)
_CITIES: Final = (
    ("Tokyo", "东京"), ("London", "伦敦"), ("New York", "纽约"), ("Sydney", "悉尼"),
    ("Paris", "巴黎"),
    ("Beijing", "北京"), ("Dubai", "迪拜"), ("Los Angeles", "洛杉矶"), ("Berlin", "柏林"),
    ("Singapore", "新加坡"), ("Moscow", "莫斯科"), ("Cairo", "开罗"), ("Toronto", "多伦多"),
    ("Seoul", "首尔"), ("Rome", "罗马"), ("Japan", "日本"), ("Kenya", "肯尼亚"),
    ("Helsinki", "赫尔辛基"),
)  # fmt: skip
_DAYS_EN: Final = (
    "Christmas",
    "New Year",
    "next Friday",
    "Halloween",
    "24 December",
    "3 May",
    "1 March 2028",
    "15 August",
    "New Year's Eve",
    "next Monday",
)
_DAYS_ZH: Final = (
    "圣诞节",
    "元旦",
    "下周五",
    "国庆节",
    "12月24日",
    "5月3日",
    "2028年3月1日",
    "8月15日",
    "春节",
    "下周一",
)


class SumAsker:
    """Asks for what a calculator, a table of units or a calendar knows."""

    def __init__(self, voice: Voice, now: datetime) -> None:
        self._voice, self._rng, self._now = voice, voice.rng, now

    def _ask(self, kind: str, en: tuple[str, ...], zh: tuple[str, ...], *calls: Call) -> Ask:
        text = self._voice.either(en, zh)
        self._voice.kept.append(text)
        return Ask(kind, text, calls, names_file=True)

    def compute(self) -> Ask:
        """Asks for plain arithmetic, or for percentages."""
        rng = self._rng
        a, b, c = rng.randint(2, 999), rng.randint(2, 99), rng.randint(2, 40)
        percent = rng.choice((5, 7.5, 10, 12, 15, 17.5, 19, 20, 25, 33, 8))
        big = rng.randint(100, 9000)
        shown = f"{big:,}" if rng.random() < 0.4 else str(big)
        ways = (
            (
                (f"What is {a} times {b}?", f"{a} * {b}", f"Multiply {a} by {b}", f"{a} x {b} = ?"),
                (f"{a}乘以{b}是多少？", f"{a}×{b}等于多少", f"计算{a}*{b}"),
                f"{a} * {b}",
            ),
            (
                (
                    f"What is {percent:g} % of {shown}?",
                    f"{percent:g}% of {shown}",
                    f"How much is {percent:g} percent of {shown}?",
                ),
                (
                    f"{shown}的{percent:g}%是多少？",
                    f"{shown}的百分之{percent:g}",
                    f"求{shown}的{percent:g}%",
                ),
                f"{percent:g}% of {big}",
            ),
            (
                (
                    f"Add {percent:g}% VAT to {shown}",
                    f"{shown} plus {percent:g} %",
                    f"What is {shown} with {percent:g}% on top?",
                ),
                (
                    f"{shown}加{percent:g}%是多少？",
                    f"{shown}上浮{percent:g}%",
                    f"{shown}含{percent:g}%的税是多少",
                ),
                f"{big} + {percent:g}%",
            ),
            (
                (
                    f"{shown} minus {percent:g} %",
                    f"What is {shown} with a {percent:g}% discount?",
                    f"Take {percent:g}% off {shown}",
                ),
                (
                    f"{shown}打折减{percent:g}%是多少？",
                    f"{shown}减去{percent:g}%",
                    f"{shown}优惠{percent:g}%后多少钱",
                ),
                f"{big} - {percent:g}%",
            ),
            (
                (
                    f"Split {shown} among {c} people",
                    f"Divide {shown} by {c}",
                    f"{shown} / {c}",
                    f"What is {shown} divided by {c}?",
                ),
                (f"{shown}平分给{c}个人，每人多少？", f"{shown}除以{c}", f"{shown}/{c}是多少"),
                f"{big} / {c}",
            ),
            (
                (f"What is {a} + {b} * {c}?", f"calculate {a} + {b} * {c}"),
                (f"{a}+{b}*{c}是多少？", f"计算{a}+{b}*{c}"),
                f"{a} + {b} * {c}",
            ),
            (
                (f"({a} + {b}) * {c}", f"What is ({a} + {b}) times {c}?"),
                (f"({a}+{b})*{c}等于多少", f"计算({a}+{b})×{c}"),
                f"({a} + {b}) * {c}",
            ),
            (
                (f"Square root of {a}", f"What is the square root of {a}?"),
                (f"{a}的平方根", f"{a}开平方是多少？"),
                f"sqrt({a})",
            ),
            (
                (f"What is {b} squared?", f"{b} to the power of 2"),
                (f"{b}的平方是多少？", f"{b}的2次方"),
                f"{b}^2",
            ),
            (
                (f"{a} plus {b} minus {c}", f"What is {a} plus {b} minus {c}?"),
                (f"{a}加{b}减{c}", f"{a}加{b}再减{c}是多少？"),
                f"{a} + {b} - {c}",
            ),
        )
        en, zh, expression = self._voice.pick(ways)
        return self._ask("calculator", en, zh, call("calculator.compute", expression=expression))

    def convert(self) -> Ask:
        one, en1, zh1, two, en2, zh2 = self._voice.pick(_UNITS)
        if self._rng.random() < 0.5:
            one, en1, zh1, two, en2, zh2 = two, en2, zh2, one, en1, zh1
        value: int | float = self._rng.choice(
            (self._rng.randint(1, 500), round(self._rng.uniform(0.5, 99), 1))
        )
        a, b = (
            self._rng.choice(each) for each in ((zh1, zh2) if self._voice.is_zh else (en1, en2))
        )
        en = (
            f"Convert {value} {a} to {b}",
            f"How many {b} are {value} {a}?",
            f"{value} {a} in {b}",
            f"What is {value} {a} in {b}?",
        )
        zh = (
            f"{value}{a}是多少{b}？",
            f"{value}{a}等于多少{b}",
            f"把{value}{a}换算成{b}",
            f"{value}{a}换{b}",
        )
        if self._rng.random() < 0.06:
            made = call("calculator.convert", value=value, from_=one, to="?")
            return self._ask("missing", (f"Convert {value} {a}",), (f"换算{value}{a}",), made)
        made = call("calculator.convert", value=value, from_=one, to=two)
        return self._ask("calculator", en, zh, made)

    def clock(self) -> Ask:
        place = self._voice.pick(_CITIES)[self._voice.is_zh]
        if self._rng.random() < 0.25:
            return self._ask(
                "time",
                (
                    "What time is it?",
                    "What is the date today?",
                    "which day is it today",
                    "current time",
                ),
                ("现在几点了？", "今天几号？", "今天星期几", "现在时间"),
                call("time.now"),
            )
        said = place.lower() if self._voice.lower else place
        en = (
            f"What time is it in {place}?",
            f"Current time in {place}",
            f"How late is it in {place} now?",
            f"time in {place}",
        )
        zh = (
            f"{place}现在几点？",
            f"{place}时间",
            f"现在{place}是几点钟",
            f"查一下{place}的当前时间",
        )
        return self._ask("time", en, zh, call("time.now", zone=said))

    def until(self) -> Ask:
        day = self._voice.either(_DAYS_EN, _DAYS_ZH)
        en = (
            f"How many days until {day}?",
            f"days until {day}",
            f"How long is it to {day}?",
            f"How many days are left before {day}?",
        )
        zh = (f"离{day}还有几天？", f"距离{day}还有多少天", f"到{day}还有多久？", f"{day}还有几天")
        return self._ask(
            "time", en, zh, call("time.until", date=day.lower() if self._voice.lower else day)
        )

    def _some_day(self) -> tuple[str, str, str]:
        """Returns a day: ISO, English and Chinese."""
        day = self._now + timedelta(days=self._rng.randint(-500, 700))
        iso = day.date().isoformat()
        if self._rng.random() < 0.4:
            return iso, iso, iso
        en = f"{day.day} {MONTHS[day.month - 1]} {day.year}"
        return iso, en, f"{day.year}年{day.month}月{day.day}日"

    def difference(self) -> Ask:
        (_, a, a_zh), (_, b, b_zh) = self._some_day(), self._some_day()
        x, y = (a_zh, b_zh) if self._voice.is_zh else (a, b)
        if self._voice.lower:
            x, y = x.lower(), y.lower()
        en = (
            f"How many days are between {a} and {b}?",
            f"days from {a} to {b}",
            f"How long is it from {a} until {b}?",
        )
        zh = (f"{a_zh}到{b_zh}有多少天？", f"{a_zh}和{b_zh}相差几天", f"从{a_zh}到{b_zh}多久？")
        return self._ask("time", en, zh, call("time.difference", from_=x, to=y))

    def add(self) -> Ask:
        count = self._rng.choice((3, 10, 14, 30, 45, 60, 90, 100))
        today = self._now.date().isoformat()
        unit, word, zh_word = self._rng.choice(
            (
                ("days", "days", "天"),
                ("weeks", "weeks", "周"),
                ("months", "months", "个月"),
                ("weekdays", "working days", "个工作日"),
            )
        )
        if self._rng.random() < 0.5:
            back = self._rng.random() < 0.3
            en = (
                (f"What date was {count} {word} ago?",)
                if back
                else (
                    f"What date is in {count} {word}?",
                    f"Which day is it {count} {word} from now?",
                    f"date in {count} {word}",
                )
            )
            zh = (
                (f"{count}{zh_word}前是几号？",)
                if back
                else (f"{count}{zh_word}后是几号？", f"再过{count}{zh_word}是哪天？")
            )
            return self._ask(
                "time", en, zh, call("time.add", time=today, **{unit: -count if back else count})
            )
        _, a, a_zh = self._some_day()
        start = a_zh if self._voice.is_zh else a
        en = (
            f"What is {a} plus {count} {word}?",
            f"{count} {word} after {a}",
            f"Add {count} {word} to {a}",
        )
        zh = (f"{a_zh}之后{count}{zh_word}是哪天？", f"{a_zh}加{count}{zh_word}")
        made = call("time.add", time=start.lower() if self._voice.lower else start, **{unit: count})
        return self._ask("time", en, zh, made)

    def weekday(self) -> Ask:
        _, a, a_zh = self._some_day()
        day = a_zh if self._voice.is_zh else a
        en = (
            f"What weekday is {a}?",
            f"Which day of the week is {a}?",
            f"On which weekday does {a} fall?",
            f"Which calendar week is {a} in?",
        )
        zh = (f"{a_zh}是星期几？", f"{a_zh}是周几", f"{a_zh}是第几周？")
        return self._ask(
            "time", en, zh, call("time.describe", time=day.lower() if self._voice.lower else day)
        )

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.compute, 10), (self.convert, 6), (self.clock, 4), (self.until, 4)),
            *((self.difference, 3), (self.add, 3), (self.weekday, 3)),
        ]
