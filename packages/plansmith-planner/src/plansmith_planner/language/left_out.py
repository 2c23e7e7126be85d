"""Warns of what a drafted plan seems to leave out of a request, and of values it seems to make up.

Both are found by words, in English and Chinese, and words can mislead: a person is told of them in
the review, and nothing else depends on them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from plansmith.check.names import reads, words
from plansmith.lazy import lazy_pattern
from plansmith.plan.capability import AgentSpec, Effect, Tools, ToolSpec, tool_specs
from plansmith.plan.data import Json, leaves
from plansmith.plan.graph import downstream
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import find
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, MapStep, PlanStep, StepFields, ToolStep
from plansmith.text import READ_BY_RULES, clip

MISSING: Final = "PS504"
DROPPED: Final = "PS506"
_SHOWN: Final = 80


def left_out(
    texts: Iterable[str], plan: Plan, tools: Sequence[ToolSpec], agents: Sequence[AgentSpec] = ()
) -> list[Problem]:
    """Returns a warning for each change and condition in a person's texts that a plan lacks."""
    said = [*texts]
    active = [step for step in plan.steps if not step.disabled]
    callees: dict[str, ToolSpec | AgentSpec] = {each.name: each for each in tools}
    callees |= {each.name: each for each in agents}
    found: list[Problem] = []
    for change in find_changes(*said):
        files = _not_made(change, active, callees)
        if files is not None:
            message = Sentence(f"deed.{change.kind}", what=[*files] or f"“{change.words}”")
            found.append(
                problem(
                    MISSING,
                    message,
                    hint=Sentence("ask for a plan that does, or approve this one as it is"),
                )
            )
    if any(map(_decides, active)) or _acts_on_selection(active, callees):
        return found
    hint = Sentence("ask for a plan that does, or approve this one if every step should run")
    for condition in dict.fromkeys(each for text in said for each in find_conditions(text)):
        message = Sentence(
            "You said “{words}”, but no step depends on it: every step would run",
            words=clip(condition, _SHOWN),
        )
        found.append(problem(DROPPED, message, hint=hint))
    return found


_FILE: Final = (
    r"[\w./\\~-]{1,200}\.(?:csv|tsv|jsonl?|txt|md|html?|pdf|xlsx?|docx?|pptx?|png|svg|jpe?g|gif"
    r"|ya?ml|xml|toml|ini|parquet|log|db|sqlite3?|sql|py|js|ts|ics|zip)\b"
)
_FILES: Final = lazy_pattern(_FILE, re.IGNORECASE | re.ASCII)
_QUOTED: Final = lazy_pattern(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^“”]*”|「[^「」]*」|『[^『』]*』|《[^《》]*》|‘[^‘’]*’"
    r"|(?<!\w)'[^'\n]*'(?!\w)|^[ \t]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE_END: Final = lazy_pattern(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
# A sentence that asks how or whether something is done wants no change and sets no condition.
_QUESTION: Final = lazy_pattern(
    r"^\W*(?:(?:please |can you |could you )?(?:tell|show|explain|teach)\b.{0,20}?\b)?"
    r"(?:how|why|what|which|who|whom|whose|where|whether|should|is|are|do (?:i|we)|does|did|has"
    r"|have|was|were|suppose|imagine|(?:can|could|may|shall) (?:i|we))\b"
    r"|如何|怎么|怎样|会怎|为什么|会不会|多少|[吗呢]？?\s*$",
    re.IGNORECASE,
)


def _statements(text: str) -> list[str]:
    """Returns the sentences of a text that are no questions, without quoted text."""
    plain = _QUOTED.sub(_unquoted, text[:READ_BY_RULES])
    return [each for each in _SENTENCE_END.split(plain) if not _QUESTION.search(each)]


def _unquoted(found: re.Match[str]) -> str:
    """Replaces quoted text, which asks for nothing; keeps a quoted file name."""
    inner = found[0].strip("`\"“”「」『』《》‘’' ")
    return inner if _FILES.fullmatch(inner) else " “…” "


class Change(NamedTuple):
    """A change that a request asks for, its files, and the words that ask for it."""

    kind: str
    files: tuple[str, ...] = ()
    words: str = ""


