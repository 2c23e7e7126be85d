"""The short language of calls that a small model writes instead of a plan, and its grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from plansmith.adapters.models.local.grammar import GrammarBook
from plansmith.adapters.models.local.grammar_rules import literal
from plansmith.adapters.models.local.signatures import Offered, signature
from plansmith.ports import Message
from plansmith.text import HAN

MOST_CALLS: Final = 6
REPLY_START: Final = '{"reply":'
# Words that announce a second action, which must not be forgotten.
_IN_TURN: Final = re.compile(
    r"\b(?:then|afterwards|after that)\b|\band (?:write|save|append|draw|plot|put)\b[^.]*\s"
    r"[\w./-]+\.[a-z]{2,4}\b|然后|接着|随后|之后再|，再|，并|并且|并把|并将",
    re.IGNORECASE,
)
_RULES: Final = """\
You are Plansmith. You turn a request into calls of the tools listed with it.
Answer with one line of JSON:
{"calls":[{"tool":NAME,"args":{…}}]} or {"reply":TEXT}
- Call only what the request asks for, in the order in which it has to run.
- Take values from the request, exactly as written there. Never invent one.
- "$1" stands for the result of the first call, "$2" for that of the second: use it where a
  later call works on an earlier result.
- "?" stands for a required value that the request does not give.
- Leave out optional arguments that the request does not speak of.
- Greetings, thanks, general questions, and whatever no listed tool does, get {"reply":TEXT}.\
"""


def _example(tools: str, request: str, answer: Mapping[str, Any]) -> tuple[Message, Message]:
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return Message("user", _asked(tools, request)), Message("assistant", text)


def _asked(tools: str, request: str, context: str = "") -> str:
    about = f"{context}\n" if context else ""
    return f"Tools:\n{tools}\n{about}Request: {request}"


def _call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


_WEATHER: Final = "weather.forecast(city: text, days?: whole number) - Weather forecast. 天气预报"
_MAIL: Final = "mail.send(to: text, subject?: text, body: text) - Send an e-mail. 发邮件"
_HOTEL: Final = "hotel.book(hotel: text, arrival: date, nights: whole number) - Book a hotel room."
_NOTES: Final = "notes.read(title: text) - Read a note. 读取笔记"
_DATA: Final = "data.query(query: sql) - Answer a question with one SELECT. 查询数据"
_PLOT: Final = "plot.draw(rows: list of object, path: text) - Draw rows as a picture. 画图"
_SHORT: Final = "text.summarise(text: text) - Summarise a text. 总结文字"
_EXAMPLES: Final = (
    *_example(
        f"{_WEATHER}\n{_HOTEL}",
        "北京未来3天天气怎么样？",
        {"calls": [_call("weather.forecast", city="北京", days=3)]},
    ),
    *_example(
        f"{_MAIL}\n{_SHORT}\n{_NOTES}",
        "Summarise my note 'Trip to Rome' and mail the summary to kim@post.org.",
        {
            "calls": [
                _call("notes.read", title="Trip to Rome"),
                _call("text.summarise", text="$1"),
                _call("mail.send", to="kim@post.org", body="$2"),
            ]
        },
    ),
    *_example(
        f"{_HOTEL}\n{_MAIL}",
        "Book me a room at the Hotel Adler from 2026-05-02.",
        {"calls": [_call("hotel.book", hotel="Hotel Adler", arrival="2026-05-02", nights="?")]},
    ),
    *_example(
        f"{_WEATHER}\n{_NOTES}",
        "Translate 'good morning' into Finnish.",
        {"reply": "None of the tools here translates. It is 'hyvää huomenta'."},
    ),
    *_example(
        f"{_WEATHER}\n{_MAIL}",
        "How is the weather in Oslo and in Bergen?",
        {
            "calls": [
                _call("weather.forecast", city="Oslo"),
                _call("weather.forecast", city="Bergen"),
            ]
        },
    ),
    *_example(
        f"{_MAIL}\n{_NOTES}",
        "把笔记发给李雷",
        {"calls": [_call("notes.read", title="?"), _call("mail.send", to="李雷", body="$1")]},
    ),
    *_example(
        f"{_DATA}\n{_PLOT}\nKnown (table): visits: month, shop, guests (number)",
        "Draw the guests per month as guests.svg",
        {
            "calls": [
                _call(
                    "data.query",
                    query="SELECT month, SUM(guests) AS guests FROM visits GROUP BY month",
                ),
                _call("plot.draw", rows="$1", path="guests.svg"),
            ]
        },
    ),
    *_example(
        f"{_DATA}\n{_NOTES}\nKnown (table): members: id, name\n"
        "Known (table): payments: id, member_id, sum (number)",
        "哪些会员一共付了50以上？",
        {
            "calls": [
                _call(
                    "data.query",
                    query="SELECT m.name, SUM(p.sum) AS total FROM payments p JOIN members m "
                    "ON m.id = p.member_id GROUP BY m.id HAVING SUM(p.sum) > 50",
                )
            ]
        },
    ),
    *_example(f"{_NOTES}\n{_WEATHER}", "你好呀！", {"reply": "你好！有什么可以帮你的吗？"}),
)


PREFIX: Final = (Message("system", _RULES), *_EXAMPLES)


def _example_values() -> Iterator[str]:
    for message in _EXAMPLES[1::2]:
        for call in json.loads(message.text).get("calls", ()):
            yield from (each for each in call["args"].values() if isinstance(each, str))


# What the examples speak of is no value of any request that does not say it too.
EXAMPLE_VALUES: Final = frozenset(_example_values())


def calls_messages(
    request: str, tools: Sequence[Offered], *, context: str = "", remark: str = ""
) -> list[Message]:
    """Returns the prompt; the part that all requests share comes first, to be cached."""
    lines = "\n".join(map(signature, tools)) or "(none)"
    asked = _asked(lines, request, context) + (f"\n{remark}" if remark else "")
    return [*PREFIX, Message("user", asked)]


def reply_grammar() -> str:
    """Returns a grammar for drafts that call no tool."""
    book = GrammarBook()
    return book.text(_reply(book))


def calls_grammar(
    request: str,
    tools: Sequence[Offered],
    *,
    known: str = "",
    in_turn: bool = True,
    replies: bool = False,
) -> str:
    """Returns a grammar for drafts that call these tools with valid arguments.

    With `in_turn`, words that announce a second action force a second call; with `replies`, a
    draft may also be a reply.
    """
    # A small model translates what it should copy: it does not get the letters to do so.
    book = GrammarBook(without="" if HAN.search(request + known) else "\\u3400-\\u9fff")
    ws = book.use("ws")
    # Where a call can give rows, they are taken from it and not asked for.
    starts = [tool for tool in tools if not _needs_rows(tool)]
    found = any(map(_gives_rows, starts))
    first, second, later = (
        book.rule(" | ".join(_tool_call(book, tool, earlier, found=found) for tool in some))
        for earlier, some in (("", starts if found else tools), ("[1]", tools), ("[1-9]", tools))
    )
    rest = f'("," {ws} {later}){{0,{MOST_CALLS - 2}}}'
    more = f'("," {ws} {second} {rest})'
    must = in_turn and _IN_TURN.search(request)
    calls = f"{first} {more}" if must else f"{first} {more}?"
    whole = f'{literal("{")} {literal(json.dumps("calls"))} ":" {ws} "[" {calls} "]" "}}"'
    return book.text(f"{_reply(book)} | {whole}" if replies else whole)


def _reply(book: GrammarBook) -> str:
    return f'{literal(REPLY_START)} {book.use("string")} "}}"'


def _tool_call(book: GrammarBook, tool: Offered, earlier: str, *, found: bool) -> str:
    placeholder = book.rule(_placeholder(earlier))
    rows = book.rule(f'"\\"" {_result(earlier)} "\\""') if earlier and found else placeholder
    fields: dict[str, str] = {}
    for name, schema in tool.fields.items():
        if is_rows(schema):
            fields[name] = rows
            continue
        value = book.within(tool.inputs, schema)
        # A plain text can be a hole as it is.
        fields[name] = value if value == "string" else book.rule(f"{value} | {placeholder}")
    args = book.record(fields, tool.required) if fields else '"{" "}"'
    name = literal(json.dumps(tool.name, ensure_ascii=False))
    return f'"{{\\"tool\\":" ws {name} "," ws "\\"args\\":" ws {args} "}}"'


def is_rows(schema: Any) -> bool:
    """Whether an argument takes rows of any shape: they come from a call, no one writes them."""
    if not isinstance(schema, Mapping):
        return False
    known = cast("Mapping[str, Any]", schema)
    items: Any = known.get("items")
    if known.get("type") != "array" or not isinstance(items, Mapping):
        return False
    each = cast("Mapping[str, Any]", items)
    return each.get("type") == "object" and not each.get("properties")


def _needs_rows(tool: Offered) -> bool:
    return any(is_rows(tool.fields.get(name)) for name in tool.required)


def _gives_rows(tool: Offered) -> bool:
    given: Any = (tool.gives or {}).get("properties")
    fields = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else dict[str, Any]()
    return any(is_rows(each) for each in (tool.gives, *fields.values()))


def _placeholder(earlier: str) -> str:
    """Returns what may replace any value: a question, or the result of an earlier call."""
    result = f" | {_result(earlier)}" if earlier else ""
    return f'"\\"" ("?"{result}) "\\""'


def _result(earlier: str) -> str:
    return f'"$" {earlier} ("." [a-zA-Z0-9_]+){{0,3}}'
