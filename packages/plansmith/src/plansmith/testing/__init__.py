"""Fakes and contract tests for programs that build on Plansmith."""

from plansmith.store.memory import MemoryStore
from plansmith.testing.fakes import Answer, FakeClock, FakeTool, FakeTools, ScriptedModel
from plansmith.testing.recorded import RecordedModel, RecordingModel

__all__ = [
    "Answer",
    "FakeClock",
    "FakeTool",
    "FakeTools",
    "MemoryStore",
    "RecordedModel",
    "RecordingModel",
    "ScriptedModel",
]