_SOME: Final = r"(?:it|this|that|them|these|everything|all|every|the|my|our|an?)\b"
_TO: Final = r" (?:(?:an?|the|my|new|file|named|called) )*+"
# What asks for a change: in English at the start of a clause, in Chinese anywhere in it.
_ASKS: Final[Mapping[str, str]] = {
    "save": r"^(?:save|write|store|export|append|put|create|make|generate|add)\b.*\b"
    rf"(?:to|into|as|named|called){_TO}({_FILE})|^(?:save|store|put|append)\b.*\bin{_TO}({_FILE})"
    r"|^(?:save|write|store|export|append|put)\b.*\b(?:to|in|into|as) an? (?:\w+ )?file\b"
    rf"|^(?:save|create|make) ({_FILE})|^save {_SOME}"
    r"|^(?:sort|convert|copy|merge|join|split|extract|filter|collect|summari[sz]e|translate)\b"
    rf".*\b(?:into|as){_TO}({_FILE})|^give me an? \w+ (?:named|called) ({_FILE})"
    rf"|(?:保存|另存|存储|写入|写|导出|输出)(?:[为到成至入进在名叫]|文件|\s)+({_FILE})"
    r"|(?:保存|另存)(?:结果|它|下来|起来|这|[为到成].{0,9}文件)",
    "draw": r"^(?:draw|make|create|generate|build) (?:\S++ ){0,4}(?:chart|graph|histogram)s?\b"
    rf"|^(?:plot|chart|graph|visuali[sz]e) {_SOME}"
    r"|(?:画|绘制|生成|制作|做).{0,12}?(?:图表|柱状图|折线图|饼图|散点图|一[张幅个]图)",
    "pay": r"^(?:pay|refund|reimburse) (?!attention|tribute|respect)\S"
    r"|^(?:send|transfer) (?:\S++ ){0,2}(?:[$€£]|money\b|funds\b|\d[\d,.]*+ ?(?:usd|eur)\b)"
    r"|(?:支付|付款给|转账|退款|退还)(?!宝|方式|记录|状态|的|信息|金额|政策|进度|流程|申请)",
    "send": r"^(?:send|forward|post|publish|tweet) (?!me\b|us\b|back\b)(?:.*\b(?:to|on) \S"
    r"|(?:\S++ ){0,3}(?:e-?mail|message|sms|letter|invitation)\b)|^(?:e-?mail|mail|message|text)"
    rf" (?:{_SOME}|him\b|her\b|everyone\b|[\w.+-]{{1,80}}@)"
    r"|(?:发送|发|寄|转发)(?:一[封条个份])?(?:.{0,8}?(?:邮件|消息|短信|微信|信息)|给(?!我))",
    "rename": rf"^rename \S|^move (?:\S++ ){{0,3}}{_FILE}|重命名|改名为|更名为",
    "delete": r"^(?:delete|erase|remove) (?:\S++ ){0,4}(?:(?:file|folder|e-?mail|message|event"
    rf"|meeting|account|task|note|reminder|photo|document|contact|post|booking)s?\b|{_FILE})"
    rf"|(?:删除|删掉|移除).{{0,10}}?(?:文件|邮件|日程|会议|提醒|账户|账号|照片|任务|{_FILE})",
    "order": r"^(?:book|reserve|order|buy|purchase) (?:me|us|an?|some|one|two|three|four|\d+)\b"
    r"|^(?:book|reserve) (?:it|the|my)\b|(?:预订|预定|订购|订)(?:一|两|三|\d)?[张间个份束桌]"
    r"|(?:购买|下单)[^了过]{0,6}[一两三\d]",
    "cancel": r"^cancel (?:it|this|that|them|the|my|our|all|every|order|booking|reservation)\b"
    r"|取消.{0,10}?(?:订单|预订|预约|会议|订阅|机票|酒店|闹钟)",
}
# How words begin in the names and descriptions of tools that make the change.
_MADE_BY_WORDS: Final[Mapping[str, str]] = {
    "save": "save write store export append file document sheet upload download copy insert 存 写"
    " 导出 文件 文档 记录 创建 下载",
    "draw": "draw plot chart graph visuali diagram image picture render figure histogram 画 图 绘",
    "pay": "pay transfer refund reimburse charge transaction money repay remit deposit checkout"
    " book reserv order buy purchase 付 转账 退 缴 交易 款",
    "send": "send mail email message sms forward post publish tweet notif share slack telegram"
    " invite reply letter deliver announce dispatch 发 邮 消息 短信 通知 分享 寄 信",
    "rename": "rename move update edit change modify 命名 改名 移动 修改 更新",
    "delete": "delete remove erase trash clear drop archive cancel clean purge 删 移除 清 取消",
    "order": "book reserv order buy purchase ticket checkout cart appointment rent hire trade"
    " 订 定 买 购 下单 预约 挂号 交易 租 创建 添加",
    "cancel": "cancel delete remove refund return stop unsubscribe modify 取消 删 退 撤",
}
_MADE_BY: Final = {kind: tuple(starts.split()) for kind, starts in _MADE_BY_WORDS.items()}
# After these letters a word only tells or describes: 已发送的邮件, 是否删除.
_ASKING: Final = {
    kind: lazy_pattern(f"(?<![已曾刚被的所们他她次前否])(?:{asks})", re.IGNORECASE)
    for kind, asks in _ASKS.items()
}
_CLAUSE_END: Final = lazy_pattern(r"[,;:(]\s+|[—，、]|\b(?:and|then|but|please)\s", re.IGNORECASE)
_LEAD: Final = lazy_pattern(
    r"\W*(?:(?:then|also|please|kindly|just|finally|first|next|now|today|tonight|tomorrow|daily"
    r"|weekly|monthly|(?:can|could|would|will) you|help me|i (?:want|need|would like) you to"
    r"|(?:every|each|on) \w+|at \d[\d:]*+(?:\s?[ap]m)?)\s++)*+",
    re.IGNORECASE,
)
_DENIED: Final = lazy_pattern(
    r"\b(?:don['’]?t|do not|never|no need to|without|instead of)\s+"
    r"|不要|(?<![分特级类区性])别(?!名|人|的)|不用|无需|不必|先不|切勿|请勿|不需要|不想",
    re.IGNORECASE,
)


