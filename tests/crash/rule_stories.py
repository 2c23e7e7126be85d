"""Stories with conditions, repeats, collected errors and undoing, and the world they act in."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from plansmith import Effect, Plan, ToolSpec
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.ports import Call

Step = dict[str, Any]
LONG_PAUSE_S = 600


class Story(NamedTuple):
    """The steps of a plan, the templates it uses, and what a person answers to its questions.

    `parameters` are those of its templates, with their places.
    """

    steps: list[Step]
    templates: dict[str, list[Step]] = {}
    parameters: dict[str, list[str]] = {}
    answers: dict[str, Json] = {}

    def plan(self, *more: Step) -> Plan:
        """The plan of the story, with further steps."""
        return Plan.model_validate({"goal": "test", "steps": [*self.steps, *more]})


class Shop:
    """The world outside: one line a call that acts, in a file that outlives every process."""

    effects = {
        **dict.fromkeys(("stock", "poll", "part", "fail"), Effect.READ),
        **dict.fromkeys(("order", "cancel", "press", "release", "pay"), Effect.WRITE),
    }
    keyed = frozenset({"press", "release"})

    def __init__(self, path: Path) -> None:
        self._path = path

    async def tools(self) -> Sequence[ToolSpec]:
        """Reads, changes, and changes with a key."""
        return [
            ToolSpec(name=name, effect=effect, idempotent=name in self.keyed)
            for name, effect in self.effects.items()
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Answers by what was asked alone, so that whoever asks again is told the same."""
        number = [part for part in call.key.split("/")[:-1] if part.isdigit()][-1:]
        place = int(number[0]) if number else 0
        match tool:
            case "stock":
                return {"count": 7}
            case "poll":
                return {"state": "open" if place < 3 else "shipped"}
            case "part" | "pay" if arguments["x"] == 2:
                raise ToolFailed("no two")
            case "part":
                return cast("int", arguments["x"]) * 10
            case "fail":
                raise ToolFailed("never")
            case "press":
                self._write(tool, arguments, call)
                return {"n": place, "id": f"p{place}"}
            case _:
                self._write(tool, arguments, call)
                return {"id": f"o{arguments.get('x')}"}

    def _write(self, tool: str, arguments: Mapping[str, Json], call: Call) -> None:
        line = f"{_deed(tool, arguments)}\t{call.key}\n".encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line)
        os.close(descriptor)

    def happened(self, tool: str, arguments: Mapping[str, Json]) -> bool:
        """Tells what a person who looks would see."""
        return _deed(tool, arguments) in self.deeds()

    def deeds(self) -> Counter[str]:
        """How often each thing was done; a key that comes again does nothing."""
        if not self._path.exists():
            return Counter()
        lines = [line.split("\t") for line in self._path.read_text().splitlines()]
        keyed = {(deed, key) for deed, key in lines if deed.split()[0] in self.keyed}
        plain = Counter(deed for deed, _ in lines if deed.split()[0] not in self.keyed)
        return plain + Counter(deed for deed, _ in keyed)


def _deed(tool: str, arguments: Mapping[str, Json]) -> str:
    return f"{tool} {json.dumps(arguments, sort_keys=True)}"


def order(name: str, x: Json, **rules: Any) -> Step:
    """A change without a key, which can be taken back."""
    undo = {"tool": "cancel", "inputs": {"x": x}}
    return {"id": name, "tool": "order", "inputs": {"x": x}, "undo_with": undo, **rules}


def press(name: str, most: int, **more: Any) -> Step:
    """A change with a key, in rounds; each round can be taken back by what it returned."""
    repeat = {"until": {"at_least": [f"{{{{{name}.n}}}}", 3]}, "at_most": most, **more}
    undo = {"tool": "release", "inputs": {"id": f"{{{{{name}.id}}}}"}}
    return {"id": name, "tool": "press", "repeat": repeat, "undo_with": undo}


def poll(most: int, **more: Any) -> Step:
    """A read in rounds; its third round is the last."""
    until = {"equals": ["{{poll.state}}", "shipped"]}
    return {"id": "poll", "tool": "poll", "repeat": {"until": until, "at_most": most, **more}}


