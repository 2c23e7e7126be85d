"""Reads what a message is for by rules: an answer, a change, a why, an approval or a request."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.lazy import lazy_pattern
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import Reading
from plansmith_planner.yes_or_no import EDGE, LONGEST_YES, is_yes, says_no

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith_planner.threads.situation import Situation, Waiting

_LONGEST_ANSWER: Final = 200
_LONGEST_NUMBER: Final = 300
_BEGINNING: Final = 300  # of a message, which tells whether it asks why
_REJECTION: Final = lazy_pattern(
    r"(?:(?:n|no|nope|nah|reject(?:ed)?|declined?|refused?|den(?:y|ied)|cancel(?:led)?|stop|abort"
    r"|don['’]?t|do not|forget|never ?mind)\b"
    r"(?:[\s,.!]*\b(?:thanks|thank you|please|do|run|execute|start|go ahead|it|this|that"
    r"|the plan|this plan|not now|no|don['’]?t|do not|i)\b)*)"
)
_REJECTION_ZH: Final = lazy_pattern(
    "(?:不|不要|不行|不可以|不用|不好|不同意|不批准|拒绝|取消|否|算了|驳回|停止|别)"
    "(?:执行|运行|做|了|吧|谢谢|这个?计划|它|[\\s，。！,.!])*"
)
_WHY: Final = lazy_pattern(
    r"(?:and |but |so |ok(?:ay)?[, ]+|hm+[, ]+)*"
    r"(?:why\b|how come\b|what makes\b|where (?:does|do|did) .{1,80} come from"
    r"|how did (?:you|it|we) (?:get|choose|pick|find|arrive|come)|for what reason|what for\b"
    r"|on what (?:basis|grounds))|(?:那|但|可是|请问|你)*(?:为什么|为何|为啥|凭什么|怎么会|何以"
    r"|什么原因|怎么(?:得出|选|算|来)|.{1,40}(?:是?从哪里?来的?|怎么来的|的?原因是什么|依据是什么))"
)
_QUESTION: Final = lazy_pattern(
    r"[?？]\s*$|^(?:what|when|where|who|which|whose|how|is|are|was|were|does|do|did|can|could"
    r"|would|will|should)\b|[吗呢么]\s*[?？。]?$|^(?:什么|谁|哪|多少|几|如何|怎么)"
)
_ORDER: Final = lazy_pattern(
    r"^(?:please |now |then |also |next |instead |actually |ok(?:ay)?[, ]+|and )*"
    r"(?:find|search|show|list|give|get|tell|make|create|write|draw|plot|chart|compute|calculate"
    r"|count|sum|compare|send|mail|email|book|buy|order|delete|remove|rename|move|copy|save|read"
    r"|open|look up|look|check|plan|schedule|summari[sz]e|translate|convert|explain|fetch"
    r"|download|research|analy[sz]e|reserve|prepare|run|start|set|update|generate|build|call"
    r"|notify|post|upload|print|remind|watch|monitor|ask|help|the same|do the same|same)\b"
    r"|^(?:请|再|然后|现在|接着|帮我|给我|麻烦)*"
    r"(?:查|找|搜|列|显示|告诉|画|写|算|计算|统计|比较|发送?|订|买|删除?|重命名|移动|复制|保存"
    r"|读|打开|总结|翻译|转换|解释|下载|研究|分析|做|生成|制定|安排|同样)"
)
_CHANGE: Final = lazy_pattern(
    r"\b(?:cheaper|faster|slower|shorter|longer|simpler|smaller|bigger|larger|earlier|later"
    r"|sooner|better|safer|fewer|less|more|instead|without|rather|skip|leave out|drop|omit"
    r"|remove|add|include|also|change|replace|use|don['’]?t|do not|not|only|another|different"
    r"|other|swap|first|before|after|step)\b"
    r"|便宜|更|换|改|不要|别|不用|去掉|删掉|加上?|增加|减少|只要?|另外|先|再|跳过|少|多"
)


def is_rejection(text: str) -> bool:
    """Tells whether a message only says no, reject it and the like."""
    words = text.strip(EDGE).casefold()
    if not words or len(words) > LONGEST_YES:
        return False
    return bool(_REJECTION.fullmatch(words) or _REJECTION_ZH.fullmatch(words))


def is_why(text: str) -> bool:
    """Tells whether a message asks why something is as it is."""
    return bool(_WHY.match(text.strip(EDGE)[:_BEGINNING].casefold()))


def read_by_rules(text: str, now: Situation) -> Reading | None:
    """Returns what a message is beyond doubt; None if that is a matter of judgement."""
    exact = [*_exact_answers(text, now)]
    if is_yes(text) or (is_rejection(text) and (now.review or now.decisions)):
        return _about_decision([found for _, found in exact], now)
    decided = [each for each in now.decisions if _option(each.question, text) is not None]
    acts = next((each for each, _ in exact if each.guards), None)
    if acts is not None and len(exact) + len(decided) > 1:
        # It fits several questions, and one of them lets something be changed.
        reason = Sentence("something is changed after this question, so it takes the answer itself")
        return Reading("review", acts.run.id, _name(acts), reason=reason)
    if exact:
        return exact[0][1]
    if decided:
        return Reading("review", run=decided[0].run.id, question=_name(decided[0]))
    if not now.questions and now.planned is None and not (now.runs and is_why(text)):
        return Reading("request")
    return None


def _about_decision(exact: list[Reading], now: Situation) -> Reading | None:
    """Reads a mere yes or no: it answers the one thing that waits, and never decides on a plan."""
    if len(exact) == 1 and now.waits_once:
        return exact[0]
    if now.review is not None:
        return Reading("review", run=now.review.id)
    if now.decisions or exact:
        first = now.decisions[0] if now.decisions else now.questions[0]
        return Reading("review", run=first.run.id, question=_name(first))
    return None if now.questions else Reading("request")


class Guess(NamedTuple):
    """What a message is by its form; `sure` if no model needs to look at it."""

    reading: Reading
    sure: bool


def guess(text: str, now: Situation) -> Guess:
    """Decides by the form of a message."""
    said = text.strip().casefold()
    asks, orders = bool(_QUESTION.search(said)), bool(_ORDER.match(said))
    short, plain = len(text) <= _LONGEST_ANSWER, not asks and not orders
    if now.runs and is_why(text):
        return Guess(Reading("why", run=now.runs[0].id), sure=True)
    free = next((each for each in now.questions if _takes_text(each.question)), None)
    if free is not None and short and not asks:
        found = free_answer(text, free)
        if found is not None and plain:
            if free.guards and not (now.waits_once and _allows(free, text)):
                reason = Sentence(
                    "something is changed after this question, so it takes the answer itself"
                )
                reading = Reading("review", free.run.id, _name(free), reason=reason)
                return Guess(reading, sure=not now.waits_once)
            reason = Sentence("a short reply to the question")
            return Guess(found._replace(reason=reason), sure=len(now.questions) == 1)
    if now.review is not None and free is None and short and not asks and _CHANGE.search(said):
        reading = Reading("change", run=now.review.id, reason=Sentence("it asks for another plan"))
        return Guess(reading, sure=plain)
    if not now.questions and now.planned is None:
        return Guess(Reading("request"), sure=True)
    return Guess(
        Reading("request", reason=Sentence("it does not read like an answer or a change")),
        sure=False,
    )


def in_turn(text: str, now: Situation) -> Reading:
    """Reads a message as the answer to what the newest run that asks something asked first.

    The words of a decision do not answer another question, and no message decides.
    """
    waiting = [*now.questions, *now.decisions]
    asking = {each.run.id for each in waiting}
    newest = next((run.id for run in now.runs if run.id in asking), "")
    asked = [each for each in now.questions if each.run.id == newest]
    held = [each for each in now.decisions if each.run.id == newest]
    if held and (not asked or any(_option(each.question, text) is not None for each in held)):
        return Reading("review", newest, _name(held[-1]))
    if not asked:
        return Reading("request")
    if asked[-1].guards and not (now.waits_once and _allows(asked[-1], text)):
        reason = Sentence("something is changed after this question, so it takes the answer itself")
        return Reading("review", newest, _name(asked[-1]), reason=reason)
    return free_answer(text, asked[-1]) or Reading("answer", newest, _name(asked[-1]), text)


def free_answer(text: str, waiting: Waiting) -> Reading | None:
    """Returns a message as the answer to a question in free words; None if it must be typed."""
    value = _typed(waiting.question, text)
    if value is None:
        return None
    return Reading("answer", waiting.run.id, _name(waiting), value)


def _allows(waiting: Waiting, text: str) -> bool:
    """Tells whether words may answer: a question whether to go on takes a plain yes or no."""
    if not waiting.permits or waiting.question.options:
        return True
    value = _typed(waiting.question, text)
    return is_yes(text) or says_no(value) or isinstance(value, bool)


def _takes_text(asked: QuestionAsked) -> bool:
    if asked.options:
        return False
    return asked.answer_schema is None or _fits(asked.answer_schema, "some words")


def _exact_answers(text: str, now: Situation) -> Iterator[tuple[Waiting, Reading]]:
    """Yields the questions whose typed answer the message is, newest first."""
    for each in now.questions:
        value: Json = _option(each.question, text)
        if value is None and each.question.answer_schema is not None:
            value = _of_schema(each.question.answer_schema, text)
        if value is not None:
            yield each, Reading("answer", each.run.id, _name(each), value)


def _typed(asked: QuestionAsked, text: str) -> Json:
    """Returns a message as an answer that fits the question; None if it does not."""
    if asked.options:
        return _option(asked, text)
    if asked.answer_schema is None:
        return text.strip()
    found = _of_schema(asked.answer_schema, text)
    return found if found is not None else _text_for(asked.answer_schema, text)


def _text_for(schema: dict[str, Json], text: str) -> str | None:
    return text.strip() if _fits(schema, text.strip()) else None


def _option(asked: QuestionAsked, text: str) -> str | None:
    """Returns the option that a message is, by its words or by its number."""
    said = text.strip(EDGE).casefold()
    for option in asked.options:
        if said == option.strip(EDGE).casefold():
            return option
    number = re.fullmatch(r"(?:option |number |no\.? ?|#|第)?(\d{1,2})(?:个|项|\))?", said)
    digits = any(any(map(str.isdigit, option)) for option in asked.options)
    if number and not digits and 1 <= int(number[1]) <= len(asked.options):
        return asked.options[int(number[1]) - 1]
    return None


def _of_schema(schema: dict[str, Json], text: str) -> Json:
    """Returns the value other than text that a message is, if it fits the schema."""
    if _fits(schema, "some words"):
        return None  # any words fit: this needs judgement
    said = text.strip()
    for value in (_number(said), _boolean(said), said):
        if value is not None and _fits(schema, value):
            return value
    return None


def _number(text: str) -> Json:
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        value = json.loads(text.replace(",", "") if re.fullmatch(r"[\d,.]+", text) else text)
    except ValueError:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else None


def _boolean(text: str) -> Json:
    word = text.strip(EDGE).casefold()
    if word in {"yes", "true", "y", "是", "对"}:
        return True
    return False if word in {"no", "false", "n", "否", "不"} else None


def _fits(schema: dict[str, Json], value: Json) -> bool:
    try:
        validator(schema).validate(value)
    except (BadSchema, jsonschema_rs.ValidationError):
        return False
    return True


def _name(waiting: Waiting) -> str:
    return waiting.question.question
