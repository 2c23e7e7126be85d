"""Every regular expression of the package takes linear time, also on text made to hold it up."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2] / "src"
MODULES = sorted((ROOT / "plansmith").rglob("*.py"))
MAY_USE_PATTERNS = re.compile(
    r"\bimport re\b|lazy_pattern|\.(?:search|fullmatch|findall|finditer)\("
)
FUNCTIONS = {"sub", "subn", "match", "search", "fullmatch", "findall", "finditer", "split"}
ANCHORED = {"match", "fullmatch"}
LONGEST = 20_000
# These see only the beginning of a text, or texts of this length: their callers make sure of it.
SEES_AT_MOST = {"plansmith.adapters.models.local.answer_notes._PATTERNS": 400}
FEW = 30
MOST_TEXTS = 60
# Seconds of processor time that tell more than noise, and that need no longer text to be sure.
MEASURABLE = 0.000_3
ENOUGH = 0.1


class Found(NamedTuple):
    """A pattern with the place where it is made and the methods that use it."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


# -- every pattern of the package ----------------------------------------------------------------


def found_patterns() -> list[Found]:
    """Returns all patterns: those in globals, and those that calls such as `re.sub` are given."""
    by_pattern: dict[tuple[Any, int], Found] = {}
    inline: list[Found] = []
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not MAY_USE_PATTERNS.search(source):
            continue
        module, nodes = import_module(name), list(ast.walk(ast.parse(source)))
        inline += _inline(module, nodes)
        for found in _globals(module, _methods_by_name(nodes)):
            key = found.pattern.pattern, found.pattern.flags
            known = by_pattern.get(key, found)
            by_pattern[key] = known._replace(methods=known.methods | found.methods)
    for found in inline:
        by_pattern.setdefault((found.pattern.pattern, found.pattern.flags), found)
    return list(by_pattern.values())


def _methods_by_name(nodes: list[ast.AST]) -> dict[str, set[str]]:
    """Returns which methods a module uses of each name, and of any that is handed on ("")."""
    used: dict[str, set[str]] = {"": set()}
    called = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            used[""] |= {node.attr} - {"split"}  # which texts have too
            if isinstance(node.value, ast.Name):
                used.setdefault(node.value.id, set()).add(node.attr)
                called.add(node.value)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in called:
            used.setdefault(node.id, set()).update(used[""])
    return used


def _globals(module: ModuleType, used: dict[str, set[str]]) -> Iterator[Found]:
    for name, value in vars(module).items():
        if name.startswith("__"):
            continue
        for pattern, is_direct in _compiled(value, 4):
            methods = used.get(name, set()) if is_direct else used[""]
            yield Found(f"{module.__name__}.{name}", pattern, frozenset(methods))


def _compiled(value: object, depth: int) -> Iterator[tuple[re.Pattern[Any], bool]]:
    if isinstance(value, re.Pattern):
        yield value, True
    elif type(value).__name__ == "_Uncompiled":
        yield re.compile(*value._given), True  # type: ignore[attr-defined]
    elif depth and isinstance(value, (tuple, list, set, frozenset, dict)):
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        for each in inside:
            yield from ((pattern, False) for pattern, _ in _compiled(each, depth - 1))
    elif depth and isinstance(value, type) and value.__module__.startswith("plansmith"):
        for each in vars(value).values():
            yield from ((pattern, False) for pattern, _ in _compiled(each, 0))


def _inline(module: ModuleType, nodes: list[ast.AST]) -> Iterator[Found]:
    values = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[first, *_]
            ) if method in FUNCTIONS | {"compile"}:
                given = _value(module, first, values)
                methods = {"search"} if method == "compile" else {method}
                if isinstance(given, re.Pattern):
                    continue
                if isinstance(given, (str, bytes)):
                    pattern = re.compile(given, _flags(module, node))
                    yield Found(f"{module.__name__}:{node.lineno}", pattern, frozenset(methods))
                else:
                    print("UNRESOLVED", module.__name__, node.lineno, ast.unparse(first))
            case _:
                pass


def _flags(module: ModuleType, call: ast.Call) -> int:
    flags = re.NOFLAG
    for node in ast.walk(call):
        if isinstance(node, ast.Attribute) and isinstance(
            getattr(re, node.attr, None), re.RegexFlag
        ):
            flags |= getattr(re, node.attr)
    return flags


class _Plain(ast.NodeTransformer):
    """Puts a word in place of each part of an f-string that is known only when it runs."""

    def __init__(self, module: ModuleType, values: dict[str, ast.expr]) -> None:
        self.module = module
        self.values = values

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        value = _value(self.module, node.value, self.values)
        return ast.Constant(value if isinstance(value, str) else "word")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if ast.unparse(node.func) == "re.escape":
            return ast.Constant("word")
        return node


def _value(
    module: ModuleType, given: ast.expr, values: dict[str, ast.expr], depth: int = 5
) -> object:
    try:
        return eval(ast.unparse(given), vars(module))
    except Exception:
        if not depth:
            return None
    if isinstance(given, ast.Name) and given.id in values:
        return _value(module, values[given.id], values, depth - 1)
    if isinstance(given, (ast.JoinedStr, ast.BinOp, ast.Call)):
        plain = _Plain(module, values).visit(ast.parse(ast.unparse(given), mode="eval").body)
        return _value(module, ast.fix_missing_locations(plain), {}, 0)
    return None


# -- texts made to hold a pattern up -------------------------------------------------------------


def _example(tree: Any, turn: int = 0) -> str:
    """Returns a text that a part of a pattern matches, roughly; `turn` chooses among branches."""
    return "".join(_one(op, value, turn) for op, value in tree)


