from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from plansmith.testing.contracts import ContextSourceContract, RankerContract
from plansmith_planner.context.documents import DocumentSource
from plansmith_planner.context.knowledge import KnowledgeSource
from plansmith_planner.context.lexical import LexicalRanker
from plansmith_planner.context.schema import SchemaSource

WORDS = "hello to all of you who read this\n"


class TestDocumentSource(ContextSourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        (tmp_path / "a.md").write_text("# Hello\n" + WORDS * 40)
        (tmp_path / "b.txt").write_text(WORDS)

    def make_source(self) -> DocumentSource:
        return DocumentSource([self.folder])


class TestKnowledgeSource(ContextSourceContract):
    def make_source(self) -> KnowledgeSource:
        return KnowledgeSource({f"hello {at}": WORDS for at in range(30)})


class TestSchemaSource(ContextSourceContract):
    @pytest.fixture(autouse=True)
    def _database(self, tmp_path: Path) -> None:
        self.path = tmp_path / "hello.db"
        with closing(sqlite3.connect(self.path)) as database:
            for at in range(20):
                database.execute(f"CREATE TABLE hello_{at} (a INTEGER, b TEXT, c TEXT, d TEXT)")
            database.commit()

    def make_source(self) -> SchemaSource:
        return SchemaSource(self.path)


class TestLexicalRanker(RankerContract):
    def make_ranker(self) -> LexicalRanker:
        return LexicalRanker()