def find_changes(*texts: str) -> tuple[Change, ...]:
    """Returns the changes that a request and the person's later messages ask for.

    A later text can take back what an earlier one asked for ("don't send it").
    """
    wanted: list[Change] = []
    sentences = [each for text in texts for each in _statements(text)]
    for clause in (each for sentence in sentences for each in _CLAUSE_END.split(sentence)):
        denied = _DENIED.search(clause)
        lead = denied or _LEAD.match(clause)
        asked = " ".join(clause[lead.end() if lead else 0 :].strip(" .!。！?").split())
        matches = ((kind, pattern.search(asked)) for kind, pattern in _ASKING.items())
        kind, found = next((each for each in matches if each[1]), ("", None))
        if found is None:
            continue
        files = [each for each in found.groups() if each]
        if kind in ("delete", "rename"):
            files = _FILES.findall(asked)[:1]
        if denied:
            wanted = [each for each in wanted if each.kind != kind]
        else:
            wanted.append(Change(kind, tuple(files), clip(asked, _SHOWN)))
    return tuple(dict.fromkeys(wanted))


def _not_made(
    change: Change, steps: Sequence[AnyStep], callees: Mapping[str, ToolSpec | AgentSpec]
) -> Sequence[str] | None:
    """Returns the files for which no step makes a change; None if nothing is missing."""
    calls = [step.each if isinstance(step, MapStep) else step for step in steps]
    named: set[str] = set()
    making = [call for call in calls if _may_make(change.kind, call, callees)]
    for call in making:
        texts = leaves(call.inputs) if isinstance(call, ToolStep) else ()
        files = [each for each in texts if isinstance(each, str) and _FILES.fullmatch(each)]
        if not files:
            return None  # it gets the name from a person or a result
        named |= {_base(each) for each in files}
    left = [each for each in change.files if _base(each) not in named]
    return left if left or not making else None


def _may_make(kind: str, call: AnyStep, callees: Mapping[str, ToolSpec | AgentSpec]) -> bool:
    """Whether a step makes changes of a kind; what is unknown or says nothing may make any."""
    match call:
        case ToolStep(tool=name) | AgentStep(agent=name):
            spec = callees.get(name)
        case _:
            return isinstance(call, PlanStep)
    if spec is None:
        return True
    if isinstance(spec, AgentSpec):
        return spec.effect is not Effect.READ or kind == "draw"
    if reads(spec) and kind != "draw":
        return False
    about = f"{spec.name} {spec.description}"
    made: set[str] = set()
    for each, starts in _MADE_BY.items():
        if any(word.startswith(starts) for word in words(about)) or any(
            start in about for start in starts if not start.isascii()
        ):
            made.add(each)
    return kind in made or not (made or reads(spec))


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1].casefold()


