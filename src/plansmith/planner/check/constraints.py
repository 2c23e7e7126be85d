"""Checks a plan against the constraints of a profile or a policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, Literal

from pydantic import Field

from plansmith.plan.capability import Effect
from plansmith.plan.data import Flag, Json, Path, Record, Whole
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, MapStep, StepFields, ToolStep
from plansmith.planner.check.names import Catalogue


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
    max_steps: Whole | None = Field(default=None, ge=0)
    forbid_words: tuple[str, ...] = ()

    @property
    def is_prose(self) -> bool:
        """Whether only a person can check the rule."""
        rules = (self.forbid_tools, self.forbid_effects, self.require_tools, self.forbid_words)
        return not any(rules) and self.max_steps is None


_SUBJECT: Final = r"[`\"'“‘「]?([\w.:/*?-]+)[`\"'”’」]?"
_FORBIDS: Final = re.compile(
    rf"(?:never|do not|don't|must not|no) (?:use|call|run|invoke)? ?(?:the tool )?{_SUBJECT}"
    rf"|(?:不要|不得|禁止|请勿|不能)(?:使用|调用|运行)(?:工具)? ?{_SUBJECT}",
    re.IGNORECASE,
)
_REQUIRES: Final = re.compile(
    rf"(?:always|must) (?:use|call|run|invoke) (?:the tool )?{_SUBJECT}"
    rf"|(?:必须|务必|一定要)(?:使用|调用|运行)(?:工具)? ?{_SUBJECT}",
    re.IGNORECASE,
)
_MOST: Final = re.compile(
    r"(?:use )?(?:at most|no more than|not more than) (\d{1,4}) steps?"
    r"|(?:最多|不超过|至多) ?(\d{1,4}) ?(?:个)?步(?:骤)?",
    re.IGNORECASE,
)
_READ_ONLY: Final = re.compile(
    r"(?:read[ -]only|never write|no writes|do not change anything|只读|不要修改任何内容)",
    re.IGNORECASE,
)


def read_constraint(text: str, *, hard: bool = True) -> Constraint:
    """Reads a rule from a sentence; understands a few plain forms, others stay prose."""
    said = text.strip().rstrip(".。!！")
    rule = Constraint(text=text, hard=hard)
    if _READ_ONLY.fullmatch(said):
        return rule.replace(forbid_effects=(Effect.WRITE, Effect.FINAL))
    for pattern, field in ((_FORBIDS, "forbid_tools"), (_REQUIRES, "require_tools")):
        if found := pattern.fullmatch(said):
            return rule.replace(**{field: (found[1] or found[2],)})
    if found := _MOST.fullmatch(said):
        return rule.replace(max_steps=int(found[1] or found[2]))
    return rule


def constraint_problems(
    plan: Plan, tools: Catalogue, constraints: Iterable[Constraint | str]
) -> Iterator[Problem]:
    """Returns violations of constraints, and the constraints that only a person can judge."""
    steps = [inner for step in plan.steps if not step.disabled for inner in _with_inner(step)]
    for entry in constraints:
        rule = read_constraint(entry) if isinstance(entry, str) else entry
        if rule.is_prose:
            yield _to_judge(rule)
            continue
        for step in steps:
            yield from _of_step(rule, step, tools)
        yield from _of_plan(rule, steps)


def _with_inner(step: StepFields) -> list[StepFields]:
    return [step, step.each] if isinstance(step, MapStep) else [step]


def _to_judge(rule: Constraint) -> Problem:
    text = rule.text or Sentence("ps.no_text")
    message = Sentence("ps.judge_hard" if rule.hard else "ps.judge_soft", rule=text)
    return problem("PS503", message, hint=Sentence("hint.keeps_rule"))


def _of_step(rule: Constraint, step: StepFields, tools: Catalogue) -> Iterator[Problem]:
    if isinstance(step, ToolStep):
        yield from _of_tool(rule, step, tools)
    if rule.forbid_words and not isinstance(step, MapStep):
        banned = [word for word in rule.forbid_words if word]
        for path, text in _texts(step):
            for word in banned:
                if word.lower() in text.lower():
                    message = Sentence("ps.banned_word", word=word)
                    yield _broken(rule, message, Sentence("hint.take_out"), step.id, path)


def _of_tool(rule: Constraint, step: ToolStep, tools: Catalogue) -> Iterator[Problem]:
    if any(fnmatchcase(step.tool.lower(), pattern.lower()) for pattern in rule.forbid_tools):
        message = Sentence("ps.banned_tool", tool=step.tool)
        yield _broken(rule, message, Sentence("hint.other_tool"), step.id, ("tool",))
    spec = tools.get(step.tool)
    if spec is not None and spec.effect in rule.forbid_effects:
        message = Sentence("ps.banned_effect", tool=step.tool, effect=spec.effect.value)
        yield _broken(rule, message, Sentence("hint.less_effect"), step.id, ("tool",))


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
    used = [step.tool.lower() for step in steps if isinstance(step, ToolStep)]
    used += [step.agent.lower() for step in steps if isinstance(step, AgentStep)]
    for pattern in rule.require_tools:
        if not any(fnmatchcase(name, pattern.lower()) for name in used):
            message = Sentence("ps.required_tool", tool=pattern)
            hint = Sentence("hint.add_tool_step", tool=pattern)
            yield _broken(rule, message, hint, None, ("steps",))
    if rule.max_steps is not None and len(steps) > rule.max_steps:
        message = Sentence("ps.many_steps", count=len(steps), most=rule.max_steps)
        yield _broken(rule, message, Sentence("hint.use_fewer"), None, ("steps",))


def _broken(rule: Constraint, message: str, hint: str, step: str | None, path: Path) -> Problem:
    personal = "PS502" if rule.hard else "PS503"
    code = "PS501" if rule.source == "policy" else personal
    words = Sentence("ps.by_rule", problem=message, rule=rule.text) if rule.text else message
    found = problem(code, words, hint=hint, step=step, path=path)
    severity = Severity.ERROR if rule.hard else Severity.WARNING
    return found.model_copy(update={"severity": severity})
