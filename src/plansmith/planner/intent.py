"""Finds the changes that a request asks for (send, delete, save ...), in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from plansmith.lazy import lazy_pattern
from plansmith.text import HAN, READ_BY_RULES

Kind = Literal["save", "draw", "send", "rename", "delete", "order", "pay", "cancel"]

_NEAR: Final = 20  # characters before a verb that say whether it is meant
_FAR: Final = 100
_QUESTION: Final = lazy_pattern("如何|怎么|怎样|怎么办|为什么|是否|能不能告诉|可以吗|会不会|多少钱")
_DENIED: Final = lazy_pattern("(?:不要|别|不用|无需|不必|先不|切勿|请勿|不需要|不想)[^，,]{0,4}$")
# Descriptions and past actions ask for nothing: 已发送的邮件, 保存在 … 里的文件.
_DESCRIPTION: Final = lazy_pattern("(?:已|已经|曾|刚|被|我们|他|她|上次|之前|[的所])$")
_ABOUT_MONEY: Final = (
    "宝|方式|记录|状态|交易|的|信息|金额|平台|成功|后|密码|页面"
    "|能力|政策|进度|流程|申请|详情|情况|吗"
)
_STORE: Final = "(?:保存|另存|存储|存|写入|写|导出|输出)"
_SOME_FILE: Final = "[^，。]{0,12}(?:文件|“…”|[\\w-]{1,60}\\.\\w)"
_PATTERNS: Final[tuple[tuple[Kind, str], ...]] = (
    ("save", f"{_STORE}(?:为|到|成|至|入|进|在|一份)+(?={_SOME_FILE})"),
    ("save", "(?:保存|另存)(?:结果|它|下来|起来|这[些个份张])"),
    (
        "draw",
        "(?:画|绘制|绘|生成|制作|做)(?:出|成)?[^，。]{0,12}(?:图表|柱状图|折线图|饼图|散点图|条形图|一[张幅个]图)",
    ),
    ("send", "(?:发送|发|寄|转发)(?:一[封条个份])?[^，。]{0,8}(?:邮件|消息|短信|微信|信息)"),
    ("send", "(?:发送|发|寄|转发)(?:一[封条个份])?给(?!我)"),
    ("rename", "重命名|改名为|更名为"),
    (
        "delete",
        "(?:删除|删掉|移除)[^，。]{0,10}(?:文件|邮件|日程|会议|提醒|账户|账号|照片|任务|[\\w-]{1,60}\\.\\w)",
    ),
    ("order", "(?:预订|预定|订购|订)(?:一|两|三|\\d)?[张间个份束桌]"),
    ("order", "(?:购买|下单)[^，。了过]{0,6}[一两三\\d]"),
    ("pay", f"(?:支付|付款给|转账|退款|退还)(?!{_ABOUT_MONEY})"),
    ("cancel", "取消[^，。]{0,10}(?:订单|预订|预约|会议|订阅|机票|酒店|闹钟)"),
)
_RULES: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = tuple(
    (kind, lazy_pattern(pattern)) for kind, pattern in _PATTERNS
)


def chinese_intents(
    sentence: str, file: re.Pattern[str]
) -> Iterator[tuple[Kind, bool, tuple[str, ...], str]]:
    """Yields every change that a sentence mentions: kind, whether it is wanted, files, words."""
    if _QUESTION.search(sentence):
        return
    for kind, pattern in _RULES:
        for found in pattern.finditer(sentence):
            before = sentence[max(found.start() - _NEAR, 0) : found.start()]
            denied = bool(_DENIED.search(before))
            is_past = sentence.startswith(("了", "过"), found.end()) or found[0].endswith("了")
            if not denied and (is_past or _DESCRIPTION.search(before)):
                continue
            tail = re.split("[，,]", sentence[found.end() : found.end() + _FAR])[0]
            named = file.search(tail) if kind in ("save", "delete") else None
            if kind == "delete":
                named = file.search(f"{found[0]}{tail}")
            files = (_name(named[0]),) if named else ()
            yield kind, not denied, files, f"{found[0]}{tail}"[:40].strip()


def _name(found: str) -> str:
    """Returns a file name without adjoining words: 名为结果.csv is 结果.csv."""
    return re.sub("^(?:删除|删掉|移除|文件|名为|叫做?|一个|为|到|的)+", "", found)


_ENDINGS: Final = (
    "csv|tsv|jsonl?|txt|md|html?|pdf|xlsx?|docx?|pptx?|rtf|png|svg|jpe?g|gif|ya?ml|xml|toml|ini"
    "|parquet|log|db|sqlite3?|sql|py|js|ts|ics|zip"
)
FILE: Final = lazy_pattern(
    rf"(?<![\w./\\~-])(?:[\w.~-]*+[/\\])*[\w-]+(?:\.[\w-]+)*\.(?:{_ENDINGS})\b(?![/\\])",
    re.IGNORECASE,
)
_QUOTED: Final = lazy_pattern(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^“”]*”|「[^「」]*」|『[^『』]*』|《[^《》]*》|‘[^‘’]*’"
    r"|(?<!\w)'[^'\n]*'(?!\w)|^[ \t]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE_END: Final = lazy_pattern(r"(?<=[.!?;])\s+|[。！？；\n]+")
_ENGLISH_NEAR: Final = 120  # characters before a verb that may ask for it
_ENGLISH_FAR: Final = 400  # characters after a verb that belong to it


class Intent(NamedTuple):
    """A change that a request asks for, its files, and the words that ask for it."""

    kind: Kind
    files: tuple[str, ...] = ()
    words: str = ""


def find_intents(*texts: str) -> tuple[Intent, ...]:
    """Returns the changes that a request and the person's later messages ask for.

    A later text can take back what an earlier one asked for ("don't send it").
    """
    asked: list[Intent] = []
    for text in texts:
        found = _mentioned(text[:READ_BY_RULES])
        off = {intent.kind for intent, wanted in found if not wanted}
        asked = [intent for intent in asked if intent.kind not in off]
        asked += [intent for intent, wanted in found if wanted]
    return tuple(dict.fromkeys(asked))


@lru_cache(maxsize=256)
def _mentioned(text: str) -> tuple[tuple[Intent, bool], ...]:
    """Returns every change that a text mentions, and whether it is wanted."""
    return tuple(_mentions(text))


def _mentions(text: str) -> Iterator[tuple[Intent, bool]]:
    for sentence in sentences_without_quotes(text):
        if HAN.search(sentence):
            for kind, wanted, files, words in chinese_intents(sentence, FILE):
                yield Intent(kind, files, words), wanted
        else:
            yield from _english(sentence)


def sentences_without_quotes(text: str) -> list[str]:
    """Returns the sentences of a request; quoted text in them is replaced."""
    return _SENTENCE_END.split(_QUOTED.sub(_without_quote, text[:READ_BY_RULES]))


def _without_quote(found: re.Match[str]) -> str:
    """Replaces quoted text, which asks for nothing; keeps a quoted file name."""
    inner = found[0].strip("`\"“”「」『』《》‘’' ")
    return inner if FILE.fullmatch(inner) else " “…” "


_ADVERBS: Final = lazy_pattern(
    r"(?:\b(?:also|then|just|please|kindly|directly|finally|lastly|immediately|automatically"
    r"|quickly|simply|now|instead|afterwards?|next|first|secondly?|thirdly?|plus|so|today|tonight"
    r"|tomorrow|daily|weekly|monthly|(?:every|each|on) \w+"
    r"|at \d{1,2}(?::\d\d)?(?:\s?[ap]m)?)\b[\s,]*)+$",
    re.IGNORECASE,
)
_ASKS: Final = lazy_pattern(
    r"(?:^|[,:(\u2014-]|\b(?:and|then|&|please)"
    r"|\b(?:can|could|would|will) you|\b(?:want|need|like|ask(?:ing)?|expect)"
    r"(?: you| it| this)? to|\bhelp(?: me)?(?: to)?|\bplease help(?: me)?(?: to)?)\s*$",
    re.IGNORECASE,
)
_ENGLISH_DENIED: Final = lazy_pattern(
    r"(?:\b(?:don['’]?t|do not|never|not|no need to|needn['’]?t|without|instead of|rather than"
    r"|avoid|refrain from|stop)\b)[\s\w]{0,12}$",
    re.IGNORECASE,
)
# A sentence that asks how or whether something is done asks for no change.
_ENGLISH_QUESTION: Final = lazy_pattern(
    r"^\W*(?:(?:please |can you |could you |would you )?(?:tell|show|explain|teach)\b.{0,20})?"
    r"\b(?:how (?:do|does|did|can|could|to|would|should|might|is|are|many|much)|why|what if"
    r"|what happens|should (?:i|we)|(?:can|could|may|shall) (?:i|we)|is (?:it|there)|are there"
    r"|do i|does|did|have you|has|what (?:is|are|does|do)|what['’]s|when (?:should|do|can)"
    r"|whether|explain|suppose|if i|if we|imagine)\b",
    re.IGNORECASE,
)
# People who say what they want to buy mostly ask for advice.
_SHOPPING: Final = frozenset({"buy", "purchase"})
_WISH: Final = lazy_pattern(r"\b(?:want|need|like|looking|hoping|planning) to\s*$", re.IGNORECASE)
# "with the name Ann and email ann@example.com" lists details; it asks for no email.
_NOUNS: Final = frozenset({"email", "e-mail", "mail", "text", "message"})
_PARTS: Final = lazy_pattern(r"\bwith\b[^,;]{0,120}$", re.IGNORECASE)
_FOLLOWING: Final = lazy_pattern(
    r"[,.;:]?(?<!\s)\s++(?:and|then|&|but|before|after|so that)\s", re.IGNORECASE
)
_A: Final = r"(?:it|this|that|them|these|those|everything|all|both|each|every|the|my|our|your|a|an)"
_VERBS: Final = lazy_pattern(
    r"\b(save|write|store|export|append|dump|output|put|create|make|generate|produce|draw|plot"
    r"|chart|graph|visuali[sz]e|build|send|e-?mail|mail|text|message|forward|post|tweet|publish"
    r"|rename|move|delete|erase|remove|book|reserve|order|buy|purchase|pay|transfer|refund"
    r"|reimburse|cancel|add|sort|convert|copy|merge|combine|join|split|extract|filter|collect"
    r"|summari[sz]e|translate|give|remind|notify|inform|invite)\b",
    re.IGNORECASE,
)
_CHART: Final = r"(?:chart|graph|plot|histogram|diagram)s?\b"
_TO_FILE: Final = lazy_pattern(
    r"\b(?:to|in|into|as|onto|at|under|named|called)\s+(?:a |an |the |my |new |separate |single )*"
    r"(?:file\s+)?(?:(?:named|called|as)\s+)?$",
    re.IGNORECASE,
)
# `write the totals in a.csv to b.md`: what is in one file goes to another.
_IN: Final = lazy_pattern(r"\b(?:in|at|under)\s+(?:the |my )?(?:file\s+)?$", re.IGNORECASE)
_ENGLISH_SOME_FILE: Final = lazy_pattern(
    r"\b(?:to|in|into|as)\s+(?:a|an|the|my|one)\s+(?:new |local |separate )?"
    r"(?:(?:csv|json|text|txt|excel|markdown|pdf|html|word|yaml|log)\s+file|file|disk)\b",
    re.IGNORECASE,
)
_OWN: Final = lazy_pattern(rf"{_A}\b(?!\s+(?:day|date|trip|hassle|trouble))", re.IGNORECASE)
_THING: Final = (
    r"(?:files?|folders?|director(?:y|ies)|e?-?mails?|messages?|events?|meetings?|appointments?"
    r"|accounts?|tasks?|notes?|reminders?|alarms?|photos?|pictures?|documents?|contacts?|posts?"
    r"|calendar|bookings?|reservations?|subscriptions?)\b"
)
_MONEY: Final = r"money|cash|payment|funds|usd|eur|[$€£\d]"
_MESSAGE: Final = (
    r"(?:an?|the|my|this|that)\s++(?:\S++\s++){0,2}?"
    r"(?:e-?mail|mail|message|sms|text|letter|invitation|invite)\b"
)
# What must follow a verb for it to ask for a change of this kind.
_ENGLISH_PATTERNS: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("draw|make|create|generate|produce|build", "draw", rf"\s++(?:\S++\s++){{0,5}}?{_CHART}"),
    ("plot", "draw", rf"\s+{_A}\b"),
    ("chart|graph|visualize|visualise", "draw", r"\s+(?:it|this|that|them|the|my|these)\b"),
    (
        "send",
        "send",
        rf"(?!\s+(?:me\b|us\b|back\b|{_MONEY}))\s++(?:\S++\s++){{0,9}}?(?:{_MESSAGE}|to\s+\S+)",
    ),
    (
        "email|e-mail|mail|message|text",
        "send",
        r"\s+(?:him|her|them|it|this|that|the|my|every|all|everyone|[\w.+-]+@\S+)\b",
    ),
    (
        "remind|notify|inform|invite",
        "send",
        r"\s++(?!me\b|us\b)(?:\S++\s++){1,6}?(?:by|via)\s+(?:e-?mail|mail|sms|text|message)\b",
    ),
    ("forward", "send", r"\s+(?:it|this|that|them|the|my)\b.*\bto\b"),
    ("post|publish", "send", r"\s+(?:it|this|that|them|the|a|an|my)\b.*\b(?:to|on|in)\b"),
    ("tweet", "send", rf"\s+(?:{_A}|about|that)\b"),
    ("rename", "rename", r"\s+\S"),
    ("delete|erase|remove", "delete", rf"\s++(?:\S++\s++){{0,4}}?{_THING}"),
    ("book|reserve", "order", r"\s+(?:me|us|it|a|an|the|one|two|three|four|\d+|my)\b"),
    ("order", "order", r"\s+(?:me|us|a|an|some|one|two|three|\d+)\s+(?!by\b)"),
    ("buy|purchase", "order", r"\s+(?:me|us|it|them|a|an|some|one|two|three|\d+|the)\b"),
    ("pay", "pay", r"\s+(?!attention|heed|tribute|respect)\S"),
    ("send|transfer", "pay", r"\s++(?:\S++\s++){0,2}?(?:[$€£]\s?\d|money|funds|\d[\d,.]*\s)"),
    ("refund|reimburse", "pay", r"\s+\S"),
    (
        "cancel",
        "cancel",
        r"\s+(?:it|this|that|them|the|my|our|all|every|order|booking|reservation)\b",
    ),
)
_ENGLISH_RULES: Final[tuple[tuple[frozenset[str], Kind, re.Pattern[str]], ...]] = tuple(
    (frozenset(verbs.split("|")), kind, lazy_pattern(rest, re.IGNORECASE))
    for verbs, kind, rest in _ENGLISH_PATTERNS
)


class _Place(NamedTuple):
    """A verb in a sentence, the words before it, and whether these ask for something."""

    verb: re.Match[str]
    before: str
    asks: bool


def _english(sentence: str) -> list[tuple[Intent, bool]]:
    is_question = bool(_ENGLISH_QUESTION.match(sentence))
    places = [_place(sentence, found) for found in _VERBS.finditer(sentence)]
    intents: list[tuple[Intent, bool]] = []
    end = len(sentence)
    for verb, before, asks in reversed(places):
        denied = bool(_ENGLISH_DENIED.search(_nearby(sentence, verb.start())))
        # The words of one change end where the next one begins.
        rest, end = sentence[verb.end() : end], verb.start() if asks else end
        if not denied and (is_question or not asks or _is_description(verb[1].casefold(), before)):
            continue
        for kind, files in _meant(verb[1].casefold(), rest[:_ENGLISH_FAR]):
            words = _JOINED.sub("", " ".join(f"{verb[1]}{rest[:_ENGLISH_FAR]}".split())[:80])
            intents.append((Intent(kind, files, words), not denied))
    return intents[::-1]


# Words that join two changes belong to neither: `draw a chart and`.
_JOINED: Final = lazy_pattern(r"(?:[\s,.;:!?&]++(?:(?:and|then|also|please)\b)?)+$", re.IGNORECASE)


def _place(sentence: str, verb: re.Match[str]) -> _Place:
    before = _ADVERBS.sub("", _nearby(sentence, verb.start()))
    return _Place(verb, before, bool(_ASKS.search(before)))


def _nearby(sentence: str, end: int) -> str:
    """Returns the words before a position; `…` replaces those further away."""
    return sentence[:end] if end <= _ENGLISH_NEAR else f"… {sentence[end - _ENGLISH_NEAR : end]}"


def _is_description(verb: str, before: str) -> bool:
    """Whether the words describe something rather than ask for it."""
    if verb in _SHOPPING:
        return bool(_WISH.search(before))
    return verb in _NOUNS and bool(_PARTS.search(before))


def _meant(verb: str, rest: str) -> Iterator[tuple[Kind, tuple[str, ...]]]:
    saved = _saved(verb, rest)
    if saved is not None:
        yield "save", saved
        return
    for verbs, kind, followed in _ENGLISH_RULES:
        if verb in verbs and followed.match(_until_clause(rest)):
            files = tuple(FILE.findall(rest)) if kind in ("delete", "rename") else ()
            yield kind, files[:1] if kind == "rename" else files
            return
    if verb in ("delete", "erase", "remove", "move") and (named := _objects(rest)):
        yield ("rename" if verb == "move" else "delete"), named


def _until_clause(rest: str) -> str:
    found = _FOLLOWING.search(rest)
    return rest[: found.start()] if found else rest


def _objects(rest: str) -> tuple[str, ...]:
    """Returns files right after the verb: `delete old.log and tmp.log`."""
    first = FILE.search(rest)
    if first is None or len(rest[: first.start()].split()) > 3:
        return ()
    return tuple(each[0] for each in FILE.finditer(rest))


_SAVING: Final = frozenset({"save", "write", "store", "export", "append", "dump", "output", "put"})
_MAKING: Final = frozenset({"create", "make", "generate", "produce"})
# Verbs that turn one file into another: `sort people.csv into sorted.csv`.
_TURNING: Final = lazy_pattern(
    "sort|convert|copy|merge|combine|join|split|extract|filter|collect|summari[sz]e|translate"
)
_INTO: Final = lazy_pattern(
    r"\b(?:into|as)\s+(?:a |an |the |my |new )*(?:file\s+)?(?:(?:named|called)\s+)?$", re.IGNORECASE
)


# A new file, as in `give me a csv called out.csv`; "the file called in.csv" exists already.
_NEW: Final = lazy_pattern(r"\ban?\s+(?:new\s+)?(?:\w+\s+){1,2}(?:named|called)\s+$", re.IGNORECASE)


def _saved(verb: str, rest: str) -> tuple[str, ...] | None:
    """Returns the files to save; empty for an unnamed file; None if nothing is to be saved."""
    if _TURNING.fullmatch(verb):
        into = [each[0] for each in FILE.finditer(rest) if _INTO.search(rest[: each.start()])]
        return tuple(into) or None
    if verb == "give":
        return (
            tuple(each[0] for each in FILE.finditer(rest) if _NEW.search(rest[: each.start()]))
            or None
        )
    if verb not in _SAVING | _MAKING | {"add"}:
        return None
    files = list(FILE.finditer(rest))
    targets = [each for each in files if _TO_FILE.search(rest[: each.start()])]
    away = [each for each in targets if not _IN.search(rest[: each.start()])]
    named = [each[0] for each in away or targets]
    direct = verb in _MAKING | {"save"} and files and len(rest[: files[0].start()].split()) <= 3
    if named or direct:
        return tuple(named or [files[0][0]])
    if verb in _SAVING and _ENGLISH_SOME_FILE.search(rest):
        return ()
    is_own = verb == "save" and _OWN.match(rest.strip()) and not re.search(r"\bfor me\b", rest)
    return () if is_own else None
