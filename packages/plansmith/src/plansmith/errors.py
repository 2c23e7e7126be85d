"""All exceptions that Plansmith raises on purpose.

    PlansmithError
    ├── UnreadableText      no JSON or YAML value could be read from a text
    ├── PlanInvalid         a plan is not usable; carries its problems
    ├── ReferenceFailed     a reference points at a value that is not there
    ├── Misconfigured       a setting is missing or wrong; says what to set
    ├── ModelFailed         a language model gave no usable answer
    │   ├── ModelBusy           worth another try: rate limit, time-out, 5xx, cut stream
    │   ├── ModelRefused        the provider refused: key, model name, content
    │   ├── PromptTooLong       the prompt does not fit the model's limit
    │   └── ScriptMismatch      a scripted or recorded model got a call it has no answer for
    ├── ToolFailed          a tool or an agent gave no usable result
    │   ├── ToolBusy            worth another try
    │   └── OutcomeUnknown      nobody knows whether it took effect
    ├── InputNeeded         a call needs an answer from a person before it can go on
    ├── Refused             the operation is not possible in the present state
    │   ├── NotFound            there is no run, step, schedule, template or thread of this name
    │   ├── NotApproved         the plan of the run waits for a person's approval
    │   ├── StaleDecision       the decision is about another plan, or was made already
    │   ├── OtherFolder         the run or schedule belongs to another folder than this one
    │   ├── OtherTeam           the run needs a team of agents that is not loaded
    │   └── RunBusy             another process is running it
    │       └── RunTakenOver        it has taken the run from this one
    └── JournalError        a journal cannot be read or written
        ├── StaleWriter         someone else appended first
        ├── StoreAway           the store does not answer now; a later try may succeed
        └── JournalDamaged      an event is missing, altered or out of order
            └── EventMisfit         a new event does not fit its run, and was not stored

What is wrong with a *plan* is data (`plansmith.plan.problem.Problem`), not an exception:
`PlanInvalid` is raised only where a caller asked for a usable plan and there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class PlansmithError(Exception):
    """Any failure a caller of Plansmith may want to handle.

    Args:
        message: What went wrong.
        hint: What to do about it.

    Examples:
        >>> from plansmith import Plan, PlansmithError, check_plan
        >>> try:
        ...     check_plan(Plan(), [7])
        ... except PlansmithError as error:
        ...     print(error.message)
        7 is not a tool
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UnreadableText(PlansmithError):
    """No value could be read from a text."""


class _Problem(Protocol):
    """The part of a plan's problem that readers of the error use; its text says all of it."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...


class PlanInvalid(PlansmithError):
    """There is no usable plan; `problems` says why.

    Args:
        problems: What is wrong with the plan.

    Examples:
        >>> from plansmith import PlanInvalid, read_plan
        >>> try:
        ...     read_plan({"goal": "Greet"})
        ... except PlanInvalid as error:
        ...     print(error.problems[0].code)
        PS004
    """

    def __init__(self, problems: Sequence[_Problem]) -> None:
        first = "; ".join(map(str, problems[:3]))
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        super().__init__(f"the plan is not usable: {first}{more}")
        self.problems = tuple(problems)


class ReferenceFailed(PlansmithError):
    """A reference points at a value that is not there."""


class Misconfigured(PlansmithError):
    """A setting is missing or wrong; the hint says what to set.

    Examples:
        >>> from plansmith import Plansmith
        >>> Plansmith(tools=[3])
        Traceback (most recent call last):
        plansmith.errors.Misconfigured: 3 is not a tool (give functions that have a name, …)
    """


class ModelFailed(PlansmithError):
    """A language model gave no usable answer."""


class ModelBusy(ModelFailed):
    """A temporary failure of a model.

    Args:
        message: What happened.
        retry_after: How many seconds the provider asks to wait.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class ModelRefused(ModelFailed):
    """The provider refused the call; another try would not help."""


class PromptTooLong(ModelFailed):
    """The prompt does not fit the model's limit."""


class ScriptMismatch(ModelFailed):
    """A scripted or recorded model got a call it has no answer for, or has an answer left over."""


class ToolFailed(PlansmithError):
    """A tool or an agent gave no usable result. Raise this only if nothing was changed.

    If a call that changes something raises any other exception, it may have taken effect: it is
    not repeated, and a person is asked; so it is with the subclass `OutcomeUnknown`.

    Examples:
        >>> from plansmith import ToolFailed, tool
        >>> @tool
        ... def pay(to: str) -> str:
        ...     raise ToolFailed(f"there is no account {to}")  # nothing was paid
    """