def _one(op: Any, value: Any, turn: int) -> str:
    match op:
        case ops.LITERAL:
            return chr(value)
        case ops.NOT_LITERAL:
            return "a" if value != ord("a") else "b"
        case ops.ANY:
            return "a"
        case ops.IN:
            return _member(value, turn)
        case ops.BRANCH:
            return _example(value[1][turn % len(value[1])], turn)
        case ops.SUBPATTERN:
            return _example(value[3], turn)
        case ops.ATOMIC_GROUP:
            return _example(value, turn)
        case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
            low, high, body = value
            return _example(body, turn) * max(low, min(1, int(high)))
        case ops.ASSERT:
            return _example(value[1], turn) if value[0] > 0 else ""
        case _:
            return ""


CLASSES = {
    "CATEGORY_DIGIT": "1",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_NOT_WORD": "-",
}


def _member(members: Any, turn: int) -> str:
    if members[0][0] is ops.NEGATE:
        tried = re.compile(_class_text(members))
        letters = [each for each in 'a1 -_.,中\n"{' if tried.match(each)] or ["é"]
        return letters[turn % len(letters)]
    op, value = members[turn % len(members)]
    if op is ops.CATEGORY:
        return CLASSES[str(value)]
    return chr(value[turn % 2]) if op is ops.RANGE else chr(value)


def _class_text(members: Any) -> str:
    signs = {
        "CATEGORY_DIGIT": r"\d",
        "CATEGORY_SPACE": r"\s",
        "CATEGORY_WORD": r"\w",
        "CATEGORY_NOT_DIGIT": r"\D",
        "CATEGORY_NOT_SPACE": r"\S",
        "CATEGORY_NOT_WORD": r"\W",
    }
    text = ""
    for op, value in members:
        if op is ops.NEGATE:
            text += "^"
        elif op is ops.CATEGORY:
            text += signs[str(value)]
        elif op is ops.RANGE:
            text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        else:
            text += re.escape(chr(value))
    return f"[{text}]"


def _repeats(tree: Any, before: str, turn: int) -> Iterator[tuple[str, str]]:
    """Yields each repeated part of a pattern as a text, with a text for what comes before it."""
    for op, value in tree:
        match op:
            case ops.BRANCH:
                for each in value[1]:
                    yield from _repeats(each, before, turn)
            case ops.SUBPATTERN:
                yield from _repeats(value[3], before, turn)
            case ops.ATOMIC_GROUP:
                yield from _repeats(value, before, turn)
            case ops.ASSERT | ops.ASSERT_NOT:
                yield from _repeats(value[1], before, turn)
            case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
                if int(value[1]) > FEW:
                    yield before, _example(value[2], turn)
                yield from _repeats(value[2], before, turn)
        before += _one(op, value, turn)


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Yields makers of texts: a repeated part of the pattern between what may come around it."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    units: dict[tuple[str, str], None] = {}
    for turn in range(3):
        for before, unit in _repeats(tree, "", turn):
            units |= {(before, unit): None, ("", before + unit): None}
        units["", _example(tree, turn)] = None
        units["", _example(list(tree)[:-1], turn)] = None
    if next(_repeats(tree, "", 0), None) is None:
        return  # what repeats nothing, or only a few times, is linear
    units |= dict.fromkeys(("", unit) for unit in (" ", "a", "1", "\n", "_a", "a ", "中"))
    fit = [(before, unit) for before, unit in units if 0 < len(unit) <= 100]
    for before, unit in fit[:: len(fit) // MOST_TEXTS + 1]:
        yield _text(before, unit, "\x01b")


def _text(before: str, unit: str, end: str) -> Callable[[int], str]:
    return lambda letters: before + unit * (letters // len(unit)) + end


# -- the measurement -----------------------------------------------------------------------------


def _seconds(found: Found, text: str, times: int = 1) -> float:
    given = text.encode() if isinstance(found.pattern.pattern, bytes) else text
    is_anchored = found.methods <= ANCHORED
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        if is_anchored:
            for method in found.methods:
                getattr(found.pattern, method)(given)
        else:
            for _ in found.pattern.finditer(given):
                pass
        best = min(best, time.process_time() - begun)
    return best


def is_slow(found: Found, text: Callable[[int], str]) -> bool:
    """Tells whether the time of a pattern grows faster than the text, up to the longest text."""
    if _seconds(found, text(26)) > MEASURABLE:  # exponential, unless something else took the time
        return _seconds(found, text(26), 3) > MEASURABLE
    longest = SEES_AT_MOST.get(found.place, LONGEST)
    letters = min(1_000, longest)
    short, long = _seconds(found, text(letters // 10)), _seconds(found, text(letters))
    if long < MEASURABLE or long < 25 * short:
        return False
    while letters < longest:
        before, letters = letters, letters * 2
        if any(_ratio(found, text(letters), text(before)) < 3.2 for _ in range(3)):
            return False
        if _seconds(found, text(letters)) > ENOUGH:
            return True
    return longest == LONGEST


def _ratio(found: Found, long: str, short: str) -> float:
    return _seconds(found, long, 2) / _seconds(found, short, 2)


def slow_text(found: Found) -> str:
    """Returns the beginning of a text that a pattern is slow on; empty if there is none."""
    return next((text(60) for text in hostile_texts(found.pattern) if is_slow(found, text)), "")


def test_every_pattern_is_linear() -> None:
    found = found_patterns()
    assert len(found) > 300
    slow = {each.place: text for each in found if (text := slow_text(each))}
    assert slow == {}
