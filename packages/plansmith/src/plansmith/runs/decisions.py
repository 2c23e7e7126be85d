"""Approvals and answers: from whom, for exactly what, and what they do to the step that waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, cast

from plansmith import plugins
from plansmith.check.schemas import why_misfit
from plansmith.engine.budget import events_after_limit
from plansmith.engine.consent import after_consent, given_values, read_consent, require_valid
from plansmith.engine.journal import load_preview
from plansmith.engine.outcome import instead_of_result, on_error
from plansmith.engine.units import levels, named_unit
from plansmith.errors import Misconfigured, Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.capability import Capabilities, Effect
from plansmith.plan.data import Json, canonical_hash, content_of, json_text, require_json
from plansmith.plan.graph import downstream, steps_behind
from plansmith.plan.ids import parent_of
from plansmith.plan.plan import Plan
from plansmith.plan.question_options import (
    ALLOW,
    CHANGE,
    DONE,
    FOR_PROGRAMS,
    NOT_DONE,
    UNKNOWN_OPTIONS,
    permits,
)
from plansmith.plan.refs import value_text
from plansmith.plan.run import NOT_STARTED, UNSUCCESSFUL, Run, RunStatus, StepStatus
from plansmith.plan.second_person import stricter, why_cannot_approve
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.plan.steps import AgentStep, AnyStep, PlanStep, ReplyStep, ToolStep
from plansmith.review.policy import active_steps
from plansmith.review.settings import ReviewPolicy

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.run_options import SecondPerson
    from plansmith.ports import Store
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals

ASK_ANOTHER: Final = Sentence("Ask somebody with the role approver or admin")
ONLY_PERSONS: Final = Sentence(
    "A person has to decide this: on the page of plansmith serve, or with plansmith go"
)
_YES_OR_NO: Final[Mapping[str, bool]] = {"yes": True, "no": False}
_OVER: Final = (StepStatus.DONE, *UNSUCCESSFUL)
_RESULT_HINT: Final = Sentence(
    "tell it with the answer, as JSON: {example}; or {none} if nobody knows it",
    example='{"done": …}',
    none='{"done": null}',
)


class ApprovalDetails(TypedDict, total=False):
    """What a person says of the calls of a preview: some left out, inputs of some changed.

    `fresh`: what was read for the preview is read again.
    """

    leave_out: Collection[str]
    change: Mapping[str, Mapping[str, Json]]
    fresh: bool


async def decide(
    journals: Journals,
    intake: PlanIntake,
    run_id: str,
    *,
    approve: str | None,
    reject: bool,
    given: ApprovalDetails,
    by: e.Who,
) -> Journal:
    """Approves the plan with this hash, or rejects the plan; returns the run's journal.

    The hash of its preview approves the calls shown there, too.
    """
    if (approve is None) == (not reject):
        raise Misconfigured("decide takes either approve=HASH or reject=True")
    who = e.actor(by)
    if who.kind != "person":
        raise Refused(f"a {who.kind} cannot decide on a plan", hint=ONLY_PERSONS)
    journal = await journals.load_verified(run_id)
    run = journal.run
    if approve is not None:
        journals.require_ours(run)
    plan = _plan_to_decide(run, approve)
    if approve is not None:
        require_second_person(run, who, intake.policy)
        capabilities = await intake.registry.capabilities(plan, run.templates)
        changed = await _changed_inputs(
            journal, journals.store, capabilities, intake.policy, approve, given
        )
        approved = e.PlanApproved(
            hash=plan.hash,
            tools=await intake.registry.definitions(plan, run.templates),
            preview=approve if approve != plan.hash else "",
            left_out=tuple(given.get("leave_out", ())),
            changed=changed,
            fresh=given.get("fresh", False),
        )
        bodies: list[e.AnyBody] = [approved]
    else:
        withdrawn = [e.QuestionWithdrawn(question=name) for name in run.questions]
        ending = e.RunFinished(status="cancelled", reason=Sentence("end.rejected"))
        bodies = [e.PlanRejected(), *withdrawn, ending]
    try:
        await journal.append(*bodies, by=who)
    except StaleWriter:
        raise _too_late(run_id) from None
    return journal


def _plan_to_decide(run: Run, approve: str | None) -> Plan:
    """Returns the plan that waits for a decision; refuses the approval of any other."""
    # The phase, not the status: an open question does not prevent a decision.
    reviewing = run.phase is RunStatus.REVIEWING
    if not reviewing or run.plan is None or run.is_approved:
        state, hint = Sentence(f"status.{run.status}"), ""
        if reviewing and run.is_approved:
            state = Sentence("status.approved")
            hint = Sentence("plansmith go {run} goes on with it, with the same options", run=run.id)
        why = Sentence(
            "run {run} does not wait for a decision: it is {state}", run=run.id, state=state
        )
        raise StaleDecision(why, hint=hint)
    if run.cancel_asked and approve is not None:
        raise StaleDecision(Sentence("run {run} is being cancelled", run=run.id))
    if approve is not None:
        require_approvable(run, approve)
    return run.plan


async def _changed_inputs(
    journal: Journal,
    store: Store,
    capabilities: Capabilities,
    policy: ReviewPolicy,
    approve: str,
    given: ApprovalDetails,
) -> dict[str, Json]:
    """Returns the inputs of the calls that a person changes in a preview, in full."""
    shown = await load_preview(store, journal.run)
    calls = {each.step: each for each in shown.calls} if shown and shown.hash == approve else {}
    change = given.get("change", {})
    for name in {*given.get("leave_out", ()), *change} - calls.keys():
        hint = did_you_mean(name, calls, otherwise=Sentence("there are {names}", names=[*calls]))
        raise Refused(Sentence("the preview shows no call '{name}'", name=name), hint=hint)
    run = journal.run
    if change and stricter(run.options.second_person, policy.second_person) != "never":
        why = Sentence(
            "Another user has to agree to values of your own, so they have to stand in the plan"
        )
        raise Refused(why, hint=Sentence("change the plan"))
    changed: dict[str, Json] = {}
    for name, values in change.items():
        inputs = calls[name].inputs
        _require_names(inputs, values)
        unit = named_unit(run.plan, name, run.templates) if run.plan is not None else None
        changed[name] = {**inputs, **values}
        require_valid(unit.step if unit is not None else None, {**inputs, **values}, capabilities)
    return changed


def require_approvable(run: Run, approve: str | None) -> None:
    """Refuses the approval of another plan or preview than the current one of a run."""
    if run.previewed is None or approve != run.previewed.approval:
        require_hash(run.plan, approve)


def require_hash(plan: Plan | None, approve: str | None) -> None:
    """Refuses the approval of another plan than this one."""
    if plan is None or approve != plan.hash:
        now = plan.hash if plan is not None else "none"
        hint = Sentence("the plan now has the hash {hash}: review it again", hash=now)
        why = Sentence("this is not the hash of the current plan")
        if approve and now.startswith(approve):
            why = Sentence("this is only the beginning of the hash of the current plan")
        raise StaleDecision(why, hint=hint)


def _too_late(run_id: str) -> StaleDecision:
    return StaleDecision(Sentence("someone else decided about run {run} first", run=run_id))


def require_second_person(run: Run, who: e.Actor, policy: ReviewPolicy) -> None:
    """Refuses an approval by who asked for the run or changed its plan last."""
    if why := why_cannot_approve(run, who, policy.second_person):
        raise Refused(why, hint=ASK_ANOTHER)


async def take_answer(
    journal: Journal, intake: PlanIntake, question: str, value: Json, *, by: e.Actor, of: str = ""
) -> e.QuestionAsked:
    """Writes the answer to an open question, which it returns; a second answer is refused.

    Other steps of the run may go on meanwhile.
    """
    run, plan = journal.run, journal.plan_hash
    asked = open_question(run, question, of)
    capabilities = await intake.registry.capabilities(run.plan, run.templates)
    if by.kind != "person" and (why := why_only_persons(run, asked, capabilities)):
        message = f"{asked.question!r} is not for programs to answer: {why}"
        raise Refused(message, hint=ONLY_PERSONS)
    if permits(asked, value):
        require_second_person(run, by, intake.policy)
        rule = stricter(run.options.second_person, intake.policy.second_person)
        own = given_values(value)
        await _require_shown(journal, asked, own or {})
        if own is not None and rule != "never":
            why = Sentence(
                "Another user has to agree to values of your own, so they have to stand in the plan"
            )
            raise Refused(why, hint=Sentence("refuse, or change the plan"))
    require_json(value)
    value = content_of(value).value()  # a copy: the caller may change its own later
    answered = e.QuestionAnswered(question=asked.question, answer=_in_short(asked, value))
    while True:
        after = after_answer(asked, value, run=journal.run, capabilities=capabilities)
        try:
            values = [value, *after.values]
            await journal.append(answered, *after.bodies, by=by, values=values)
        except StaleWriter:
            await journal.catch_up()
            if journal.run.questions.get(asked.question) != asked or journal.plan_hash != plan:
                raise _too_late(journal.id) from None
        else:
            return asked


async def _require_shown(journal: Journal, asked: e.QuestionAsked, own: Mapping[str, Json]) -> None:
    """Refuses a person's value under a name that is not among those shown."""
    _require_names(cast("dict[str, Json]", await journal.value(asked.values)) if own else {}, own)


