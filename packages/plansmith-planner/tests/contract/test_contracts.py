"""What a planner, its replies, its conversations, its sources and its ranker keep to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from plansmith.clock import SystemClock
from plansmith.errors import ModelFailed
from plansmith.plan.events import Actor
from plansmith.runs.journals import Journals
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith.testing.contracts import (
    ContextSourceContract,
    ConversationsContract,
    PlannerContract,
    RankerContract,
    ReplyWriterContract,
)
from plansmith_planner.context.documents import DocumentSource, LexicalRanker
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.threads.entries import MessageAdded, ThreadOpened
from plansmith_planner.threads.memory import ThreadMemory
from plansmith_planner.threads.store import ThreadStore

WORDS = "hello to all of you who read this\n"


class TestDocumentSource(ContextSourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        (tmp_path / "a.md").write_text("# Hello\n" + WORDS * 40)
        (tmp_path / "b.txt").write_text(WORDS)

    def make_source(self) -> DocumentSource:
        return DocumentSource([self.folder])


class TestLexicalRanker(RankerContract):
    def make_ranker(self) -> LexicalRanker:
        return LexicalRanker()


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
