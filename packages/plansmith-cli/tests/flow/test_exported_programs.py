"""A plan that was written as a program gives the results that the runner gives."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.exported import ROOT, as_program, environment, plan_of, with_runner, written

from plansmith.plan.data import Json

Steps = list[dict[str, Any]]
NASTY = 'a"b\'c\\ """ \'\'\' {x} %s \n#!\u202e\u2028\0 {{"{{"}} 查天气 🜁'


def echo(step: str, value: Json = None, **more: Any) -> dict[str, Any]:
    return {"id": step, "tool": "echo", "inputs": {"value": value}, **more}


def number(step: str, value: Json, **more: Any) -> dict[str, Any]:
    return {"id": step, "tool": "number", "inputs": {"value": value}, **more}


def inner(value: Json, **more: Any) -> dict[str, Any]:
    return {"tool": "number", "inputs": {"value": value}, **more}


FIVE = {"until": {"at_least": ["{{r.count}}", 5]}, "at_most": 9}
SIX = {"until": {"at_least": ["{{s.count}}", 6]}, "at_most": 2}
NEVER = {"until": {"equals": ["{{t}}", "x"]}, "at_most": 3}
BOTH = {"any": [{"in": [3, [1, 2]]}, {"equals": [1, 1]}]}
V: dict[str, Json] = {"t": "x{{y}}", "n": 1.0, "b": True, "o": {"b": 1, "a": [None, "é"]}, "": 0}
PLANS: dict[str, Steps] = {
    "chain": [echo("a", {"k": [1, {"x": "y"}]}), echo("b", "{{a.k[1].x}}"), echo("c", "{{b}}!")],
    "fan": [echo("a", 1), *(echo(f"f{n}", "{{a}}") for n in range(5)), echo("z", ["{{f0}}"])],
    "map": [
        {"id": "m", "over": [1, 3], "each": inner("{{item}}"), "width": 1},
        {"id": "bad", "over": [1, 2, 3], "each": inner("{{item}}")},
        {"id": "all", "over": [1, 2], "each": inner("{{item}}"), "on_error": "collect"},
        {"id": "out", "over": [1, 2, 3], "each": inner("{{item}}", on_error="skip")},
        {"id": "own", "over": [4, 5], "each": inner(1, when={"equals": ["{{item}}", 4]})},
        echo("one", 1),
        {"id": "none", "over": "{{one}}", "each": inner("{{item}}")},
        echo("after", "{{bad}}"),
    ],
    "branches": [
        echo("a", {"count": 3}),
        echo("low", "low", when={"below": ["{{a.count}}", 3]}),
        echo("high", "high", when={"not": {"below": ["{{a.count}}", 3]}}),
        echo("one", {"$first": ["{{low}}", "{{high}}"]}),
        echo("need", "{{low}}"),
        echo("instead", "{{low}}", otherwise={"value": {"no": None}}),
        echo("on", "{{instead}}"),
        echo("late", 1, after=["low"]),
        {"id": "r", "instruction": "{{low}} {{high}}", "style": "exact"},
        {"id": "gone", "instruction": "only {{low}}", "style": "exact"},
    ],
    "rounds": [
        {"id": "r", "tool": "rising", "inputs": {"name": "r"}, "repeat": FIVE},
        {"id": "s", "tool": "rising", "inputs": {"name": "s"}, "repeat": SIX},
        echo("t", 1, repeat=NEVER, on_error="collect"),
        {
            "id": "m",
            "over": ["p", "q"],
            "each": {
                "id": "in",
                "tool": "rising",
                "inputs": {"name": "{{item}}"},
                "repeat": {"until": {"equals": ["{{in.count}}", 2]}, "at_most": 3},
            },
        },
    ],
    "failures": [
        {"id": "f", "tool": "broken", "inputs": {"name": "f"}},
        {"id": "v", "tool": "broken", "on_error": {"value": [1]}},
        {"id": "s", "tool": "broken", "on_error": "skip"},
        {"id": "c", "tool": "broken", "on_error": "collect", "retry": {"at_most": 2}},
        {"id": "b", "tool": "busy", "inputs": {"name": "b"}},
        {"id": "nan", "tool": "odd", "on_error": "collect"},
        echo("path", "{{v[0].deep}}", on_error="collect"),
        echo("far", "{{c.error.missing}}", on_error="collect"),
        echo("word", "text"),
        number("kind", "{{word}}", on_error="collect"),
        echo("unlike", 1, when={"below": ["{{v}}", 3]}, on_error="collect"),
        echo("length", 1, when={"empty": "{{v[0]}}"}, on_error="collect"),
        echo("after", "{{f}}"),
        echo("tail", "{{after}}", otherwise={"value": 1}),
        echo("use", "{{c.error.message}} {{s}}", otherwise={"value": "skipped"}),
    ],
    "conditions": [
        echo("v", {"n": 1, "t": "abc", "l": [1, "x"], "o": {"k": None}}),
        *(
            echo(f"c{place}", place, when=when)
            for place, when in enumerate(
                [
                    {"equals": ["{{v.n}}", 1.0]},
                    {"not_equals": ["{{v.o.k}}", 0]},
                    {"at_most": ["{{v.t}}", "abd"]},
                    {"above": ["{{v.n}}", 0.5]},
                    {"in": ["x", "{{v.l}}"]},
                    {"contains": ["{{v.o}}", "k"]},
                    {"contains": ["{{v.t}}", "bc"]},
                    {"empty": "{{v.o.k}}"},
                    {"equals": [{"length": "{{v.l}}"}, 2]},
                    {"equals": ["{{v.o}}", {"$literal": {"k": None}}]},
                    {"all": [{"empty": "{{v.o.k}}"}, BOTH]},
                    {"not": {"all": [{"equals": [1, 1]}, {"not": {"equals": [1, 2]}}]}},
                    {"any": [{"equals": [1, 1]}, {"below": ["{{v.l}}", 1]}]},
                ]
            )
        ),
    ],
    "texts": [
        echo("v", {"$literal": V}),
        echo("a", 't: {{v.t}}, n: {{v.n}}, b: {{v.b}}, o: {{v.o}} {{"{{"}} {{v[""]}}'),
        echo("l", {"$literal": {"$from": "v"}}),
        echo("d", {"deep": [{"x": "{{v.o.a[1]}}"}, {"$from": "v", "$path": ["o", "a", 0]}]}),
        {"id": "w", "instruction": "{{v.n}}: {{v.t}}"},
        {"id": "e", "instruction": NASTY + " {{v.t}}", "style": "exact"},
    ],
    "odd names": [
        echo("of", 1), echo("class", 2), echo("2-a", 3), echo("2_a", 4), echo("main", "{{2-a}}"),
        {"id": "v", "over": ["{{of}}"], "each": echo("step", "{{item}}", title=NASTY)},
    ],
    "off": [
        echo("a", 1),
        echo("b", "{{a}}", disabled=True),
        echo("c", 3, after=["b"]),
        number("x", 2),
        echo("y", 1, after=["x"], disabled=True),
        echo("z", 1, after=["y"]),
    ],
    "hostile values": [
        echo("a", NASTY, title='"""\nimport os\nos._exit(9)\n"""', why="'''"),
        echo("b", {NASTY: [NASTY, "{{a}}" + NASTY]}),
        echo("c", 10**30),
        echo("d", [-0.0, 1e300, None, True, ""]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
async def test_a_program_ends_as_the_runner_does(name: str, tmp_path: Path) -> None:
    plan = plan_of(*PLANS[name], goal=NASTY)
    ours = await with_runner(plan, tmp_path)
    theirs = as_program(plan, tmp_path)
    assert theirs == ours
    # The same result is also the same JSON: 1, 1.0 and true are three values.
    assert json.dumps(theirs, sort_keys=True) == json.dumps(ours, sort_keys=True)


ASKING: Steps = [
    {"id": "go", "question": "Order?", "options": ["yes", "no"]},
    {"id": "buy", "tool": "shop.order", "inputs": {"name": "bolt"}, "after": ["go"]},
    echo("seen", "{{buy.at}}"),
    {"id": "how", "question": "How many of {{free}}?", "answer_schema": {"type": "integer"}},
    echo("many", "{{how}}"),
    echo("free", "bolts"),
    {"id": "end", "instruction": "{{many}} {{go}}", "style": "exact"},
]


@pytest.mark.parametrize("word", ["yes", "no"])
async def test_after_a_no_what_acts_is_left_out_of_a_program_too(word: str, tmp_path: Path) -> None:
    plan = plan_of(*ASKING)
    answers: dict[str, Json] = {"go": word, "how": 3}
    ours = await with_runner(plan, tmp_path, answers=answers)
    (tmp_path / "effects.txt").unlink(missing_ok=True)
    assert as_program(plan, tmp_path, answers=answers) == ours
    made = (tmp_path / "effects.txt").exists()
    assert made == (word == "yes")
    assert ours.not_run == ([] if made else ["buy", "end", "go", "seen"])


INNER = plan_of(
    {"id": "ask", "question": "Really {{params.name}}?"},
    {"id": "buy", "tool": "shop.order", "inputs": {"name": "{{params.name}}"}, "after": ["ask"]},
    {"id": "list", "over": "{{params.all}}", "each": inner("{{item}}"), "on_error": "skip"},
    {"id": "deep", "template": "leaf", "inputs": {"value": "{{list}}"}, "otherwise": {"value": 0}},
)
LEAF = plan_of(echo("e", "{{params.value}}"), echo("f", "{{e}}", when={"equals": [1, 2]}))


async def test_templates_are_written_into_a_program(tmp_path: Path) -> None:
    templates = {"inner": INNER, "leaf": LEAF}
    plan = plan_of(
        {"id": "good", "template": "inner", "inputs": {"name": "a", "all": [1, 3]}},
        {"id": "left", "template": "inner", "inputs": {"name": "b", "all": [1, 2]}},
        {
            "id": "each",
            "over": ["p", "q"],
            "each": {"id": "t", "template": "leaf", "inputs": {"value": "{{item}}"}},
        },
        echo("use", "{{each[1].e}}"),
        echo("after", "{{left.list}}"),
    )
    answers = {"good/ask": "yes", "left/ask": "no, never"}
    ours = await with_runner(plan, tmp_path, answers=answers, templates=templates)
    assert as_program(plan, tmp_path, answers=answers, templates=templates) == ours
    assert (ours.not_run, ours.results["use"]) == (["after", "left"], "q")


def test_a_question_is_asked_on_the_terminal_until_the_answer_fits(tmp_path: Path) -> None:
    program = written(plan_of(*ASKING), tmp_path)
    (tmp_path / "program.py").write_text(program.source, encoding="utf-8")
    done = forked.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment(),
        input="perhaps\nyes\nmany\n3\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'perhaps' is not one of yes, no" in done.stderr
    assert "'many' is no integer" in done.stderr
    assert json.loads(done.stdout)["results"]["end"] == "3 yes"


def test_a_secret_comes_from_the_environment_and_is_taken_out_of_results(tmp_path: Path) -> None:
    plan = plan_of(echo("a", "Bearer ${secret:shop}!"))
    program = written(plan, tmp_path)
    assert program.notes == ("the secret shop is read from the environment: SHOP_KEY",)
    (tmp_path / "program.py").write_text(program.source, encoding="utf-8")
    said = ""
    for value, wanted in (('s3cr"et\n', "Bearer ${secret:shop}!"), ("", None)):
        done = forked.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**environment(), "SHOP_KEY": value},
            capture_output=True,
            text=True,
            check=False,
        )
        assert json.loads(done.stdout)["results"].get("a") == wanted
        said = done.stderr
    assert "set SHOP_KEY" in said


def test_what_a_plan_says_is_only_ever_a_value_in_a_program(tmp_path: Path) -> None:
    bad = '"""\nraise SystemExit(9)\n"""'
    steps = [
        echo("a", bad, title=bad, when={"equals": [bad, bad]}, otherwise={"value": {bad: bad}}),
        {"id": "q", "question": bad, "options": [bad]},
        {"id": "r", "instruction": bad + "{{a}}"},
        {"id": "t", "tool": bad, "inputs": {bad: bad}},
        {"id": "g", "agent": bad, "task": bad + "{{a}}"},
    ]
    tree = ast.parse(written(plan_of(*steps, goal=bad), tmp_path).source)
    made = [ast.unparse(each) for each in ast.walk(tree) if isinstance(each, ast.Call)]
    assert "SystemExit(9)" not in made


def test_a_program_says_what_is_to_be_filled_in(tmp_path: Path) -> None:
    plan = plan_of(
        {"id": "t", "tool": "mail.send", "inputs": {"to": "x"}},
        {"id": "g", "agent": "writer", "task": "write"},
        {"id": "r", "instruction": "Tell about {{t}}"},
    )
    program = written(plan, tmp_path)
    assert program.notes == (
        "fill in tool_mail_send: the code of mail.send is not known",
        "fill in agent_writer: it stands for the agent writer",
        "fill in write_text: no model words the text of r in the program",
    )
    assert as_program(plan, tmp_path).failed == ["t", "g"]
    assert str(ROOT) not in program.source.replace(str(tmp_path), "")
