from __future__ import annotations

from collections.abc import Sequence

from plansmith.clock import SystemClock
from plansmith.errors import ModelFailed
from plansmith.plan.events import Actor
from plansmith.plan.thread import MessageAdded, ThreadOpened
from plansmith.runs.journals import Journals
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith.testing.contracts import (
    ConversationsContract,
    PlannerContract,
    ReplyWriterContract,
)
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.threads.memory import ThreadMemory
from plansmith_planner.threads.store import ThreadStore

PLAN = {"goal": "see cats", "steps": [{"id": "a", "tool": "look", "inputs": {"x": "cats"}}]}


def planner(*answers: object) -> ModelPlanner:
    return ModelPlanner(ScriptedModel(*answers), clock=FakeClock())


class TestModelPlanner(PlannerContract):
    def make_planner(self) -> ModelPlanner:
        return planner({"decision": "plan"}, PLAN)


class TestPlannerThatAnswers(PlannerContract):
    def make_planner(self) -> ModelPlanner:
        return planner({"decision": "answer", "answer": "there are none"}, PLAN)


class TestReplies(ReplyWriterContract):
    def make_writer(self) -> ModelPlanner:
        return planner("It is a list [step:look].")

    def make_broken_writer(self) -> ModelPlanner:
        return planner(ModelFailed("away"))


class TestThreads(ConversationsContract):
    async def begin(self, *texts: str) -> tuple[ThreadMemory, str, Sequence[int]]:
        store = MemoryStore()
        added = [MessageAdded(text=each) for each in texts]
        thread = await ThreadStore(store).add(
            "talk", ThreadOpened(), *added, by=Actor(kind="person")
        )
        numbers = [each.number for each in thread.messages]
        return ThreadMemory(Journals(store=store, clock=SystemClock())), "talk", numbers
