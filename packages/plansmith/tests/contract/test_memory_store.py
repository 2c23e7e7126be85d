from __future__ import annotations

from plansmith.testing import MemoryStore
from plansmith.testing.contracts import PlanStoreContract


class TestMemoryStore(PlanStoreContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()
