"""Every regular expression of the package takes linear time, also on text made to hold it up."""

from __future__ import annotations

import ast
import re
import string
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

compiler, ops, parser = map(import_module, ("re._compiler", "re._constants", "re._parser"))

ROOT = Path(__file__).parents[2] / "packages"
MODULES = sorted(ROOT.glob("*/src/**/*.py"))
MAY_USE_PATTERNS = re.compile(
    r"\bimport re\b|lazy_pattern|\.(?:search|fullmatch|findall|finditer)\("
)
FUNCTIONS = {"sub", "subn", "match", "search", "fullmatch", "findall", "finditer", "split"}
ANCHORED = {"match", "fullmatch"}
# Handed on in a module that also searches with others, but only to be matched at one place.
ONLY_MATCHED = {"ANOTHER_FIELD", "BARE_KEY", "BARE_VALUE", "QUOTED_KEY", "WORD_KEY", "STRUCTURE"}
MAX_LENGTH = 20_000
# Whoever calls these makes sure that they see no longer texts.
SEES_AT_MOST = {"plansmith_cli.parser pattern": 400}
FEW = 30
MAX_TEXTS = 6
# Seconds of processor time: what a few hundred letters never take, what is surely linear, and what
# is surely not.
EXPONENTIAL = 0.02
QUICK = 0.001
HELD_UP = 0.25
# Four times the letters take 4 times as long in linear time, 16 times in quadratic.
GROWS = 8


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
    elsewhere = _methods_by_attribute()
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts[2:]).removesuffix(".__init__")
        if not MAY_USE_PATTERNS.search(source):
            continue
        module, nodes = import_module(name), [*ast.walk(ast.parse(source))]
        inline += _inline(module, nodes)
        for found in _globals(module, _methods_by_name(nodes)):
            more = found.methods | elsewhere.get(found.place.rpartition(".")[2], set())
            key = found.pattern.pattern, found.pattern.flags
            known = by_pattern.get(key, found)
            by_pattern[key] = known._replace(methods=known.methods | more)
    for found in inline:
        by_pattern.setdefault((found.pattern.pattern, found.pattern.flags), found)
    return [*by_pattern.values()]


def _methods_by_attribute() -> dict[str, set[str]]:
    """Returns which methods are used of patterns of other modules: `signs.COLON.match(…)`."""
    used: dict[str, set[str]] = {}
    uses = re.compile(r"\b[a-z_]+\.([A-Z_]{3,60})\.([a-z]+)\(")
    for path in MODULES:
        for name, method in uses.findall(path.read_text(encoding="utf-8")):
            used.setdefault(name, set()).update({method} & FUNCTIONS)
    return used


def _methods_by_name(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
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


def _globals(module: ModuleType, used: Mapping[str, set[str]]) -> Iterator[Found]:
    for name, value in vars(module).items():
        if not name.startswith("__"):
            for pattern, is_direct in _compiled(value, 4):
                methods = used.get(name, set()) if is_direct else used[""]
                methods = {"match"} if name in ONLY_MATCHED else methods
                yield Found(f"{module.__name__}.{name}", pattern, frozenset(methods))


def _compiled(value: object, depth: int) -> Iterator[tuple[re.Pattern[Any], bool]]:
    inside: Iterable[object] = ()
    if isinstance(value, re.Pattern):
        yield value, True
    elif make := vars(value).get("_make") if hasattr(value, "__dict__") else None:
        if type(value).__module__ == "plansmith.lazy":
            yield from _compiled(make(), depth)
    elif isinstance(value, dict):
        inside = [*value, *value.values()]
    elif isinstance(value, (tuple, list, set, frozenset)):
        inside = value
    for each in inside if depth else ():
        yield from ((pattern, False) for pattern, _ in _compiled(each, depth - 1))


def _inline(module: ModuleType, nodes: Iterable[ast.AST]) -> Iterator[Found]:
    """Yields the patterns that calls such as `re.sub` are given, as far as globals tell them."""
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[first, *_]
            ) if method in FUNCTIONS | {"compile"}:
                source = ast.unparse(first)
                try:
                    given = eval(source, vars(module))
                except (NameError, SyntaxError):
                    continue  # made of what is known only when it runs
                flags = (getattr(re, getattr(e, "attr", ""), 0) for e in ast.walk(node))
                known = {flag for flag in flags if isinstance(flag, re.RegexFlag)}
                pattern = re.compile(given, sum(known, re.NOFLAG))
                yield Found(f"{module.__name__} {source}", pattern, frozenset({method}))
            case _:
                pass


# -- texts made to hold a pattern up -------------------------------------------------------------

LETTERS = 'a1 -_.,中\n"{' + string.printable


def _example(tree: Iterable[Any], turn: int = 0) -> str:
    """Returns a text that a part of a pattern matches, roughly; `turn` chooses among branches."""
    return "".join(_one(op, value, turn) for op, value in tree)


def _one(op: Any, value: Any, turn: int) -> str:
    match op:
        case ops.LITERAL:
            return chr(value)
        case ops.NOT_LITERAL | ops.ANY | ops.IN:
            letters = _letters(op, tuple(value) if op is ops.IN else value)
            return letters[turn % len(letters)]
        case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
            times: int = max(value[0], min(1, int(value[1])))
            return _example(value[2], turn) * times
        case ops.ASSERT if value[0] < 0:
            return ""
        case ops.BRANCH | ops.SUBPATTERN | ops.ATOMIC_GROUP | ops.ASSERT:
            parts = _parts(op, value)
            return _example(parts[turn % len(parts)], turn)
        case _:
            return ""


