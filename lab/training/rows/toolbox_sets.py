"""Requests of several calls for tools of other makers: lists, chains, look-ups that help."""

from __future__ import annotations

from typing import Final, NamedTuple

from lab.training.rows.row import Call, Row
from lab.training.rows.toolbox_data import Dressed, chains, toolboxes
from lab.training.rows.toolboxes import Kinds, ToolboxRows

_LISTED: Final = frozenset({"city", "person", "email", "id", "word"})


class Found(NamedTuple):
    """A look-up whose result another tool needs, with ways to ask for both."""

    first: str
    second: str
    argument: str
    en: tuple[str, ...]
    zh: tuple[str, ...]


_FOUND: Final = (
    Found(
        *("crm.find_customer", "crm.update_customer", "customer_id"),
        (
            "Look {name} up in the CRM and change the {field} to {value}",
            "Find the customer {name} and set the {field} to {value}",
        ),
        ("在CRM里找到{name}，把{field}改成{value}", "查一下客户{name}，然后把{field}更新为{value}"),
    ),
    Found(
        *("contacts.find", "mail.send", "to"),
        (
            "Find the e-mail of {name} and write there: {body}",
            "Look up the address of {name}, then mail that {body}",
        ),
        ("查到{name}的邮箱，然后发邮件说{body}", "先找{name}的邮箱，再写信：{body}"),
    ),
    Found(
        *("orders.find", "orders.cancel", "order_id"),
        ("Find the order of {customer} and cancel it", "Look for {customer}'s order, then cancel"),
        ("找到{customer}的订单并取消", "查一下{customer}的订单，然后取消它"),
    ),
    Found(
        *("hr.find_employee", "tickets.assign", "person"),
        ("Find {name} in the staff list and give them ticket {ticket_id}",),
        ("在员工里找到{name}，把工单{ticket_id}分给他",),
    ),
    Found(
        *("cloud.list_servers", "mail.send", "body"),
        ("List all servers and mail the list to {to}",),
        ("列出所有服务器，把清单发邮件给{to}",),
    ),
)  # fmt: skip


