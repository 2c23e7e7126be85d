from __future__ import annotations

from pathlib import Path

import pytest

from plansmith.testing.contracts import ContextSourceContract, RankerContract
from plansmith_planner.context.documents import DocumentSource, LexicalRanker

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