@cache
def _letters(op: Any, value: Any) -> list[str]:
    """Returns the letters that one place of a pattern matches."""
    place = compiler.compile(parser.SubPattern(parser.State(), [(op, value)]))
    return [each for each in LETTERS if place.match(each)] or ["é"]


def _parts(op: Any, value: Any) -> Sequence[Any]:
    match op:
        case ops.BRANCH:
            parts: Sequence[Any] = value[1]
            return parts
        case ops.SUBPATTERN:
            return [value[3]]
        case ops.ATOMIC_GROUP:
            return [value]
        case ops.ASSERT | ops.ASSERT_NOT:
            return [value[1]]
        case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
            return [value[2]]
        case _:
            return ()


def _repeats(tree: Iterable[Any], before: str, turn: int) -> Iterator[tuple[str, str]]:
    """Yields each part that may be repeated often as a text, and a text for what is before it."""
    for op, value in tree:
        is_repeat = op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
        if is_repeat and int(value[1]) > FEW:
            yield before, _example(value[2], turn)
        for part in _parts(op, value):
            yield from _repeats(part, before, turn)
        before += _one(op, value, turn)


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Yields makers of texts: a repeated part of the pattern between what may come around it."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    if next(_repeats(tree, "", 0), None) is None:
        return  # what repeats nothing, or only a few times, is linear
    units = dict.fromkeys(_repeats(tree, "", 0))
    units |= dict.fromkeys(("", before + unit) for before, unit in units)
    units |= dict.fromkeys(("", unit) for unit in (" ", "a", "1", "\n"))
    for turn in range(3):
        units |= {("", _example(tree, turn)): None, ("", _example([*tree][:-1], turn)): None}
    fit = [(before, unit) for before, unit in units if 0 < len(unit) <= 100]
    # A space is what several parts of a pattern take: behind each beginning it is always tried.
    spaces = [each for each in fit if each[0] and not each[1].strip()]
    for before, unit in dict.fromkeys([*spaces, *fit[:: len(fit) // MAX_TEXTS + 1]]):
        yield _text(before, unit)


def _text(before: str, unit: str) -> Callable[[int], str]:
    return lambda letters: before + unit * (letters // len(unit)) + "\x01b"


# -- the measurement -----------------------------------------------------------------------------


def _seconds(found: Found, text: str) -> float:
    """Returns the processor time of this thread that a pattern takes on a text."""
    given = text.encode() if isinstance(found.pattern.pattern, bytes) else text
    begun = time.thread_time()
    if found.methods and found.methods <= ANCHORED:
        for method in found.methods:
            getattr(found.pattern, method)(given)
    else:
        for _ in found.pattern.finditer(given):
            pass
    return time.thread_time() - begun


def is_slow(found: Found, text: Callable[[int], str]) -> bool:
    """Tells whether a pattern holds a loop up on a text of the longest length, or long before."""
    if found.place in SEES_AT_MOST:
        return _is_over(found, text(SEES_AT_MOST[found.place]), HELD_UP)
    # Small steps where each may take many times as long.
    few = range(40, 241, 20) if _may_be_exponential(found.pattern) else (240,)
    if any(_is_over(found, text(letters), EXPONENTIAL) for letters in few):
        return True
    short, long = text(MAX_LENGTH // 8), text(MAX_LENGTH // 2)
    # In cubic time the short text takes a minute: shorter ones show it.
    if any(_is_over(found, text(MAX_LENGTH // part), HELD_UP) for part in (32, 24, 16, 8)):
        return True
    if not _is_over(found, short, QUICK):
        return False  # even in quadratic time, the longest text takes 64 times as long
    return all(_seconds(found, long) / _seconds(found, short) > GROWS for _ in range(3))


@cache
def _may_be_exponential(pattern: re.Pattern[Any]) -> bool:
    """Tells whether a pattern repeats what itself can match a text in several ways."""
    return _has_choices(parser.parse(pattern.pattern, pattern.flags), is_repeated=False)


def _has_choices(tree: Iterable[Any], *, is_repeated: bool) -> bool:
    repeats = (ops.MAX_REPEAT, ops.MIN_REPEAT)
    return any(
        (is_repeated and op in (*repeats, ops.BRANCH))
        or any(
            _has_choices(part, is_repeated=is_repeated or op in repeats)
            for part in _parts(op, value)
        )
        for op, value in tree
    )


def _is_over(found: Found, text: str, limit: float) -> bool:
    """Tells whether a pattern takes longer than a limit each time; noise is over it once."""
    return all(_seconds(found, text) > limit for _ in range(2))


def slow_text(found: Found) -> str:
    """Returns the beginning of a text that a pattern is slow on; empty if there is none."""
    return next((text(60) for text in hostile_texts(found.pattern) if is_slow(found, text)), "")


def test_every_pattern_takes_linear_time() -> None:
    found = found_patterns()
    assert len(found) > 400
    slow = {each.place: (each.pattern.pattern, text) for each in found if (text := slow_text(each))}
    assert slow == {}


SLOW = (
    r"\s+x",
    r"(?:(?:start(?: it)?|it)[\s,]*)+",
    r"(?:count|sum|total)(?:_(.+)|\s*\(\s*\"?([^\"]*?)\"?\s*\))?",
)


def test_slow_patterns_are_found() -> None:
    for each in SLOW:
        method = "fullmatch" if each.startswith("(?:") else "search"
        assert slow_text(Found("here", re.compile(each, re.DOTALL), frozenset({method}))), each