class ToolBusy(ToolFailed):
    """A temporary failure of a tool, worth another try; nothing was changed.

    Args:
        message: What happened.
        retry_after: How many seconds to wait before the next try.
        hint: What to do about it.

    Examples:
        >>> from plansmith import ToolBusy, tool
        >>> @tool
        ... def pay(to: str) -> str:
        ...     raise ToolBusy("the bank takes no calls for a minute", retry_after=60)
    """

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class OutcomeUnknown(ToolFailed):
    """A call was lost or failed after it started: it may have taken effect.

    Unlike any other `ToolFailed`, it does not mean that nothing was changed. A person is asked what
    became of the call, unless it only reads or is safe to repeat.

    Args:
        message: What happened.
        again: Whether another try may help, if the call only reads.
        retry_after: How many seconds to wait before the next try.
        hint: What to do about it.
    """

    def __init__(
        self, message: str, *, hint: str = "", again: bool = True, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.again, self.retry_after = again, retry_after


def failure_of_call(failure: ToolFailed, *, sent: bool, message: str = "") -> ToolFailed:
    """Returns the failure of a call to another system: once sent, it may have taken effect."""
    text = message or failure.message
    if not sent:
        return type(failure)(text, hint=failure.hint)
    if isinstance(failure, ToolBusy):
        return OutcomeUnknown(text, hint=failure.hint, retry_after=failure.retry_after)
    return OutcomeUnknown(text, hint=failure.hint, again=False)


class InputNeeded(PlansmithError):
    """A call needs an answer from a person, and is then made again with `Call.reply`.

    Args:
        text: The question.
        schema: The JSON Schema of the answer.
        options: The answers to choose from.
        state: Returned to you with the answer. It is stored in the journal: put no secret in it.
        link: A page where the person can act, such as a log-in.

    Examples:
        >>> from plansmith import tool
        >>> from plansmith.errors import InputNeeded
        >>> from plansmith.ports import Call
        >>> @tool(effect="read")
        ... def find(name: str, call: Call) -> str:
        ...     if call.reply is None:
        ...         raise InputNeeded("Which of the two?", options=["Oslo", "Rome"])
        ...     return f"{name} in {call.reply.answer}"
    """

    def __init__(
        self,
        text: str,
        *,
        schema: dict[str, Any] | None = None,
        options: Sequence[str] = (),
        state: Any = None,
        link: str = "",
    ) -> None:
        super().__init__(text)
        self.schema = schema
        self.options = tuple(options)
        self.state = state
        self.link = link


class Refused(PlansmithError):
    """The operation is not possible in the present state.

    Examples:
        >>> from plansmith import Plan, Plansmith
        >>> smith = Plansmith()
        >>> run = await smith.submit(Plan(steps=[{"id": "ask", "kind": "ask", "question": "Go?"}]))
        >>> await smith.resume(run.id)
        Traceback (most recent call last):
        plansmith.errors.Refused: run … is not paused: it is …
    """


class NotFound(Refused):
    """There is nothing of this name; the hint says what there is.

    Examples:
        >>> from plansmith import Plansmith
        >>> await Plansmith().get("no-such-run")
        Traceback (most recent call last):
        plansmith.errors.NotFound: there is no run 'no-such-run'…
    """


class NotApproved(Refused):
    """The plan of the run waits for a person's approval; the hint says how to give it.

    Examples:
        >>> from plansmith import Plan, Plansmith, tool
        >>> @tool
        ... def send() -> str:
        ...     return "sent"
        >>> smith = Plansmith(tools=[send])
        >>> run = await smith.submit(Plan(steps=[{"id": "a", "kind": "tool", "tool": "send"}]))
        >>> await smith.run(run.id)
        Traceback (most recent call last):
        plansmith.errors.NotApproved: run … waits for the approval of its plan (look at …)
    """


class StaleDecision(Refused):
    """The decision is about another plan than the current one, or was made already."""


class OtherFolder(Refused):
    """The run or schedule belongs to another folder and acts only there."""


class OtherTeam(Refused):
    """The run needs a team of agents that is not loaded; the hint says how to load it."""


class RunBusy(Refused):
    """Another process is running it; wait for it, or stop it."""


class RunTakenOver(RunBusy):
    """Another process has claimed the run that this one executed; nothing more is stored."""


class JournalError(PlansmithError):
    """A journal cannot be read or written."""


class StaleWriter(JournalError):
    """Someone else appended to the run first."""


class StoreAway(JournalError):
    """The store does not answer now: it is locked, full, stopped or unreachable."""


class JournalDamaged(JournalError):
    """An event of a journal is missing, altered or out of order."""


class EventMisfit(JournalDamaged):
    """A new event does not fit its run: nothing was stored, and the journal is as it was."""
