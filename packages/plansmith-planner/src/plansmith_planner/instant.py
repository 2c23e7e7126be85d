"""Plans a request by rules if its whole text leaves no doubt; any other goes to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from plansmith.check.check_plan import check_plan
from plansmith.check.rehearsal import Rehearse
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import visible
from plansmith_planner.language.characters import HAN
from plansmith_planner.language.questions import STEP, read_question, small_talk, without_courtesies

_MAX_LENGTH: Final = 200  # whatever is longer says more than these rules understand


class Instant(NamedTuple):
    """A plan, or an answer that needs none, with the reason that a person sees."""

    reason: Sentence
    plan: Plan | None = None
    answer: str = ""


async def instant(
    request: str, *, tools: Sequence[ToolSpec], rehearse: Rehearse, locale: str
) -> Instant | None:
    """Returns what rules make of a request; None unless they understand every word of it.

    The tool itself decides whether its arguments mean something: what its rehearsal does not
    accept is left to the model.
    """
    text = request.strip()
    if not 0 < len(text) <= _MAX_LENGTH or visible(text) != text or "\n" in text:
        return None
    chinese = HAN.search(text) is not None or locale.startswith("zh")
    talk = small_talk(text, [each.name for each in tools], chinese=chinese)
    if talk:
        return Instant(Sentence("instant.small_talk"), answer=talk)
    call = read_question(without_courtesies(text), "zh" if chinese else "en")
    spec = next((each for each in tools if call and each.name == call.tool), None)
    if call is None or spec is None or spec.effect is not Effect.READ or spec.open_world:
        return None
    reason = Sentence(f"instant.{call.kind}")
    steps = [
        {"id": STEP, "tool": call.tool, "inputs": call.inputs},
        {"id": "answer", "instruction": call.reply, "style": "exact"},
    ]
    about = {"goal": text, "thought": in_language(reason, locale), "locale": locale}
    plan = Plan.model_validate({**about, "steps": steps})
    flawed = any(each.severity == "error" for each in check_plan(plan, tools))
    objection = None if flawed else await rehearse(call.tool, call.inputs)
    if objection and call.kind == "arithmetic":
        # Nothing but numbers and signs: no model would make more of them.
        why = Sentence("That cannot be calculated: {why}", why=objection)
        return Instant(reason, answer=in_language(why, "zh" if chinese else "en"))
    return Instant(reason, plan) if objection == "" else None
