from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from plansmith.errors import ModelRefused, ToolBusy
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.ports import Call, ChatModel, Delta, ModelDone, Prompt, ReplyBrief, TextDelta, Usage
from plansmith.runs.replies import Replies
from plansmith.testing import Answer, FakeClock, ScriptedModel
from plansmith_planner.context.token_budget import rough_count
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.replies import write_reply

Scripted = Callable[..., ScriptedModel]
RESULTS: Mapping[str, Json] = {"{{oslo.temp}}": -3, "{{rome}}": {"temp": 21}}
TASK = "Compare {{oslo.temp}} with {{rome}}"


def replies(model: ChatModel | None = None, *, locale: str = "en") -> Replies:
    writer = ModelPlanner(model, clock=FakeClock()) if model is not None else None
    return Replies(Run(id="r", locale=locale), writer)


async def test_without_a_model_a_reply_is_its_instruction_with_the_results() -> None:
    compose = replies()
    assert await compose("Say 7", Call("k")) == "Say 7"
    assert await compose(TASK, Call("k"), RESULTS) == 'Compare -3 with {"temp": 21}'


async def test_what_is_put_in_is_never_looked_at_again() -> None:
    given: Mapping[str, Json] = {"{{a}}": "{{b}}", "{{b}}": "secret"}
    assert await replies()("Say {{a}}", Call("k"), given) == "Say {{b}}"
    assert await replies()("Say {{b}} as it came", Call("k")) == "Say {{b}} as it came"


async def test_the_model_sees_each_result_apart_and_is_told_to_name_its_step(
    scripted: Scripted,
) -> None:
    model = scripted(Answer("Rome is warmer [step:rome].", usage=Usage(10, 5)))
    spent: list[Usage] = []
    text = await replies(model)(TASK, Call("k", spend=spent.append), RESULTS)
    assert text == "Rome is warmer [step:rome]."
    assert spent == [Usage(10, 5)]
    prompt = model.prompts[0][0].text
    assert 'Compare -3 with {"temp": 21}' in prompt
    assert "[step:ID]" in prompt
    assert "the steps there are: oslo, rome." in prompt
    assert 'title="result {{rome}}" source="rome"' in prompt


@pytest.mark.parametrize("room", [400, 1000, 4000])
async def test_large_results_are_clipped_with_a_note_and_the_room_is_kept(
    scripted: Scripted, room: int
) -> None:
    results: dict[str, Json] = {f"{{{{s{n}}}}}": "x" * 50_000 for n in range(3)}
    results["{{small}}"] = "the small one stays whole"
    model = scripted("ok")
    frame = scripted("ok")
    await write_reply(ReplyBrief("Go", {}), (), Call("k"), model=frame, tokens=room)
    await write_reply(ReplyBrief("Go", results), (), Call("k"), model=model, tokens=room)
    prompt = model.prompts[0][0].text
    assert rough_count(prompt) <= rough_count(frame.prompts[0][0].text) + room
    assert "left out" in prompt
    assert "the small one stays whole" in prompt


async def test_results_that_find_no_room_at_all_are_told_of(scripted: Scripted) -> None:
    model = scripted("ok")
    brief = ReplyBrief("Go", {"{{a}}": "x" * 9000})
    await write_reply(brief, (), Call("k"), model=model, tokens=60)
    assert "the whole context was left out" in model.prompts[0][0].text


@pytest.mark.parametrize(
    ("locale", "note"), [("en", "could not word this answer"), ("zh-CN", "模型无法写出这个回答")]
)
async def test_when_the_model_fails_the_results_are_given_plainly_and_it_says_so(
    scripted: Scripted, locale: str, note: str
) -> None:
    model = scripted(ModelRefused("no such key"))
    text = await replies(model, locale=locale)(TASK, Call("k"), RESULTS)
    assert note in text
    assert "no such key" in text
    assert text.endswith('Compare -3 with {"temp": 21}')


async def test_silence_is_tried_again_and_then_told(scripted: Scripted) -> None:
    compose = replies(scripted("  ", " "))
    with pytest.raises(ToolBusy, match="gave an empty answer"):
        await compose("Say 7", Call("k"))
    assert "the model gave an empty answer" in await compose("Say 7", Call("k", attempt=2))


async def test_a_model_that_takes_long_over_a_reply_tells_how_far_it_is() -> None:
    class Slow:
        name = "slow"

        async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
            del prompt
            yield TextDelta("", "reads 40 %")
            yield TextDelta("Sunny.")
            yield ModelDone(Usage())

    lines: list[str] = []
    call = Call(key="k", progress=lines.append)
    text = await replies(Slow())("Tell {{oslo}} nicely", call, {"{{oslo}}": {"sky": ["sun"]}})
    assert (text, lines) == ("Sunny.", ["reads 40 %"])
