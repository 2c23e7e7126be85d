"""An agent asks the person in the middle of a step: the run waits, and the answer comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plansmith import AgentSpec, Effect, Plan, Plansmith, Run, RunStatus
from plansmith.errors import ToolBusy
from plansmith.plan.data import Json
from plansmith.plan.events import StepStarted
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.secrets import SecretBox
from plansmith.testing import Answer, FakeTool, FakeTools, ScriptedModel
from plansmith_desk.agents.researcher import researcher

Script = Callable[..., ScriptedModel]
BOOK = Plan.model_validate(
    {
        "goal": "a trip",
        "steps": [
            {"id": "trip", "agent": "travel", "task": "Book a trip"},
            {"id": "r", "instruction": "Say {{trip}}", "style": "exact"},
        ],
    }
)


CARD = AgentSpec(name="travel", description="Books", effect=Effect.READ)


@dataclass
class Travel:
    """An agent that needs to know two things before it books."""

    booked: list[str] = field(default_factory=list[str])
    begun: int = 0
    spec: AgentSpec = CARD

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        del task, inputs
        self.begun += 1
        city = call.ask("Which city?")
        day = call.ask("Which day?", options=["Monday", "Tuesday"])
        self.booked.append(f"{city} on {day}")
        return self.booked[-1]


async def answered(app: Plansmith, run: Run, answer: str) -> Run:
    """The run after an answer to its one question."""
    [question] = run.questions
    await app.answer(run.id, question, answer, by="ada")
    return await app.run(run.id)


async def test_an_agent_asks_twice_and_each_answer_comes_back_to_it_through_a_restart(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first = Travel()
    async with Plansmith(agents=[first], store=url) as app:
        run = await app.run((await app.submit(BOOK)).id)
        assert run.status is RunStatus.ASKING
        [asked] = run.questions.values()
        assert (asked.text, asked.kind, asked.step) == ("Which city?", "call", "trip")
    assert first.booked == []

    second = Travel()
    async with Plansmith(agents=[second], store=url) as app:
        run = await answered(app, run, "Oslo")
        [asked] = run.questions.values()
        assert (asked.text, asked.options) == ("Which day?", ("Monday", "Tuesday"))

    third = Travel()
    async with Plansmith(agents=[third], store=url) as app:
        run = await answered(app, run, "Tuesday")
        assert run.status is RunStatus.DONE
        assert run.steps["trip"].result == "Oslo on Tuesday"
    assert [second.booked, third.booked] == [[], ["Oslo on Tuesday"]]
    assert [first.begun, second.begun, third.begun] == [1, 1, 1]


async def test_an_agent_that_never_stops_asking_fails_its_step() -> None:
    class Endless(Travel):
        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            self.begun += 1
            return call.ask(f"Question {self.begun}?") and call.ask(f"Question {self.begun}!")

    app = Plansmith(agents=[Endless()])
    run = await app.run((await app.submit(BOOK)).id)
    for _ in range(30):
        if run.status is not RunStatus.ASKING:
            break
        run = await answered(app, run, "so")
    assert run.status is RunStatus.FAILED
    assert "more than 20 questions" in run.steps["trip"].error


async def test_an_agent_that_asks_the_same_question_again_gets_no_answer_twice() -> None:
    class Mailer(Travel):
        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            return [[name, call.ask("Send it?")] for name in ("ann", "bob", "eve")]

    app = Plansmith(agents=[Mailer()])
    run = await app.run((await app.submit(BOOK)).id)
    for answer in ("yes", "no", "later"):
        assert run.status is RunStatus.ASKING
        run = await answered(app, run, answer)
    assert run.steps["trip"].result == [["ann", "yes"], ["bob", "no"], ["eve", "later"]]


async def test_an_agent_that_has_asked_is_still_tried_again_when_it_is_busy() -> None:
    class Busy(Travel):
        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            answers = [call.ask(f"Question {number}?") for number in range(3)]
            self.begun += 1
            if self.begun < 3:
                raise ToolBusy("in a moment")
            return answers

    app = Plansmith(agents=[Busy()], limits=Limits(first_wait_s=0))
    run = await app.run((await app.submit(BOOK)).id)
    while run.questions:
        run = await answered(app, run, next(iter(run.questions)))
    assert run.steps["trip"].result == ["trip?1", "trip?2", "trip?3"]


async def test_an_agent_whose_question_holds_a_secret_is_answered_once() -> None:
    class Keeper(Travel):
        async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
            return call.ask("Is open-sesame-42 the right key?")

    box = SecretBox({"key": {"env": "KEY"}}, environment={"KEY": "open-sesame-42"})
    app = Plansmith(agents=[Keeper()], secrets=box)
    run = await app.run((await app.submit(BOOK)).id)
    [asked] = run.questions.values()
    assert asked.text == "Is ${secret:key} the right key?"
    run = await answered(app, run, "yes")
    assert run.steps["trip"].result == "yes"


def asking(scripted: Script, *answers: Any) -> tuple[ScriptedModel, Plansmith]:
    model = scripted(*answers)
    tools = FakeTools(FakeTool("web_search", ["rain"], input_schema={"type": "object"}))
    return model, Plansmith(agents=[researcher(model=model, sources=[tools], asks=True)])


FIND = Plan.model_validate(
    {"goal": "x", "steps": [{"id": "f", "agent": "researcher", "task": "Find the weather"}]}
)
FINISH = Answer({"text": "It rains in Oslo."}, tool="finish")


async def test_a_local_agents_model_asks_the_person_and_reads_every_answer(
    scripted: Script,
) -> None:
    where = Answer({"question": "Where?", "options": ["Oslo", "Bergen"]}, tool="ask_person")
    model, app = asking(scripted, where, Answer({"question": "When?"}, tool="ask_person"), FINISH)
    run = await app.run((await app.submit(FIND)).id)
    [asked] = run.questions.values()
    assert (asked.text, asked.options) == ("researcher: Where?", ("Oslo", "Bergen"))
    run = await answered(app, run, "Oslo")
    [asked] = run.questions.values()
    assert asked.text == "researcher: When?"
    run = await answered(app, run, "today")
    assert run.status is RunStatus.DONE
    last = "\n".join(message.text for message in model.prompts[-1])
    assert 'title="answer of the person to: Where?"' in last
    assert 'title="answer of the person to: When?"' in last
    starts = [each.body async for each in app.events(run.id) if isinstance(each.body, StepStarted)]
    assert len({each.call_mark for each in starts}) == 1