def _require_names(seen: Mapping[str, Json], own: Mapping[str, Json]) -> None:
    for name in own.keys() - seen.keys():
        hint = did_you_mean(name, seen, otherwise=Sentence("there are {names}", names=[*seen]))
        raise Refused(Sentence("no value '{name}' was shown", name=name), hint=hint)


def _in_short(asked: e.QuestionAsked, value: Json) -> Json:
    """Returns an answer in short: the permit that follows holds what was seen or changed."""
    allowed = read_consent(value) if asked.kind == "consent" else None
    if allowed is None:
        return value
    is_same = allowed.values is None or canonical_hash(allowed.values) == asked.state
    return ALLOW if is_same else CHANGE


def open_question(run: Run, name: str, of: str = "") -> e.QuestionAsked:
    """Returns a question that waits for its answer.

    Raises:
        StaleDecision: It is not the one with the hash `of`, or its plan is another one now.
    """
    asked = run.questions.get(name)
    if asked is None:
        raise Refused(Sentence("run {run} has no open question '{name}'", run=run.id, name=name))
    if of and of != run.question_hash(name):
        why = Sentence(
            "the question '{name}', or the plan that it is about, is not the one you saw", name=name
        )
        raise StaleDecision(why, hint=Sentence("look at it again, then decide"))
    return asked