# A condition, up to the end of its clause; the dot in `a.csv` or `0.5` does not end it.
_CONDITION: Final = lazy_pattern(
    r"\b(?:only if|unless|if|when(?=(?:[^.;]|\.(?=\S)){,200}?\bthen\b))\s+"
    r"(?:[^,.;:，]|[,.:](?=\w))+"
    r"|(?:如果|假如|倘若|要是|只要|除非|只有(?=.{0,200}?才)|(?<![宛仿般似假倘])若(?!干|何|隐|即))[^，。；：,;]+",
    re.IGNORECASE,
)
# Politeness and figures of speech: "if possible", "if any", "as if".
_POLITE: Final = lazy_pattern(
    r"(?:only )?if\s+(?:(?:it(?:'s| is)|that(?:'s| is)|at all)\s+)?(?:possible|any|needed|necessary"
    r"|required|so|not|applicable|available|in doubt|unsure|helpful|useful|relevant|appropriate"
    r"|desired|known|(?:that |it )?(?:helps|works|makes sense)|there (?:is|are) any|anything|clear"
    r"|you(?:'d| would)? (?:can|could|like|want|wish|need|have|think|don't|do not|must|may|know"
    r"|are))\b|(?:如果|若|要是|假如|只要)(?:可以|可能|能|行|方便|需要|必要|有必要|没有的话|不行|你|您"
    r"|不确定|不清楚|有问题|有任何|愿意|想)",
    re.IGNORECASE,
)
# Before the word: a question about a fact ("check if it works"), a figure, or a hypothesis.
_WHETHER: Final = lazy_pattern(
    r"\b(?:check|see|verify|test|find out|figure out|tell(?: (?:me|us|him|her|them))?|know|ask"
    r"|wonder|determine|decide|confirm|say|show(?: me)?|look|learn|detect|ensure|as|even|what"
    r"|happens?|matter|care|mind|remember|sure)\s+$|\bwhat (?:happens|would happen)\b[^,]{0,200}$",
    re.IGNORECASE,
)
# A task or an argument that itself selects or decides, such as a query.
_SELECTS: Final = lazy_pattern(
    r"[<>]|\b(?:where|having|case|if|unless|filters?|conditions?|threshold)\b"
    r"|如果|若|大于|小于|超过",
    re.IGNORECASE,
)


def find_conditions(text: str) -> list[str]:
    """Returns the conditions that a request sets, in its words; questions set none."""
    return [
        " ".join(each[0].split())
        for sentence in _statements(text)
        if not sentence.rstrip().endswith(("?", "？"))
        for each in _CONDITION.finditer(sentence)
        if not _POLITE.match(each[0])
        and not _WHETHER.search(sentence[max(each.start() - 250, 0) : each.start()])
    ]


def _decides(step: AnyStep) -> bool:
    """Whether a step has a condition, or passes one on; a template may have one."""
    if isinstance(step, MapStep) and _decides(step.each):
        return True
    if isinstance(step, AgentStep) and _SELECTS.search(step.task):
        return True
    return step.when is not None or step.repeat is not None or isinstance(step, PlanStep)


def _acts_on_selection(
    steps: Sequence[AnyStep], callees: Mapping[str, ToolSpec | AgentSpec]
) -> bool:
    """Whether a step selects by a condition, and a change, if there is any, uses what it selects.

    "If the travels cost more than 300, write a note": a query for travels decides nothing then.
    """
    calls = {step.id: step.each if isinstance(step, MapStep) else step for step in steps}
    tool_calls = {name: call for name, call in calls.items() if isinstance(call, ToolStep)}
    texts = {n: json.dumps(call.inputs, ensure_ascii=False) for n, call in tool_calls.items()}
    selecting = {name for name, text in texts.items() if _SELECTS.search(text)}
    specs = {name: callees.get(call.tool) for name, call in tool_calls.items()}
    acting = {n for n, spec in specs.items() if not (isinstance(spec, ToolSpec) and reads(spec))}
    uses = {step.id: frozenset(ref.step for ref in step.refs()) & calls.keys() for step in steps}
    decided = selecting | downstream(uses, selecting)
    return bool(selecting) and (not acting or bool(acting & decided))


