"""Tools that are not built in, offered beside the built-in ones, and requests for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from typing import Final

from lab.training.rows.domains import DATA
from lab.training.rows.row import Call, Spec, call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice

_WHOLE: Final = frozenset({"copies", "width", "days"})
_VALUES_EN: Final = {
    "to": ("kim@post.org", "anna@example.com", "the team", "Tom Baker", "sales@firm.net"),
    "subject": ("Offer", "Meeting", "Holiday", "Question", "Update"),
    "body": (
        "I will be late",
        "the parcel has arrived",
        "please call me back",
        "see you on Monday",
    ),
    "text": (
        "server is down",
        "lunch at 12",
        "thank you very much",
        "deploy is done",
        "login fails",
    ),
    "title": ("Dentist", "Team lunch", "Budget review", "Broken link", "Call the bank", "Ideas"),
    "date": ("2026-12-03", "next Tuesday", "14 May", "tomorrow", "2027-01-09"),
    "time": ("10:00", "3 pm", "14:30"),
    "name": ("Alder Ltd", "Birch Inc", "Maria Santos", "Nordwind"),
    "city": ("Oslo", "Lisbon", "Toronto", "Hamburg", "Seville"),
    "channel": ("#general", "#sales", "#ops", "#random"),
    "task": ("renew the passport", "pay the rent", "check the boiler", "send the offer"),
    "due": ("Friday", "2026-12-24", "tomorrow"),
    "query": ("cheap hotels in Rome", "best bread recipe", "python 3.14 release", "used bicycles"),
    "origin": ("Berlin", "London", "Zurich"),
    "phone": ("+49 170 1234567", "555-0182", "+44 20 7946 0991"),
    "repo": ("acme/shop", "tools/importer", "web/site"),
    "symbol": ("AAPL", "SAP", "NVDA", "TSLA"),
    "base": ("EUR", "USD", "GBP"),
    "file": ("report.pdf", "photo.png", "img/map.png", "lease.pdf"),
    "copies": ("2", "3", "10"),
    "width": ("800", "1200", "640"),
    "song": ("Blue Hour", "Moon River", "Slow River"),
    "start": ("2026-12-21", "next Monday", "3 August"),
    "days": ("3", "5", "10"),
    "topic": ("solar power", "the elections", "electric cars"),
    "folder": ("Reports", "Shared", "2026"),
}
_TO_EN: Final = {
    "translate.text": ("German", "French", "Spanish"),
    "currency.rate": ("CHF", "JPY", "SEK"),
    "flights.search": ("Rome", "Oslo", "Madrid"),
    "maps.route": ("the airport", "Kiel", "Central Station"),
}
_VALUES_ZH: Final = {
    "to": ("李雷", "wang@post.cn", "团队", "韩梅梅", "sales@firm.net"),
    "subject": ("报价", "会议", "假期", "问题"),
    "body": ("我会晚到", "包裹到了", "请回电话", "周一见"),
    "text": ("服务器宕机", "12点吃饭", "非常感谢", "发布完成", "登录失败"),
    "title": ("看牙医", "团队聚餐", "预算评审", "链接失效", "给银行打电话"),
    "date": ("2026-12-03", "下周二", "5月14日", "明天"),
    "time": ("10:00", "下午3点", "14:30"),
    "name": ("恒信公司", "明达科技", "王伟"),
    "city": ("北京", "上海", "成都", "杭州"),
    "channel": ("综合", "销售", "运维"),
    "task": ("续签护照", "交房租", "检查锅炉", "发报价"),
    "due": ("周五", "2026-12-24", "明天"),
    "query": ("罗马便宜的酒店", "面包的做法", "二手自行车"),
    "origin": ("北京", "广州", "西安"),
    "phone": ("13800138000", "021-5550182"),
    "song": ("月亮代表我的心", "蓝色时刻"),
    "start": ("2026-12-21", "下周一", "8月3日"),
    "topic": ("太阳能", "电动车", "人工智能"),
    "folder": ("报告", "共享"),
}
_TO_ZH: Final = {
    "translate.text": ("英语", "法语", "日语"),
    "currency.rate": ("人民币", "日元"),
    "flights.search": ("昆明", "东京", "三亚"),
    "maps.route": ("机场", "火车站"),
}


@dataclass(frozen=True, slots=True)
class ForeignTool:
    """A tool with its spec and the ways people ask for it."""

    spec: Spec
    required: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    def ways(self, lang: str) -> list[str]:
        """Returns the requests of one language, marked by `en ` or `en+ `."""
        return [line[len(lang) :].strip() for line in self.lines if line.startswith(lang)]


@cache
def foreign_tools() -> tuple[ForeignTool, ...]:
    """Returns all foreign tools."""
    lines = (DATA / "foreign.txt").read_text(encoding="utf-8").splitlines()
    used = [line for line in lines if line.strip() and not line.startswith("#")]
    starts = [place for place, line in enumerate(used) if line.startswith("=")]
    return tuple(_tool(used[a:b]) for a, b in pairwise([*starts, len(used)]))


def _tool(block: list[str]) -> ForeignTool:
    name, effect, about, arguments = (each.strip() for each in block[0][1:].split("|"))
    names = [each.strip() for each in arguments.split(",")]
    required = tuple(each[:-1] for each in names if each.endswith("!"))
    fields = {
        each.rstrip("!"): {"type": "integer" if each.rstrip("!") in _WHOLE else "string"}
        for each in names
    }
    schema = {"type": "object", "properties": fields, "required": list(required)}
    spec = {"name": name, "description": about, "input_schema": schema, "effect": effect}
    return ForeignTool(spec, required, tuple(block[1:]))


def foreign_ask(tool: ForeignTool, voice: Voice) -> tuple[str, Call] | None:
    """Returns a request for a tool, with its call."""
    ways = [way for way in tool.ways(voice.lang) if not way.startswith("+")]
    return _filled(voice.pick(ways), tool, voice) if ways else None


def foreign_behind(
    tool: ForeignTool, voice: Voice, core: str, place: int
) -> tuple[str, Call] | None:
    """Returns a request that hands the result of another one to a tool."""
    ways = [way[1:].strip() for way in tool.ways(voice.lang) if way.startswith("+")]
    if not ways:
        return None
    way, _, argument = voice.pick(ways).partition(" > ")
    mark = core.rstrip("?？.。") + ("" if voice.is_zh or "{} and" in way else ".")
    text, made = _filled(way.replace("{}", mark), tool, voice, skip=argument)
    return text, call(tool.name, **(made["args"] | {argument: f"${place}"}))


def _filled(way: str, tool: ForeignTool, voice: Voice, skip: str = "") -> tuple[str, Call]:
    args: dict[str, str | int] = {}
    for slot in re.findall(r"\{(\w+)\}", way):
        value = _value(tool.name, slot, voice)
        way = way.replace(f"{{{slot}}}", value)
        voice.kept.append(value)
        said = value.lower() if voice.lower else value
        args[slot] = int(value) if slot in _WHOLE else said
    for name in tool.required:
        if name not in args and name != skip:
            args[name] = "?"
    order = list(tool.spec["input_schema"]["properties"])
    return way, call(tool.name, **{name: args[name] for name in order if name in args})


def _value(tool: str, slot: str, voice: Voice) -> str:
    if slot == "to" and tool in _TO_EN:
        return voice.rng.choice((_TO_ZH if voice.is_zh else _TO_EN)[tool])
    known = _VALUES_ZH if voice.is_zh else _VALUES_EN
    if slot in ("to", "name") and voice.rng.random() < 0.4:
        return voice.rng.choice(texts("people")["people", voice.lang])
    return voice.rng.choice(known.get(slot) or _VALUES_EN[slot])


def some_foreign(rng: Random, without: str = "") -> list[Spec]:
    """Returns a few foreign tools that the request does not need."""
    others = [each.spec for each in foreign_tools() if each.name != without]
    return rng.sample(others, rng.randint(1, 5))
