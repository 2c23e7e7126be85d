"""Fakes and contract tests for programs that build on Plansmith."""

from plansmith.replay.recorded import RecordedModel, RecordingModel
from plansmith.store.memory import MemoryStore
from plansmith.testing.fakes import Answer, FakeClock, FakeTool, FakeTools, ScriptedModel
from plansmith.testing.modelserver import Gate, ModelServer, Page, Refusal, Reply

__all__ = [
    "Answer",
    "FakeClock",
    "FakeTool",
    "FakeTools",
    "Gate",
    "MemoryStore",
    "ModelServer",
    "Page",
    "RecordedModel",
    "RecordingModel",
    "Refusal",
    "Reply",
    "ScriptedModel",
]
