"""Has a model write the text of a reply step, in the language of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.refs import Ref, fill_by_ref_text, pieces, value_text
from plansmith.ports import Call, ChatModel, ContextBlock, Message, Prompt, ReplyBrief
from plansmith_planner.context.fence import fence
from plansmith_planner.context.history import TITLE, recall
from plansmith_planner.context.token_budget import Part, clipped, fit, rough_count
from plansmith_planner.model_calls import read_answer, render

MAX_TOKENS: Final = 24_000
_CITE: Final = (
    "Put the step that a statement rests on behind it, in this form: [step:ID]. "
    "These are the steps there are: {names}."
)
_AS_RESULTS: Final = "\n\nShow the results themselves, as tables and lists."


async def write_reply(
    brief: ReplyBrief,
    history: Sequence[Message],
    call: Call,
    *,
    model: ChatModel,
    prompts: Path | None = None,
    tokens: int = MAX_TOKENS,
) -> str:
    """Returns the model's text; clips results that do not fit into the prompt, with a note."""
    prompt = _material(brief.instruction, brief.results, tokens)
    if history:  # the conversation before the request, so that a reply fits into it
        recalled = recall(history, tokens=1_500)
        prompt = f"{fence(TITLE, recalled.text)}\n\n{prompt}"
    prompt += _AS_RESULTS if brief.style == "results" else ""
    text = render("reply", folder=prompts, locale=brief.locale, instruction=prompt)
    stream = model.stream(Prompt([Message("user", text)], brief=brief))
    answer = await read_answer(stream, on_progress=call.progress)
    call.spend(answer.usage)
    return answer.text


def _material(instruction: str, results: Mapping[str, Json], tokens: int) -> str:
    """Returns the model's material: the instruction first, then each result in equal shares."""
    if not results:
        whole = clipped(instruction, tokens=tokens)
        return fence("what to say, and the results", whole)
    # A small value stays in its place; a large one would bury the instruction.
    small = {name: each for name, each in results.items() if len(value_text(each)) <= 200}
    task = fill_by_ref_text(instruction, small)
    short = clipped(task, tokens=tokens // 2)
    names = ", ".join(dict.fromkeys(_step_of(name) for name in results))
    head = f"{fence('what to say', short)}\n\n{_CITE.format(names=names)}\n\n"
    parts = [
        Part((ContextBlock(f"result {name}", value_text(value), _step_of(name)),))
        for name, value in results.items()
    ]
    left = tokens - rough_count(head) - 1
    fitted = fit(parts, tokens=max(left, 0))
    return head + (fitted.text or "; ".join(fitted.notes))


def _step_of(name: str) -> str:
    """Returns the step that a reference such as `{{oslo.weather[0]}}` names."""
    found = pieces(name)[0]
    return found.step if isinstance(found, Ref) else name
