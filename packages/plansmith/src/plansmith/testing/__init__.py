"""Fakes and contract tests for programs that build on Plansmith."""

from plansmith.replay.recorded import RecordedModel, RecordingModel
from plansmith.store.memory import MemoryStore
from plansmith.testing.clock import FakeClock
from plansmith.testing.modelserver import Gate, ModelServer, Page, Refusal, Reply
from plansmith.testing.scripted import Answer, ScriptedModel
from plansmith.testing.tools import FakeTool, FakeTools

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