MADE_UP: Final = "PS505"
_COUNTED: Final = 12  # counts such as "two people" and "once" may be given in words
# Names of arguments whose value says whom or what a call acts on, or how much of it.
_NAMING: Final = frozenset((
    "id", "ids", "number", "no", "nr", "amount", "account", "iban", "card", "phone", "email",
    "recipient", "recipients", "to", "cc", "bcc", "order", "invoice", "code", "url", "price",
))  # fmt: skip
_TIMES: Final = frozenset((
    "date", "time", "day", "when", "start", "end", "begin", "since", "until", "deadline", "due",
    "month", "year", "at", "on", "from",
))  # fmt: skip
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_MARKED: Final = re.compile(r"\S*[\d@]\S*")
_MOMENT: Final = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T ].*)?$|\d{1,2}:\d\d")
_FILE_PATH: Final = re.compile(r"[^\s@]*\.[A-Za-z][A-Za-z0-9]{0,5}")


def made_up_values(plan: Plan, tools: Tools, given: str) -> list[Problem]:
    """Returns a problem for each value of a changing step that is not in the given text."""
    specs = {spec.name: spec for spec in tool_specs(tools)}
    source = _GivenText(given)
    return [
        problem(
            MADE_UP,
            Sentence(
                "{place} = {value} is in nothing you wrote or that was looked up",
                place=".".join(map(str, path)),
                value=repr(value),
            ),
            hint=Sentence("check it: the model may have made it up"),
            step=name,
            path=("inputs", *path),
        )
        for name, step in _acting(plan, specs)
        for path, value in _values(step.inputs, specs[step.tool].input_schema)
        if not source.holds(value)
    ]


def _acting(plan: Plan, specs: Mapping[str, ToolSpec]) -> Iterator[tuple[str, ToolStep]]:
    for step in plan.steps:
        inner: StepFields = step.each if isinstance(step, MapStep) else step
        if step.disabled or not isinstance(inner, ToolStep):
            continue
        spec = specs.get(inner.tool)
        if spec is not None and not reads(spec):
            yield step.id, inner


def _values(
    inputs: Mapping[str, Json], schema: Mapping[str, Any]
) -> Iterator[tuple[tuple[str | int, ...], str | int | float]]:
    """Yields arguments that identify something, by the argument's name or digits in the value."""
    fields = cast("Mapping[str, Any]", schema.get("properties") or {})
    for name, value in inputs.items():
        form = fields.get(name)  # a schema may be just `true`
        known = cast("Mapping[str, Any]", form if isinstance(form, dict) else {})
        if "enum" in known or "const" in known or value == known.get("default"):
            continue
        if next(iter(find(value)), None) is not None:
            continue
        name_words = set(words(name))
        for place, each in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(each, bool) or not isinstance(each, str | int | float):
                continue
            if _names_something(each, name_words):
                yield (name,) if place is None else (name, place), each


def _names_something(value: str | float, name_words: set[str]) -> bool:
    """Whether a value says whom, what or how much; small counts and times do not."""
    is_naming = bool(name_words & _NAMING)
    if not isinstance(value, str):
        return is_naming and abs(value) > _COUNTED
    text = value.strip()
    if not text or len(text) > 100 or (name_words & _TIMES and not is_naming):
        return False
    if name_words & _TIMES and _MOMENT.match(text):
        return False
    if _NUMBER.fullmatch(text) and abs(_number(text)) <= _COUNTED:
        return False
    if is_naming:
        return True
    return (
        bool(_MARKED.fullmatch(text)) and not _MOMENT.match(text) and not _FILE_PATH.fullmatch(text)
    )


class _GivenText:
    """All text that a person gave or that was looked up."""

    def __init__(self, text: str) -> None:
        self._plain = _plain(text)
        self._numbers = {_number(each) for each in _NUMBER.findall(text)}

    def holds(self, value: str | float) -> bool:
        if not isinstance(value, str):
            return float(value) in self._numbers
        if _NUMBER.fullmatch(value.strip()) and _number(value.strip()) in self._numbers:
            return True
        plain = _plain(value)
        return not plain or plain in self._plain


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(sign for sign in folded if sign.isalnum())


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")