STOCK: Step = {"id": "stock", "tool": "stock"}
LOW = {"below": ["{{stock.count}}", 10]}
HIGH = {"not": LOW}
ITEM: Step = {"tool": "part", "inputs": {"x": "{{item}}"}}
PAY: Step = {
    "tool": "pay",
    "inputs": {"x": "{{item}}"},
    "undo_with": {"tool": "cancel", "inputs": {"x": "{{item}}"}},
}
# A step that fails for good, so that a model is asked for another plan.
FAILING: Step = {"id": "failing", "tool": "fail"}
BOUGHT: list[Step] = [
    STOCK,
    order("few", 0, when=LOW),
    order("many", 50, when=HIGH, otherwise={"value": {"id": "none"}}),
    {"id": "tell", "say": "{{stock.count}} {{many.id}}", "after": ["few"]},
]

STORIES: dict[str, Story] = {
    "a condition that holds": Story(
        [STOCK, order("a", 1, when=LOW), order("b", 2, after=["a"]), order("c", 3, when=HIGH)]
    ),
    "branches that join, a value for a skipped step, and an answer that decides": Story(
        [
            STOCK,
            {"id": "sure", "question": "Two more?", "options": ["yes", "no"]},
            order("a", 1, when=HIGH, otherwise={"value": {"id": "none"}}),
            order("b", 2, when={"equals": ["{{sure}}", "yes"]}),
            order("c", 3, when={"equals": ["{{sure}}", "no"]}),
            {"id": "told", "say": "{{a.id}}"},
            {"id": "joined", "tool": "stock", "inputs": {"of": {"$first": ["{{c}}", "{{sure}}"]}}},
        ],
        answers={"sure": "yes"},
    ),
    "rounds at once": Story([poll(5), order("a", 1, after=["poll"])]),
    "rounds with long pauses": Story(
        [poll(5, every=LONG_PAUSE_S), order("a", 1, when={"not": {"empty": "{{poll.state}}"}})]
    ),
    "rounds of a keyed change": Story([press("press", 4, every=LONG_PAUSE_S), order("a", 1)]),
    "rounds that never end well": Story(
        [
            {**poll(2, every=LONG_PAUSE_S), "on_error": "skip"},
            order("a", 1),
            order("b", 2, after=["poll"]),
            {"id": "told", "say": "{{poll.state}}, after {{stock.count}}"},
            STOCK,
        ]
    ),
    "collected errors of changes": Story(
        [
            {"id": "all", "over": [1, 2, 3], "each": PAY, "on_error": "collect", "width": 2},
            {"id": "told", "say": "{{all[1].error.message}}"},
            order("a", 9, after=["all"]),
        ]
    ),
    "items that are skipped and retried": Story(
        [
            {
                "id": "all",
                "over": [1, 2, 3, 4],
                "each": PAY
                | {
                    "on_error": "skip",
                    "retry": {"at_most": 1, "every": LONG_PAUSE_S},
                    "when": {"not_equals": ["{{item}}", 4]},
                },
            }
        ]
    ),
    "rounds of a list and of each of its items": Story(
        [
            {
                "id": "all",
                "over": ["x", "y"],
                "width": 1,
                "each": {**press("press", 4), "inputs": {"of": "{{item}}"}},
                "repeat": {
                    "until": {"equals": ["{{all[1].n}}", 3]},
                    "at_most": 2,
                    "every": LONG_PAUSE_S,
                },
            },
        ]
    ),
    "a template with rules that is repeated": Story(
        [
            {
                "id": "buy",
                "template": "watch",
                "repeat": {"until": {"equals": ["{{buy.look.state}}", "shipped"]}, "at_most": 3},
            },
            order("a", 1, when={"equals": ["{{buy.few}}", "none"]}),
            {"id": "told", "say": "{{buy.press.id}}"},
        ],
        templates={
            "watch": [
                STOCK,
                {"id": "look", "tool": "poll"},
                {"id": "few", "tool": "stock", "when": HIGH, "otherwise": {"value": "none"}},
                {
                    "id": "press",
                    "tool": "press",
                    "undo_with": {"tool": "release", "inputs": {"id": "{{press.id}}"}},
                },
            ]
        },
    ),
    "templates for the items of a list": Story(
        [
            {
                "id": "all",
                "over": [1, 2, 3],
                "each": {
                    "template": "buy",
                    "inputs": {"x": "{{item}}"},
                    "when": {"not_equals": ["{{item}}", 3]},
                },
                "on_error": "collect",
            },
            {**order("a", 9), "when": {"equals": [{"length": "{{all}}"}, 2]}},
        ],
        templates={"buy": BOUGHT},
        parameters={"x": ["few.inputs.x", "few.undo_with.inputs.x"]},
    ),
}
