"""What a message of a conversation is by its words: a question, an order, a change, a why, a no."""

from __future__ import annotations

import re
from typing import Final

from plansmith.lazy import lazy_pattern
from plansmith.text import visible
from plansmith_planner.language import word_list
from plansmith_planner.language.verbs import ORDERS, ORDERS_ZH
from plansmith_planner.language.yes_or_no import EDGE, MAX_YES

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
_CHANGE_VERBS: Final = {"add", "append", "put", "replace", "use"}  # of a plan, no new task
_ORDER: Final = lazy_pattern(
    r"^(?:please |now |then |also |next |instead |actually |ok(?:ay)?[, ]+|and )*"
    rf"(?:{'|'.join(sorted(ORDERS - _CHANGE_VERBS))}|(?:do )?(?:the )?same)\b"
    rf"|^(?:请|再|然后|现在|接着|帮我|给我|麻烦)*(?:{ORDERS_ZH})"
)
_CHANGE: Final = lazy_pattern(
    r"\b(?:cheaper|faster|slower|shorter|longer|simpler|smaller|bigger|larger|earlier|later"
    r"|sooner|better|safer|fewer|less|more|instead|without|rather|skip|leave out|drop|omit"
    r"|remove|add|include|also|change|replace|use|don['’]?t|do not|not|only|another|different"
    r"|other|swap|first|before|after|step)\b"
    r"|便宜|更|换|改|不要|别|不用|去掉|删掉|加上?|增加|减少|只要?|另外|先|再|跳过|少|多"
)
_MAX_WORDS: Final = 12  # each is looked for in every result
_COMMON: Final = word_list("asking")
_FAILED: Final = lazy_pattern(
    r"\b(?:fail|failed|error|wrong|stop|stopped|not (?:done|work))|失败|出错|错误|停"
)
_ASKING: Final = lazy_pattern(
    "为什么|为何|为啥|凭什么|怎么会|何以|什么|原因|请问|怎么|得出|从哪里?来|依据|结果|计划|步骤"
    "|[你我他她它是的了吗呢选会要用这那个有在就都不到出来呀啊和与]"
)
_HAN_WORDS: Final = lazy_pattern("[\u4e00-\u9fff]{2,}")


def is_rejection(text: str) -> bool:
    """Tells whether a message only says no, reject it and the like."""
    words = text.strip(EDGE).casefold()
    if not words or len(words) > MAX_YES:
        return False
    return bool(_REJECTION.fullmatch(words) or _REJECTION_ZH.fullmatch(words))


def option_number(text: str) -> int:
    """Returns the number by which a message names an option; 0 if it is something else."""
    found = re.fullmatch(r"(?:option |number |no\.? ?|#|第)?(\d{1,2})(?:个|项|\))?", text)
    return int(found[1]) if found else 0


def is_why(text: str) -> bool:
    """Tells whether a message asks why something is as it is."""
    return bool(_WHY.match(text.strip(EDGE)[:300].casefold()))


def asks(text: str) -> bool:
    """Tells whether a message is a question."""
    return bool(_QUESTION.search(text.strip().casefold()))


def orders(text: str) -> bool:
    """Tells whether a message begins like an order."""
    return bool(_ORDER.match(text.strip().casefold()))


def asks_for_change(text: str) -> bool:
    """Tells whether a message wants something to be otherwise."""
    return bool(_CHANGE.search(text.strip().casefold()))


def asks_about_failure(text: str) -> bool:
    """Tells whether a question is about something that went wrong."""
    return bool(_FAILED.search(text.casefold()))


def subject_words(question: str) -> list[str]:
    """Returns the words that say what is asked about, the longest first."""
    text = visible(question)
    quoted = re.findall(r"[\"“”'‘’「」`]([^\"“”'‘’「」`]{2,80})[\"“”'‘’「」`]", text)
    plain = [
        each
        for each in re.findall(r"[A-Za-z0-9_][\w.@/-]*[A-Za-z0-9_]|\d+", text)
        if each.casefold() not in _COMMON
    ]
    han = _HAN_WORDS.findall(_ASKING.sub(" ", text))
    found = sorted(dict.fromkeys([*quoted, *plain, *han]), key=len, reverse=True)
    return found[:_MAX_WORDS]
