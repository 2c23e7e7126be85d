"""Counts the lines of a program that hold code: no blank lines, comments or docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(path: Path) -> int:
    """Returns how many lines of a program hold code, as they are formatted in the file."""
    text = path.read_text(encoding="utf-8")
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - _docstrings(ast.parse(text)))


def _docstrings(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found
