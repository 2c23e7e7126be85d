"""Fakes and contract tests for programs that build on Plansmith."""

from plansmith.replay.recorded import RecordedModel, RecordingModel
from plansmith.store.memory import MemoryStore
from plansmith.testing.fakes import Answer, FakeClock, FakeTool, FakeTools, ScriptedModel

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
