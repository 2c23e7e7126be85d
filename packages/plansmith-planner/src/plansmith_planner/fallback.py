"""Makes a plan when no model gave a usable one: a fixed plan, or the usable steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.refs import escape_text
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import MapStep, ReplyStep
from plansmith_planner.settings import Fallback


def fallback(
    kind: Fallback,
    *,
    request: str,
    text: str,
    reason: str,
    locale: str,
    agent: str | None = None,
    language: str = "",
) -> Plan | None:
    """Returns the fallback plan; `reason` says why the model's plan is not used.

    The three steps are in `language`, without one in that of the request.
    """
    if kind is Fallback.NONE:
        return None
    steps: list[dict[str, Any]] = []
    if kind is Fallback.THREE_STEPS:
        # Analyse, execute and verify: for an agent if there is one, else replies.
        titles = {
            "analyze": Sentence("Analyze request"),
            "execute": Sentence("Execute task"),
            "verify": Sentence("Verify results"),
        }
        for name, english in titles.items():
            title = in_language(english, language or locale)
            told = f"{title}: {escape_text(request)}"
            action = {"agent": agent, "task": told} if agent else {"instruction": told}
            after = [steps[-1]["id"]] if steps else []
            steps.append({"id": name, "title": title, "after": after, **action})
    else:
        # The model's text, which is probably the answer.
        answer = text.strip()[:2000].encode("utf-8", "replace").decode()
        says = escape_text(answer) or in_language(Sentence("(no plan is available)"), locale)
        steps = [{"id": "reply", "kind": "reply", "instruction": says}]
    goal = f"Plan for: {request[:50]}{'...' * (len(request) > 50)}"
    return Plan.model_validate({"goal": goal, "locale": locale, "degraded": reason, "steps": steps})


def salvage(plan: Plan, problems: Sequence[Problem], *, max_steps: int) -> Plan | None:
    """Returns the plan without steps that have errors and without what depends on these.

    Replies that would report on removed steps are removed too; an entry that was no step takes
    nothing with it. Of too many steps the first are kept, and the last reply; a rule that allows
    fewer steps than `max_steps` counts too. Returns None if nothing is left.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    for each in errors:  # how many steps the broken rules allow
        broken = each.message
        if isinstance(broken, Sentence) and broken.key == "ps.by_rule":
            broken = broken.fields["problem"]
        if isinstance(broken, Sentence) and broken.key == "ps.many_steps":
            max_steps = min(max_steps, int(broken.fields["most"]))
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    bad = {inner.get(each.step, each.step) for each in errors if each.step is not None}
    # What a step refers to, in its rules too.
    refs = {step.id: {each.ref.step for each in step.references if each.ref} for step in plan.steps}
    using = {name: frozenset(each & plan.by_id.keys()) for name, each in refs.items()}
    gone = bad | downstream(using, [name for name in bad if name in using])
    behind = downstream(needs(plan), [name for name in gone if name in using])
    reports = {step.id for step in plan.steps if isinstance(step, ReplyStep)} & behind
    kept = [step for step in plan.steps if step.id not in gone | reports]
    steps = kept[:max_steps]
    # A reply alone would have nothing to report.
    if len(kept) > max_steps > 1 and isinstance(kept[-1], ReplyStep):
        steps = [*kept[: max_steps - 1], kept[-1]]
    names = {step.id for step in steps}
    loose = [step.replace(after=tuple(n for n in step.after if n in names)) for step in steps]
    return plan.replace(steps=tuple(loose)) if steps else None