def may_change_values(run: Run, asked: e.QuestionAsked, rule: SecondPerson = "never") -> bool:
    """Tells whether a person may give other values instead of those that consent is asked for.

    Not where somebody else has to agree to them; nor for a list: the plan has a place for it.
    """
    if asked.kind != "consent" or run.plan is None:
        return False
    unit = named_unit(run.plan, asked.step or "", run.templates)
    is_call = unit is not None and isinstance(unit.step, ToolStep | AgentStep)
    return is_call and stricter(run.options.second_person, rule) == "never"


async def consent_values(store: Store, asked: e.QuestionAsked) -> dict[str, Json] | None:
    """Returns the values of the call that a question asks consent for; None for other ones."""
    if asked.kind != "consent" or not asked.values:
        return None
    values = await store.get(asked.values)
    return values if isinstance(values, dict) else None


async def changed_values(
    store: Store, asked: e.QuestionAsked, changes: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the values a person saw, with those that the person changed."""
    seen = await consent_values(store, asked)
    if seen is None:
        why = Sentence("these values cannot be changed here, only in the plan")
        raise Refused(why, hint=Sentence("refuse, or change the plan"))
    return {**seen, **changes}


def answerable(run: Run, capabilities: Capabilities) -> dict[str, e.QuestionAsked]:
    """Returns the open questions that a program may answer, by name."""
    questions = run.questions.items()
    return {name: each for name, each in questions if not why_only_persons(run, each, capabilities)}


def why_only_persons(run: Run, asked: e.QuestionAsked, capabilities: Capabilities) -> str:
    """Says why a program may not answer a question; empty if it may."""
    if asked.kind not in FOR_PROGRAMS:
        return Sentence(
            "it asks for a permission, a decision or something that only a person knows"
        )
    acting = sorted(guarded(run.plan, asked.step, capabilities)) if run.plan and asked.step else []
    if not acting:
        return ""
    return Sentence("its answer decides about {names}, which changes something", names=acting)


def guarded(plan: Plan, step: str, capabilities: Capabilities) -> set[str]:
    """Returns the steps that change something and wait for this step's question, at every level."""
    names: set[str] = set()
    for level in levels(plan, step, capabilities.templates):
        if level is None:
            return {step}  # the plan around it is not known
        after = steps_behind(level.plan, level.root) - {level.root}
        acting = {name for name in after if _acts(level.plan.by_id[name], capabilities)}
        names |= {f"{level.scope}{name}" for name in acting}
    return names


def _acts(step: AnyStep, capabilities: Capabilities) -> bool:
    """Tells whether a step or a part of it changes something; an unknown template does."""
    for inner in active_steps(Plan(steps=(step,)), capabilities.templates):
        if isinstance(inner, PlanStep) and inner.template not in capabilities.templates:
            return True
        if capabilities.effect(inner) is not Effect.READ:
            return True
    return False


def only_asks_to_go_on(run: Run, asked: e.QuestionAsked, capabilities: Capabilities) -> bool:
    """Tells whether a question only asks to go on: what acts waits, and uses no answer."""
    if run.plan is None or asked.step is None or asked.kind != "step":
        return False
    if not guarded(run.plan, asked.step, capabilities):
        return False
    return not any(_acts(step, capabilities) for step in _reached(run, asked, capabilities))


def _reached(run: Run, asked: e.QuestionAsked, capabilities: Capabilities) -> list[AnyStep]:
    """Returns the steps that get the answer as a value, if only to tell it, at every level.

    Mere order (`after`) does not count. A condition does: the plan says what each answer means.
    """
    steps: list[AnyStep] = []
    around = levels(run.plan, asked.step, capabilities.templates) if run.plan and asked.step else ()
    for level in around:
        if level is not None:
            by_id = level.plan.by_id
            uses = {
                name: frozenset(
                    each.ref.step
                    for each in step.references
                    if each.ref and each.ref.step in by_id and not step.is_own(each)
                )
                for name, step in by_id.items()
            }
            after = downstream(uses, [level.root])
            steps += [by_id[name] for name in after if name != level.root]
    return steps


def may_continue(run: Run, asked: e.QuestionAsked, value: Json, capabilities: Capabilities) -> bool:
    """Tells whether what waits for an answer goes on: false for a no before a change.

    An answer that such a step uses as a value is not a permission: `pay(tip={{q}})`. What is
    neither a yes nor a no raises `Refused`, unless another step uses it.
    """
    if not only_asks_to_go_on(run, asked, capabilities):
        return True
    listed = (asked.answer_schema or {}).get("enum")
    options = asked.options or (listed if isinstance(listed, list) else ())
    agreed = agrees(value, asked.text, [each for each in options if isinstance(each, str)])
    if agreed is not None or _reached(run, asked, capabilities):
        return agreed is not False
    if value in options:
        return False  # there is no clearer one: when in doubt, it counts as a no
    raise Refused(
        Sentence("'{answer}' is neither a clear yes nor a clear no", answer=value_text(value)),
        hint=Sentence("answer yes to go on, or no to leave out what waits for it"),
    )


def agrees(value: Json, question: str, options: Sequence[str]) -> bool | None:
    """Tells whether an answer agrees to go on; None if that is not clear.

    Other words than yes and no are read by whatever package reads language, if one is installed.
    """
    if isinstance(value, bool) or value is None:
        return value
    if not isinstance(value, str):
        return True  # a number or the like, to whoever asked for one
    word = value.strip().casefold()
    if word in _YES_OR_NO:
        return _YES_OR_NO[word]
    if "answers" not in plugins.names("language"):
        return None
    read: Callable[[str, str, Sequence[str]], bool | None] = plugins.load("language", "answers")
    return read(value, question, options)


def waiting_behind(run: Run, step: str) -> tuple[str, ...]:
    """Returns the steps of the plan that need this step and have not started."""
    if run.plan is None or step not in run.plan.by_id:
        return ()
    after = steps_behind(run.plan, step)
    return tuple(
        name for name, state in run.steps.items() if name in after and state.status in NOT_STARTED
    )


def expired(run: Run, now: datetime) -> Iterator[list[e.AnyBody]]:
    """Yields the events that close each expired question as unanswered; no option is assumed."""
    # Filtered without a line of Python for each: most questions do not expire.
    for asked in filter(attrgetter("expires_at"), run.questions.values()):
        if asked.expires_at is not None and asked.expires_at <= now:
            closed: list[e.AnyBody] = [e.QuestionAnswered(question=asked.question, no_answer=True)]
            if asked.step is not None:
                error = Sentence("nobody answered in time")
                closed.append(e.StepFailed(step=asked.step, error=error, kind="person"))
            yield closed


class AfterAnswer(NamedTuple):
    """The events that follow from an answer, and values that they refer to besides the answer."""

    bodies: Sequence[e.AnyBody]
    values: tuple[Json, ...] = ()


def after_answer(
    asked: e.QuestionAsked, value: Json, *, run: Run, capabilities: Capabilities
) -> AfterAnswer:
    """Returns what follows from an answer; refuses one that does not fit the question.

    A no to a step that changes something skips that step; it is not used as a result.
    """
    if asked.limit:
        return AfterAnswer(events_after_limit(asked.limit, value))
    step = asked.step
    if step is None:
        return AfterAnswer([])
    if asked.kind == "unknown":
        return _after_unknown(step, value, run, capabilities)
    if asked.kind == "consent":
        if read_consent(value) is None:
            _require_fitting(asked, value)
        return AfterAnswer([after_consent(asked, value, run, capabilities)])
    _require_fitting(asked, value)
    if asked.state:
        return AfterAnswer([e.StepReplied(step=step, answer=value, state=asked.state)])
    if not may_continue(run, asked, value, capabilities):
        reason = Sentence("the answer was {answer}", answer=value_text(value))
        denied = Sentence("{step} was denied", step=step)
        skipped = [e.StepSkipped(step=name, reason=denied) for name in waiting_behind(run, step)]
        return AfterAnswer([e.StepSkipped(step=step, reason=reason), *skipped])
    return AfterAnswer([e.StepDone(step=step, result=content_of(value).digest)])


def _require_fitting(asked: e.QuestionAsked, value: Json) -> None:
    if asked.answer_schema is not None:
        if why := why_misfit(asked.answer_schema, value):
            raise Refused(Sentence("the answer does not fit the question: {why}", why=why))
    elif asked.options and value not in asked.options:
        raise _not_one_of(value, asked.options)


def _not_one_of(value: Any, options: Sequence[str]) -> Refused:
    return Refused(Sentence("'{value}' is not one of {names}", value=value, names=[*options]))


def _after_unknown(step: str, value: Json, run: Run, capabilities: Capabilities) -> AfterAnswer:
    """Returns what follows: the call is done, did not happen, or is made again.

    `{"done": result}` gives the result as well, which is required where something uses it.
    """
    if isinstance(value, dict) and value.keys() == {DONE}:
        result = value[DONE]
        _require_possible_result(step, result, run, capabilities)
        done = e.StepDone(step=step, result=content_of(result).digest)
        return AfterAnswer([done], (result,))
    if value not in UNKNOWN_OPTIONS:
        raise _not_one_of(json_text(value), UNKNOWN_OPTIONS)
    if value == "retry":
        reason = Sentence("a person wants it tried again")
        return AfterAnswer([e.StepReset(step=step, reason=reason, same_call=True)])
    if value == NOT_DONE:
        return _not_done(step, run, capabilities)
    if user := _consumer_of(step, run, capabilities):
        raise Refused(
            Sentence("the result of the step '{step}' is needed by '{user}'", step=step, user=user),
            hint=_RESULT_HINT,
        )
    return AfterAnswer([e.StepDone(step=step, result=content_of(value).digest)])


def _require_possible_result(name: str, result: Json, run: Run, capabilities: Capabilities) -> None:
    """Refuses a result that the tool cannot have given; null stands for one that nobody knows."""
    unit = named_unit(run.plan, name, capabilities.templates) if run.plan else None
    tool = unit.step.tool if unit is not None and isinstance(unit.step, ToolStep) else ""
    schema = capabilities.tools[tool].output_schema if tool in capabilities.tools else None
    if result is not None and (flaw := why_misfit(schema, result)):
        why = Sentence("that is no result of {tool}: {error}", tool=tool, error=flaw)
        raise Refused(why, hint=_RESULT_HINT)


def _consumer_of(name: str, run: Run, capabilities: Capabilities) -> str:
    """Returns a step that would use the result of this one, perhaps to take it back; or nothing.

    A reply may also tell just that it is done.
    """
    unit = named_unit(run.plan, name, capabilities.templates) if run.plan else None
    if unit is None or run.plan is None:
        return ""
    if any(unit.step.is_own(found) for found in unit.step.references):
        return name
    for level in levels(run.plan, name, capabilities.templates):
        if level is None:
            return ""
        for step in level.plan.steps:
            state = run.steps.get(f"{level.scope}{step.id}")
            if step.disabled or step.id == level.root or (state and state.status in _OVER):
                continue
            whole = not isinstance(step, ReplyStep)
            refs = [each.ref for each in step.references if each.ref is not None]
            if any(ref.step == level.root and (ref.path or whole) for ref in refs):
                return f"{level.scope}{step.id}"
    return ""


def _not_done(name: str, run: Run, capabilities: Capabilities) -> AfterAnswer:
    """Returns the failure of a call that did not happen; the plan may go on without it."""
    error = Sentence("a person says that it did not happen")
    unit = named_unit(run.plan, name, capabilities.templates) if run.plan else None
    if run.plan is None or unit is None:
        return AfterAnswer([e.StepFailed(step=name, error=error, kind="person")])
    around = named_unit(run.plan, parent_of(name), capabilities.templates)
    is_item = around is not None and around.step.kind == "map" and not unit.is_round
    rule = on_error(unit.step, around.step if around is not None and is_item else None)
    if rule == "fail":
        return AfterAnswer([e.StepFailed(step=name, error=error, kind="person")])
    instead = instead_of_result(unit.step, rule, error, "tool")
    failed = e.StepFailed(step=name, error=error, kind="tool", passed=True)
    if instead is None:
        return AfterAnswer([failed])
    return AfterAnswer([failed.replace(result=content_of(instead.value).digest)], (instead.value,))
