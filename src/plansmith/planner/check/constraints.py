"""Checks a plan against the constraints of a profile or a policy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal

from pydantic import Field

from plansmith.lazy import lazy_pattern
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Flag, Json, Path, Record, Whole
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AskStep, MapStep, PlanStep, StepFields, ToolStep
from plansmith.planner.check.names import Catalogue
from plansmith.text import READ_BY_RULES


class Constraint(Record):
    """A rule for plans: a hard one rejects a plan, a soft one warns.

    `text` is the rule in words. A rule without any other field cannot be checked here and is
    shown to the reviewer.
    """

    text: str = ""
    hard: Flag = True
    source: Literal["person", "policy"] = "person"
    forbid_tools: tuple[str, ...] = ()
    forbid_effects: tuple[Effect, ...] = ()
    require_tools: tuple[str, ...] = ()
    only_tools: tuple[str, ...] = ()
    max_steps: Whole | None = Field(default=None, ge=0)
    max_calls: Whole | None = Field(default=None, ge=0)
    forbid_words: tuple[str, ...] = ()

    @property
    def is_prose(self) -> bool:
        """Whether only a person can check the rule."""
        rules = (self.forbid_tools, self.forbid_effects, self.require_tools, self.forbid_words)
        bounds = (self.max_steps, self.max_calls)
        return not any(rules) and not self.only_tools and bounds == (None, None)

    @property
    def is_about_calls(self) -> bool:
        """Whether the rule is about what a plan calls."""
        names = self.forbid_tools or self.forbid_effects or self.only_tools
        return bool(names) or self.max_calls is not None


_SUBJECT: Final = r"[`\"'“‘「]?([\w.:/*?-]+)[`\"'”’」]?"
# What joins two names is in neither of them: else a list could be split in 2**n ways.
_NAME: Final = r"[`\"'“‘「]?(?:(?![和或])[\w.:/*?-])+[`\"'”’」]?"
_NAMES: Final = rf"({_NAME}(?:(?:, (?:and |or )?| and | or |、|和|或){_NAME})*)"
_FORBIDS: Final = lazy_pattern(
    rf"(?:never|do not|don't|must not|no) (?:use|call|run|invoke)? ?(?:the tool )?{_SUBJECT}"
    rf"|(?:不要|不得|禁止|请勿|不能)(?:使用|调用|运行)(?:工具)? ?{_SUBJECT}",
    re.IGNORECASE,
)
_REQUIRES: Final = lazy_pattern(
    rf"(?:always|must) (?:use|call|run|invoke) (?:the tool )?{_SUBJECT}"
    rf"|(?:必须|务必|一定要)(?:使用|调用|运行)(?:工具)? ?{_SUBJECT}",
    re.IGNORECASE,
)
_ONLY: Final = lazy_pattern(
    r"(?:please |you may |you can |and |but )*"
    r"(?:only (?:use|call)|(?:use|call) only|use nothing but)"
    rf" (?:the )?(?:tools? |agents? )?{_NAMES}(?: tools?| agents?)?"
    r"|(?:请|并且?|但)?(?:只|仅)(?:能|可以|可|准|允许)?(?:使用|调用|用)"
    rf"(?:工具|代理)? ?{_NAMES} ?(?:这个)?(?:工具|代理)?",
    re.IGNORECASE,
)
_SPLIT_NAMES: Final = lazy_pattern(r", (?:and |or )?| and | or |、|和|或")
_WORDS: Final = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_HAN: Final = "一二三四五六七八九十"
_NUMBERS: Final = {
    "两": 2,
    "十一": 11,
    "十二": 12,
    "a single": 1,
    **{word: place for place, word in enumerate(_WORDS, 1)},
    **{word: place for place, word in enumerate(_HAN, 1)},
}
_NUMBER: Final = rf"(\d{{1,4}}|a single|{'|'.join(_WORDS)})"
_HAN_NUMBER: Final = rf"(\d{{1,4}}|十[一二]|[{_HAN}两])"
_UNIT: Final = r"(steps?|(?:tool |function |agent )?calls?)"
_MOST_OF: Final = (
    r"(?:at most|at the most|no more than|not more than|up to|a maximum of|maximum|max\.?)"
)
_MOST_EN: Final = (
    rf"(?:{_MOST_OF} {_NUMBER} {_UNIT}|{_NUMBER} {_UNIT} (?:at most|at the most|or fewer|or less))"
    r"(?: in total| altogether| overall)?"
)
_MOST_ZH: Final = (
    rf"(?:最多|不超过|至多|不能超过|不得超过|不要超过)(?:只?能|可以)?(?:使用|执行|调用|用|分)?"
    rf" ?{_HAN_NUMBER} ?个?(步骤?|次(?:工具)?调用|次工具|个?工具调用)"
    rf"|{_HAN_NUMBER} ?个?(步骤?|次(?:工具)?调用)以内"
)
_MOST: Final = lazy_pattern(
    rf"(?:please )?(?:use |make |take |plan |have )?{_MOST_EN}|(?:请|只)?(?:{_MOST_ZH})",
    re.IGNORECASE,
)
# In a request the same words may describe a thing ("a porch with at most two steps"), so that in
# English they count only at the end of a clause, behind a word that asks for them.
_MOST_ASKED: Final = lazy_pattern(
    r"(?:^(?:please |and |but |with |in |use |using |make |take |plan )*"
    r"|\b(?:in|within|using|use|take|make|needing|a plan (?:of|with|in)) )"
    rf"{_MOST_EN}$|(?:{_MOST_ZH})(?!路|之遥)",
    re.IGNORECASE,
)
_READ_ONLY: Final = lazy_pattern(
    r"(?:read[ -]only|never write|no writes|do not change anything|只读|不要修改任何内容)",
    re.IGNORECASE,
)
_QUOTES: Final = lazy_pattern(
    r"```.*?```|\"[^\"\s]*[^\"\n\S][^\"\n]*\"|“[^“”]*”|^[ \t]*>[^\n]*$", re.DOTALL | re.MULTILINE
)
_CLAUSE: Final = lazy_pattern(
    r"[,;:!?](?=\s|$)|\.(?=\s|$)|[，。；：！？\n]|\s[-–—]\s| but (?=only|use)"
)


def read_constraint(text: str, *, hard: bool = True) -> Constraint:
    """Reads a rule from a sentence; understands a few plain forms, others stay prose."""
    said = text.strip().rstrip(".。!！")
    rule = Constraint(text=text, hard=hard)
    if _READ_ONLY.fullmatch(said):
        return rule.replace(forbid_effects=(Effect.WRITE, Effect.FINAL))
    if found := _MOST.fullmatch(said):
        return rule.replace(**_bound(found))
    return rule.replace(**_about_tools(said))


def _about_tools(said: str) -> dict[str, tuple[str, ...]]:
    """Returns which tools a sentence forbids, requires, or allows alone."""
    if found := _ONLY.fullmatch(said):
        names = _SPLIT_NAMES.split(found[1] or found[2])
        return {"only_tools": tuple(name.strip("`\"'“”‘’「」 ") for name in names)}
    for pattern, field in ((_FORBIDS, "forbid_tools"), (_REQUIRES, "require_tools")):
        if found := pattern.fullmatch(said):
            return {field: (found[1] or found[2],)}
    return {}


def _bound(found: re.Match[str]) -> dict[str, int]:
    """Returns the largest number of steps or calls that a sentence allows."""
    number, unit = (each for each in found.groups() if each is not None)
    most = int(number) if number.isdigit() else _NUMBERS[number.lower()]
    is_steps = unit.lower().startswith(("step", "步"))
    return {"max_steps": most} if is_steps else {"max_calls": most}


def asked_constraints(request: str, names: Collection[str]) -> list[Constraint]:
    """Returns the rules in a person's request that can be checked, all of them hard.

    What is said of tools counts if it names a known tool or agent, so that ordinary sentences
    ("only use official figures") stay what they are.
    """
    rules: list[Constraint] = []
    known = [name.lower() for name in names]
    for clause in _CLAUSE.split(_QUOTES.sub(" ", request[:READ_BY_RULES])):
        said = clause.strip()
        if found := _MOST_ASKED.search(said):
            rules.append(Constraint(text=found[0].strip()).replace(**_bound(found)))
        about = _about_tools(said)
        patterns = [each.lower() for listed in about.values() for each in listed]
        if patterns and all(any(fnmatchcase(name, each) for name in known) for each in patterns):
            rules.append(Constraint.model_validate({"text": said, **about}))
    return rules


def step_limit(rules: Iterable[Constraint], most: int) -> int:
    """Returns how many steps a plan may have: the smallest number of the hard rules."""
    return min([most, *(r.max_steps for r in rules if r.hard and r.max_steps is not None)])


def constraint_problems(
    plan: Plan,
    tools: Catalogue,
    constraints: Iterable[Constraint | str],
    agents: Iterable[str | AgentSpec] = (),
    templates: Iterable[str] = (),
) -> Iterator[Problem]:
    """Returns violations of constraints, and the constraints that only a person can judge."""
    steps = [inner for step in plan.steps if not step.disabled for inner in _with_inner(step)]
    kept = set(templates)
    runs_template = any(isinstance(step, PlanStep) and step.template in kept for step in steps)
    cards = {each.name: each for each in agents if isinstance(each, AgentSpec)}
    for entry in constraints:
        rule = read_constraint(entry) if isinstance(entry, str) else entry
        if rule.is_prose or (rule.only_tools and not _names_a_tool(rule, steps, tools)):
            yield _to_judge(rule)
            continue
        for step in steps:
            yield from _of_step(rule, step, _spec(step, tools, cards))
        yield from _of_plan(rule, steps)
        if rule.is_about_calls and runs_template:
            yield _to_judge(rule)  # what a template calls is not known here


def _names_a_tool(rule: Constraint, steps: list[StepFields], tools: Catalogue) -> bool:
    """Whether "only use …" names a tool or agent; else it is about something else."""
    names = {*(name.lower() for name in tools.names.known), *map(_callee, steps)}
    return any(fnmatchcase(name, each.lower()) for name in names for each in rule.only_tools)


def _callee(step: StepFields) -> str:
    """Returns the tool or agent that a step calls, in lower case; empty if it calls none."""
    match step:
        case ToolStep(tool=name) | AgentStep(agent=name):
            return name.lower()
        case _:
            return ""


def _with_inner(step: StepFields) -> list[StepFields]:
    return [step, step.each] if isinstance(step, MapStep) else [step]


def _to_judge(rule: Constraint) -> Problem:
    text = rule.text or Sentence("ps.no_text")
    message = Sentence("ps.judge_hard" if rule.hard else "ps.judge_soft", rule=text)
    return problem("PS503", message, hint=Sentence("hint.keeps_rule"))


def _spec(
    step: StepFields, tools: Catalogue, agents: Mapping[str, AgentSpec]
) -> ToolSpec | AgentSpec | None:
    """Returns what is known of the tool or agent that a step calls."""
    match step:
        case ToolStep(tool=name):
            return tools.get(name)
        case AgentStep(agent=name):
            return agents.get(name)
        case _:
            return None


def _of_step(
    rule: Constraint, step: StepFields, spec: ToolSpec | AgentSpec | None
) -> Iterator[Problem]:
    name = _callee(step)
    if name:
        yield from _of_call(rule, step, name, spec)
    if rule.forbid_words and not isinstance(step, MapStep):
        banned = [word for word in rule.forbid_words if word]
        for path, text in _texts(step):
            for word in banned:
                if word.lower() in text.lower():
                    message = Sentence("ps.banned_word", word=word)
                    yield _broken(rule, message, Sentence("hint.take_out"), step.id, path)


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


def _of_call(
    rule: Constraint, step: StepFields, name: str, spec: ToolSpec | AgentSpec | None
) -> Iterator[Problem]:
    place: Path = ("tool",) if isinstance(step, ToolStep) else ("agent",)
    shown = name if spec is None else spec.name
    if rule.only_tools and not _is_among(name, rule.only_tools):
        message = Sentence("ps.not_among", tool=name, only=[*rule.only_tools])
        hint = Sentence("hint.one_tool_of", tools=[*rule.only_tools])
        yield _broken(rule, message, hint, step.id, place)
    if _is_among(name, rule.forbid_tools):
        message = Sentence("ps.banned_tool", tool=shown)
        yield _broken(rule, message, Sentence("hint.other_tool"), step.id, place)
    if spec is not None and spec.effect in rule.forbid_effects:
        message = Sentence("ps.banned_effect", tool=shown, effect=spec.effect.value)
        yield _broken(rule, message, Sentence("hint.less_effect"), step.id, place)


def _texts(step: StepFields) -> Iterator[tuple[Path, str]]:
    stack: list[tuple[Path, Json]] = list(step.templates())
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            stack.extend(((*path, key), each) for key, each in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, place), each) for place, each in enumerate(value))


def _of_plan(rule: Constraint, steps: list[StepFields]) -> Iterator[Problem]:
    used = [name for name in map(_callee, steps) if name]
    for pattern in rule.require_tools:
        if not any(fnmatchcase(name, pattern.lower()) for name in used):
            message = Sentence("ps.required_tool", tool=pattern)
            hint = Sentence("hint.add_tool_step", tool=pattern)
            yield _broken(rule, message, hint, None, ("steps",))
    # Questions to the person do not count: they are added where a value is missing.
    count = sum(not isinstance(step, AskStep) for step in steps)
    if rule.max_steps is not None and count > rule.max_steps:
        message = Sentence("ps.many_steps", count=count, most=rule.max_steps)
        yield _broken(rule, message, Sentence("hint.use_fewer"), None, ("steps",))
    if rule.max_calls is not None and (calls := _calls(steps)) > rule.max_calls:
        message = Sentence("ps.many_calls", count=calls, most=rule.max_calls)
        yield _broken(rule, message, Sentence("hint.fewer_calls"), None, ("steps",))


def _calls(steps: list[StepFields]) -> int:
    """Counts the calls of a plan, as far as they are known: each item of a list is one."""
    inner = {step.each.id: step.over for step in steps if isinstance(step, MapStep)}
    sizes = {name: len(over) if isinstance(over, list) else 2 for name, over in inner.items()}
    return sum(sizes.get(step.id, 1) for step in steps if _callee(step))


def _broken(rule: Constraint, message: str, hint: str, step: str | None, path: Path) -> Problem:
    personal = "PS502" if rule.hard else "PS503"
    code = "PS501" if rule.source == "policy" else personal
    words = Sentence("ps.by_rule", problem=message, rule=rule.text) if rule.text else message
    found = problem(code, words, hint=hint, step=step, path=path)
    severity = Severity.ERROR if rule.hard else Severity.WARNING
    return found.model_copy(update={"severity": severity})