class SeveralRows(ToolboxRows):
    """Makes rows of two to five calls."""

    @property
    def kinds(self) -> Kinds:
        """The kinds of rows with their weights."""
        return (
            *((self.double, 16), (self.triple, 16), (self.chain, 14), (self.same, 26)),
            *((self.long_chain, 12), (self.chain_and, 10), (self.found, 6)),
        )

    def same(self) -> Row | None:
        """Asks one tool about several values: a call for each."""
        tool = self.pick()
        way = self._rng.choice(self._ways(tool.of))
        lists = [each for each in tool.of.arguments if each.kind in _LISTED]
        lists = [each for each in lists if way.count(f"{{{each.name}}}") == 1]
        if not lists:
            return None
        left = self._rng.choice(lists)
        pairs = dict(self._value(left) for _ in range(self._rng.choice((2, 2, 3, 3, 4))))
        if len(pairs) < 2:
            return None
        said = self._listed([*pairs])
        self._voice.kept += pairs
        text, values = self._filled(way.replace(f"{{{left.name}}}", "\0"), tool.of)
        calls: list[Call] = []
        for value in pairs.values():
            given = {**values, left.name: value.lower() if self._voice.lower else value}
            args = {
                tool.names[each.name]: given.get(each.name, "?")
                for each in tool.of.arguments
                if each.name in given or each.required
            }
            calls.append({"tool": tool.name, "args": args})
        return self._row(text.replace("\0", said), "calls", [tool], calls)

    def _listed(self, said: list[str]) -> str:
        if self._voice.is_zh:
            return "、".join(said[:-1]) + self._rng.choice(("和", "、", "以及")) + said[-1]
        return ", ".join(said[:-1]) + self._rng.choice((" and ", ", ", " as well as ")) + said[-1]

    def triple(self) -> Row | None:
        """Asks three things that do not need each other."""
        tools = [self.pick() for _ in range(3)]
        if len({each.of.name for each in tools}) < 3 or len({each.name for each in tools}) < 3:
            return None
        asked = [self._asked(each) for each in tools]
        a, b, c = (text.rstrip("?？.。") for text, _ in asked)
        if self._voice.is_zh:
            way = self._rng.choice(("{a}，{b}，还有{c}", "{a}。{b}。{c}。", "1. {a} 2. {b} 3. {c}"))
        else:
            b, c = (each[:1].lower() + each[1:] for each in (b, c))
            ways = ("{a}, {b}, and {c}", "{a}. Also {b}. And {c}.", "1. {a} 2. {b} 3. {c}")
            way = self._rng.choice(ways)
        text = way.replace("{a}", a).replace("{b}", b).replace("{c}", c)
        return self._row(text, "calls", tools, [made for _, made in asked])

    def _behind(self, core: str, place: int, used: set[str]) -> tuple[str, Dressed, Call] | None:
        """Returns a request that hands a result to one more tool."""
        ways = [way[2:].strip() for way in chains() if way.startswith(self._voice.lang)]
        way, _, target = self._rng.choice(ways).partition(" > ")
        name, argument = target.split()
        if name in used:
            return None
        tool = self._dressed(next(each for each in toolboxes() if each.name == name))
        behind, values = self._filled(way, tool.of)
        args = {
            tool.names[each.name]: f"${place}" if each.name == argument else values[each.name]
            for each in tool.of.arguments
            if each.name == argument or each.name in values
        }
        core = core.rstrip("?？.。") + ("." if behind.startswith("{} T") else "")
        return behind.replace("{}", core), tool, {"tool": tool.name, "args": args}

    def long_chain(self) -> Row | None:
        """Reads something, works on it, and hands that on: three calls in a row."""
        first = self.pick("read")
        core, made = self._asked(first)
        if first.of.name == "translate.text":
            return None
        translate = self._dressed(next(t for t in toolboxes() if t.name == "translate.text"))
        ways = ("{}, translate it into {language}", "{} and put it into {language}")
        ways_zh = ("{}，翻译成{language}", "{}，再译成{language}")
        way = self._rng.choice(ways_zh if self._voice.is_zh else ways)
        said, values = self._filled(way, translate.of)
        args = {
            translate.names[each.name]: "$1" if each.name == "text" else values[each.name]
            for each in translate.of.arguments
            if each.name == "text" or each.name in values
        }
        text = said.replace("{}", core.rstrip("?？.。"))
        used = {first.of.name, "translate.text"}
        last = self._behind(text, 2, used)
        if last is None or {last[1].name} & {first.name, translate.name}:
            return None
        calls = [made, {"tool": translate.name, "args": args}, last[2]]
        return self._row(last[0], "calls", [first, translate, last[1]], calls)

    def chain_and(self) -> Row | None:
        """Hands a result on, and asks for one more thing that needs none."""
        first, other = self.pick("read"), self.pick()
        core, made = self._asked(first)
        last = self._behind(core, 1, {first.of.name, other.of.name})
        if last is None or first.of.name == other.of.name:
            return None
        if len({first.name, other.name, last[1].name}) < 3:
            return None
        text, second = self._asked(other)
        a, b = last[0].rstrip("?？.。"), text.rstrip("?？.。")
        if self._voice.is_zh:
            joined = self._rng.choice((f"{a}。另外{b}", f"{a}；还有，{b}"))
        else:
            joined = self._rng.choice((f"{a}. Also, {b[:1].lower()}{b[1:]}", f"{a}. {b}."))
        return self._row(joined, "calls", [first, last[1], other], [made, last[2], second])

    def found(self) -> Row | None:
        """Asks to look something up first: its result is what the second tool needs."""
        of = self._rng.choice(_FOUND)
        if self._part == "validation":
            return None
        first, second = (
            self._dressed(next(each for each in toolboxes() if each.name == name))
            for name in (of.first, of.second)
        )
        way = self._rng.choice(of.zh if self._voice.is_zh else of.en)
        text, found = self._filled(way, first.of)
        text, given = self._filled(text, second.of)
        args = {
            second.names[each.name]: "$1" if each.name == of.argument else given.get(each.name, "?")
            for each in second.of.arguments
            if each.name in given or each.required
        }
        asked = {
            first.names[each.name]: found.get(each.name, "?")
            for each in first.of.arguments
            if each.name in found or each.required
        }
        calls = [{"tool": first.name, "args": asked}, {"tool": second.name, "args": args}]
        return self._row(text, "calls", [first, second], calls)
