"""How much of what is put wrong in published plans check and lint find, and their false alarms."""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from plansmith import Plan, Problem
from plansmith.check.check_plan import check_plan
from plansmith.check.lint import lint_plan
from plansmith.plan.capability import Effect, ToolSpec, tool_spec
from plansmith.plan.graph import upstream
from plansmith.plan.problem import Severity
from plansmith_planner.autofix import autofix

RESULT = Path(__file__).parent / "results" / "lint.md"
SETS = (
    "acebench_parallel_en",
    "acebench_parallel_zh",
    "appbench",
    "bfcl_parallel",
    "livemcp",
    "nestful",
    "restbench",
    "sealtools",
    "tau2",
    "ultratool_en",
    "ultratool_zh",
    "worfbench",
)
PLACEHOLDER = re.compile(r"<[^<>]+>|\$[\w.]+\$|API_call_\d+")
Tools = dict[str, ToolSpec]
Step = dict[str, Any]


@dataclass
class Case:
    """A plan as plain JSON, with the tools it may use."""

    id: str
    steps: list[Step]
    tools: Tools
    agents: list[str]
    gold: list[Step] = field(default_factory=list)
    max_steps: int | None = None
    before: set[tuple[object, ...]] = field(default_factory=set)

    def plan(self) -> Plan:
        """The plan."""
        return Plan.model_validate({"goal": self.id, "steps": self.steps})

    def calls(self) -> list[Step]:
        """The steps of the gold plan, without the reply."""
        return [step for step in self.steps if step["id"] != "reply"]


@cache
def catalogue(folder: Path, name: str) -> Tools:
    """The tools of a catalogue by name."""
    text = (folder / "catalogues" / f"{name}.jsonl").read_text(encoding="utf-8")
    specs = [tool_spec(json.loads(line)) for line in text.rstrip().split("\n")]
    return {spec.name: spec for spec in specs}


def cases(folder: Path, name: str) -> Iterator[Case]:
    """The sound gold plans of a set."""
    text = (folder / "planning" / f"{name}.jsonl").read_text(encoding="utf-8")
    for row in map(json.loads, text.rstrip().split("\n")):
        if row["gold_steps"] and not row.get("gold_issues"):
            yield convert(row, folder)


def convert(row: dict[str, Any], folder: Path) -> Case:
    """A gold row as a plan of ours: references as references, and a reply to what comes out.

    A placeholder of unknown origin is a parameter. Where the authors give no arguments, each
    `after` is taken for a need of data, and the tools' schemas are left out; where they give
    no tool, the step is a task for an agent.
    """
    listed = row.get("tools")
    if listed and isinstance(listed[0], dict):
        tools = {each["name"]: tool_spec(each) for each in listed}
    else:
        tools = catalogue(folder, row["catalogue"]) if row.get("catalogue") else {}
    if any(step["args"] is None for step in row["gold_steps"]):
        names = {step["tool"] for step in row["gold_steps"] if step["tool"]}
        tools = {name: ToolSpec(name=name) for name in names}
    steps = [converted(step) for step in row["gold_steps"]]
    followed = {need for step in steps for need in step["after"]}
    ends = " ".join(f"{{{{{step['id']}}}}}" for step in steps if step["id"] not in followed)
    steps.append({"id": "reply", "instruction": f"Answer from {ends}"})
    return Case(row["id"], steps, tools, ["worker"], gold=row["gold_steps"])


def converted(step: Step) -> Step:
    """One gold step."""
    made: Step = {"id": step["id"], "after": step["after"]}
    if step["tool"] is None:
        return made | {"agent": "worker", "task": step["text"]}
    if step["args"] is None:
        return made | {
            "tool": step["tool"],
            "inputs": {f"in_{need}": {"$from": need} for need in step["after"]},
        }
    refs = {ref["arg"]: ref for ref in step.get("refs", ())}
    inputs = {name: converted_value(value, refs.get(name)) for name, value in step["args"].items()}
    return made | {"tool": step["tool"], "inputs": inputs}


def converted_value(value: Any, ref: dict[str, Any] | None) -> Any:
    """An argument, with a reference in place of the authors' own notation."""
    if ref is not None:
        output = ref.get("output") or ""
        keys = [int(key) if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", output)]
        return {"$from": ref["step"], "$path": keys}
    if isinstance(value, dict) and "$placeholder" in value:
        return given(value["$placeholder"])
    if isinstance(value, str):
        return given(value) if PLACEHOLDER.fullmatch(value) else value
    if isinstance(value, list):
        return [converted_value(each, None) for each in value]
    if isinstance(value, dict):
        return {key: converted_value(each, None) for key, each in value.items()}
    return value


class Anything:
    """Parameters of every name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


def given(words: str) -> dict[str, Any]:
    """A parameter for what the authors left open."""
    return {"$from": "params", "$path": [words]}


def found_in(case: Case) -> list[Problem]:
    """Everything check and lint say."""
    plan = case.plan()
    found = check_plan(
        plan,
        case.tools,
        agents=case.agents,
        parameters=Anything(),
        max_steps=case.max_steps,
    )
    return found + every_note(plan, case)


def every_note(plan: Plan, case: Case) -> list[Problem]:
    """What looks like a mistake in a plan, and what makes it slow."""
    return lint_plan(plan, case.tools) + lint_plan(plan, case.tools, advice=True)


# Mutations: each breaks a copy of the case and says which codes, at which steps, must be told.
Expected = tuple[set[str], set[str | None]]
Mutation = Callable[[Case, random.Random], Expected | None]


def _pick(dice: random.Random, options: list[Any]) -> Any:
    return dice.choice(options) if options else None


def _tool_steps(case: Case) -> list[Step]:
    return [step for step in case.calls() if step.get("tool") in case.tools]


def _arguments(case: Case, *wanted: str) -> list[tuple[Step, str, dict[str, Any]]]:
    """Arguments given as plain values, whose schemas have the wanted keywords."""
    return [
        (step, name, schema)
        for step in _tool_steps(case)
        for name, schema in _properties(case, step).items()
        if name in step["inputs"]
        and isinstance(schema, dict)
        and all(key in schema for key in wanted)
        and "$from" not in json.dumps(step["inputs"][name])
    ]


def _properties(case: Case, step: Step) -> dict[str, Any]:
    found = case.tools[step["tool"]].input_schema.get("properties")
    return found if isinstance(found, dict) else {}


def _edges(case: Case) -> list[tuple[Step, Step]]:
    by_id = {step["id"]: step for step in case.calls()}
    return [(by_id[need], step) for step in case.calls() for need in step["after"]]


def _say(case: Case, name: str, effect: Effect) -> None:
    """Annotate a tool, in this case alone."""
    case.tools = case.tools | {name: case.tools[name].replace(effect=effect)}


def _unknown_tool(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, _tool_steps(case))
    if step is None:
        return None
    step["tool"] = f"zq{dice.randrange(10**6)}"
    return {"PS101"}, {step["id"]}


def mistyped(name: str, dice: random.Random) -> str:
    """A name with one letter swapped, lost, doubled or replaced."""
    place = dice.randrange(1, max(2, len(name) - 1))
    rest = name[place + 1 :]
    return {
        0: name[:place] + rest,
        1: name[:place] + name[place] * 2 + rest,
        2: name[: place - 1] + name[place] + name[place - 1] + rest,
        3: name[:place] + dice.choice("aeiou") + rest,
    }[dice.randrange(4)]


def _mistyped_tool(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, _tool_steps(case))
    wrong = mistyped(step["tool"], dice) if step else ""
    if step is None or wrong in case.tools:
        return None
    step["tool"] = wrong
    return {"PS101"}, {step["id"]}


def _unknown_agent(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, [step for step in case.calls() if "agent" in step])
    if step is None:
        return None
    step["agent"] = f"zq{dice.randrange(10**6)}"
    return {"PS102"}, {step["id"]}


def _missing_argument(case: Case, dice: random.Random) -> Expected | None:
    options = [
        (step, name)
        for step in _tool_steps(case)
        for name in case.tools[step["tool"]].input_schema.get("required") or ()
        if name in step["inputs"]
    ]
    if not options:
        return None
    step, name = dice.choice(options)
    del step["inputs"][name]
    return {"PS202"}, {step["id"]}


WRONG: dict[str, Any] = {
    "string": [["wrong"], {"wrong": 1}],
    "integer": ["no number", [1, 2], 1.5],
    "number": ["no number", [1, 2]],
    "boolean": ["perhaps", 7],
    "array": [{"wrong": 1}],
    "object": [7, "no object"],
}


def _wrong_type(case: Case, dice: random.Random) -> Expected | None:
    options = [each for each in _arguments(case, "type") if str(each[2]["type"]) in WRONG]
    if not options:
        return None
    step, name, schema = dice.choice(options)
    step["inputs"][name] = dice.choice(WRONG[schema["type"]])
    return {"PS201"}, {step["id"]}


def _enum_violated(case: Case, dice: random.Random) -> Expected | None:
    options = [
        each for each in _arguments(case, "enum") if each[2].get("type", "string") == "string"
    ]
    if not options:
        return None
    step, name, _ = dice.choice(options)
    step["inputs"][name] = "none of these"
    return {"PS204"}, {step["id"]}


def _unknown_argument(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, [step for step in _tool_steps(case) if _properties(case, step)])
    if step is None:
        return None
    step["inputs"][f"zq{dice.randrange(100)}"] = "something"
    return {"PS203"}, {step["id"]}


def _dangling_reference(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, case.calls())
    if dice.random() < 0.5 and "inputs" in step:
        name = _pick(dice, list(step["inputs"])) or "given"
        step["inputs"][name] = dice.choice([{"$from": "ghost"}, "{{ghost.value}}"])
    else:
        step["after"] = [*step["after"], "ghost"]
    return {"PS302"}, {step["id"]}


def _wrong_output(case: Case, dice: random.Random) -> Expected | None:
    by_id = {step["id"]: step for step in case.calls()}
    options = [
        (step, value)
        for step in _tool_steps(case)
        for value in step["inputs"].values()
        if isinstance(value, dict)
        and value.get("$path")
        and value["$from"] in by_id
        and (case.tools[by_id[value["$from"]]["tool"]].output_schema or {}).get("properties")
    ]
    if not options:
        return None
    step, value = dice.choice(options)
    value["$path"] = [f"zq{dice.randrange(100)}"]
    return {"PS208"}, {step["id"]}


def _cycle(case: Case, dice: random.Random) -> Expected | None:
    steps = case.calls()
    if len(steps) < 2:
        return None
    first, second = dice.sample(steps, 2)
    ids = {first["id"], second["id"]}
    first["after"] = [*first["after"], second["id"]]
    second["after"] = [*second["after"], first["id"]]
    return {"PS301"}, ids | {step["id"] for step in steps}


def _reversed_edge(case: Case, dice: random.Random) -> Expected | None:
    data = [
        (first, second)
        for first, second in _edges(case)
        if f'"$from": "{first["id"]}"' in json.dumps(second.get("inputs", {}))
    ]
    edge = _pick(dice, data)
    if edge is None:
        return None
    first, second = edge
    second["after"] = [need for need in second["after"] if need != first["id"]]
    first["after"] = [*first["after"], second["id"]]
    return {"PS301"}, {step["id"] for step in case.calls()}


def _self_reference(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, case.calls())
    if "inputs" in step and dice.random() < 0.5:
        name = _pick(dice, list(step["inputs"])) or "given"
        step["inputs"][name] = {"$from": step["id"]}
    else:
        step["after"] = [*step["after"], step["id"]]
    return {"PS305"}, {step["id"]}


def _duplicate_id(case: Case, dice: random.Random) -> Expected | None:
    steps = case.calls()
    if len(steps) < 2:
        return None
    first, second = dice.sample(steps, 2)
    second["id"] = first["id"]
    return {"PS304"}, {first["id"]}


def _dead_step(case: Case, dice: random.Random) -> Expected | None:
    case.tools = case.tools | {"extra.lookup": ToolSpec(name="extra.lookup", effect=Effect.READ)}
    before = _pick(dice, case.calls())
    inputs = {"query": {"$from": before["id"]}} if dice.random() < 0.5 else {"query": "more"}
    place = dice.randrange(len(case.steps))
    case.steps.insert(place, {"id": "extra", "tool": "extra.lookup", "inputs": inputs})
    return {"PS401"}, {"extra"}


def _duplicate_step(case: Case, dice: random.Random) -> Expected | None:
    step = _pick(dice, case.calls())
    twin = copy.deepcopy(step) | {"id": "twin"}
    case.steps.insert(dice.randrange(len(case.steps)), twin)
    case.steps[-1]["instruction"] += " {{twin}}"
    return {"PS404"}, {"twin", step["id"]}


def _needless_after(case: Case, dice: random.Random) -> Expected | None:
    graph = case.plan().needs
    above = {step["id"]: upstream(graph, [step["id"]]) for step in case.calls()}
    pairs = [
        (first, second)
        for first in _tool_steps(case)
        for second in _tool_steps(case)
        if first["id"] != second["id"]
        and first["id"] not in above[second["id"]]
        and second["id"] not in above[first["id"]]
    ]
    pair = _pick(dice, pairs)
    if pair is None:
        return None
    first, second = pair
    _say(case, first["tool"], Effect.READ)
    _say(case, second["tool"], Effect.READ)
    second["after"] = [*second["after"], first["id"]]
    return {"PS402"}, {second["id"]}


def _missing_reply(case: Case, dice: random.Random) -> Expected | None:
    followed = {need for step in case.calls() for need in step["after"]}
    step = _pick(dice, [step for step in _tool_steps(case) if step["id"] not in followed])
    if step is None:
        return None
    _say(case, step["tool"], Effect.READ)
    case.steps.pop()
    return {"PS407"}, {step["id"] for step in case.steps}


def _unbounded_map(case: Case, dice: random.Random) -> Expected | None:
    case.tools = case.tools | {"extra.save": ToolSpec(name="extra.save", effect=Effect.WRITE)}
    source = _pick(dice, case.calls())
    each = {"tool": "extra.save", "inputs": {"value": "{{item}}"}}
    over = {"$from": source["id"], "$path": ["all"]}
    case.steps.append({"id": "extra", "over": over, "each": each})
    return {"PS405"}, {"extra"}


def _too_many_steps(case: Case, dice: random.Random) -> Expected | None:
    case.max_steps = dice.randrange(len(case.calls()))
    return {"PS313"}, {None}


def _empty_plan(case: Case, dice: random.Random) -> Expected | None:
    if dice.random() < 0.5:
        case.steps = []
    else:
        case.steps = [step | {"disabled": True} for step in case.steps]
    return {"PS307"}, {None}


MUTATIONS: dict[str, Mutation] = {
    "unknown tool": _unknown_tool,
    "mistyped tool": _mistyped_tool,
    "unknown agent": _unknown_agent,
    "wrong type": _wrong_type,
    "missing argument": _missing_argument,
    "unknown argument": _unknown_argument,
    "value outside the enum": _enum_violated,
    "output that is not there": _wrong_output,
    "cycle": _cycle,
    "reversed data edge": _reversed_edge,
    "dangling reference": _dangling_reference,
    "duplicate id": _duplicate_id,
    "self reference": _self_reference,
    "empty plan": _empty_plan,
    "too many steps": _too_many_steps,
    "dead step": _dead_step,
    "needless `after`": _needless_after,
    "duplicate step": _duplicate_step,
    "unbounded map": _unbounded_map,
    "missing reply": _missing_reply,
}


def _place(problem: Problem) -> tuple[object, ...]:
    return problem.code, problem.step, problem.path


def recall(all_cases: list[Case], mutation: Mutation, seed: int) -> tuple[int, int, Counter[str]]:
    """How many mutants there are, and how many are told of at the right step."""
    made = told = 0
    codes: Counter[str] = Counter()
    for case in all_cases:
        mutant = Case(case.id, copy.deepcopy(case.steps), case.tools, case.agents, gold=case.gold)
        expected = mutation(mutant, random.Random(f"{seed} {case.id} {mutation.__name__}"))
        if expected is None:
            continue
        wanted, places = expected
        made += 1
        before = case.before or {_place(each) for each in found_in(case)}
        case.before = before
        told += any(
            each.code in wanted and each.step in places and _place(each) not in before
            for each in found_in(mutant)
        )
        codes.update(wanted)
    return made, told, codes


def mended_names(all_cases: list[Case], seed: int) -> tuple[int, int, int]:
    """Of mistyped tools: how many there are, mended to the right name, to a wrong one."""
    made = right = wrong = 0
    for case in all_cases:
        mutant = Case(case.id, copy.deepcopy(case.steps), case.tools, case.agents)
        if _mistyped_tool(mutant, random.Random(f"{seed} {case.id} _mistyped_tool")) is None:
            continue
        made += 1
        plan = autofix(mutant.plan(), mutant.tools, ask_for_missing=False).plan
        now = [step.get("tool") for step in plan.to_json()["steps"]]  # type: ignore[union-attr]
        gold = [step.get("tool") for step in case.steps]
        before = [step.get("tool") for step in mutant.steps]
        right += now == gold
        wrong += now not in (gold, before)
    return made, right, wrong


def types_differ(problem: Problem, case: Case, step: Step) -> bool:
    """Whether the tools themselves declare two types for the two ends of a reference."""
    ref = step["inputs"].get(problem.path[-1])
    source = next((each for each in case.calls() if ref and each["id"] == ref["$from"]), None)
    if source is None or len(ref["$path"]) != 1:
        return False
    gives = (case.tools[source["tool"]].output_schema or {}).get("properties")
    name = ref["$path"][0]
    one = gives[name].get("type") if isinstance(gives, dict) and name in gives else None
    other = _properties(case, step).get(str(problem.path[-1]), {}).get("type")
    return bool(one and other and one != other)


def deserved(problem: Problem, case: Case) -> bool:
    """Whether a gold plan's own arguments break its tool's own schema, judged without us.

    References and placeholders are taken out of the arguments and of what is required.
    """
    step = next((each for each in case.calls() if each["id"] == problem.step), None)
    if step is None or "tool" not in step:
        return False
    schema = copy.deepcopy(case.tools[step["tool"]].input_schema)
    if problem.code == "PS208":
        return types_differ(problem, case, step)
    if problem.code == "PS203":
        return f'"{problem.path[-1]}": ' not in json.dumps(schema, ensure_ascii=False)
    known = {
        name: value for name, value in step["inputs"].items() if "$from" not in json.dumps(value)
    }
    required = schema.get("required")
    if isinstance(required, list):
        schema["required"] = [
            name for name in required if name in known or name not in step["inputs"]
        ]
    try:
        return not jsonschema_rs.is_valid(schema, known, validate_formats=True)
    except ValueError:
        return True


@dataclass
class Alarms:
    """What was said of unmutated plans: shares of plans."""

    plans: int = 0
    false: int = 0
    own_faults: int = 0
    coerced: int = 0
    by_code: Counter[str] = field(default_factory=Counter)
    own_codes: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Alarms) -> Alarms:
        return Alarms(*(getattr(self, each) + getattr(other, each) for each in vars(self)))


def alarms(all_cases: list[Case], *, show: bool = False) -> Alarms:
    """Mend, check and lint the gold plans as they are."""
    count = Alarms(plans=len(all_cases))
    for case in all_cases:
        mended = autofix(case.plan(), case.tools, agents=case.agents, ask_for_missing=False)
        found = check_plan(mended.plan, case.tools, agents=case.agents, parameters=Anything())
        found += every_note(mended.plan, case)
        loud = [each for each in found if each.severity is not Severity.NOTE]
        false = [each for each in loud if not deserved(each, case)]
        count.coerced += bool(mended.problems)
        count.own_faults += len(false) < len(loud)
        count.false += bool(false)
        count.by_code.update({each.code for each in false})
        count.own_codes.update({each.code for each in loud if each not in false})
        count.notes.update({each.code for each in found if each.severity is Severity.NOTE})
        if show:
            for each in false:
                print(case.id, each)
    return count


def share(part: int, whole: int) -> str:
    """A share as a percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def report(folder: Path, rows: int, seed: int, *, show: bool) -> Iterator[str]:
    """The page, line by line."""
    everything = {name: list(cases(folder, name)) for name in SETS}
    yield from HEAD
    yield ""
    yield "| Mutation | codes | mutants | told at the right step | recall |"
    yield "|---|---|--:|--:|--:|"
    sample = {
        name: random.Random(f"{seed} {name}").sample(every, min(rows, len(every)))
        for name, every in everything.items()
    }
    for label, mutation in MUTATIONS.items():
        counts = [recall(some, mutation, seed) for some in sample.values()]
        made, told = sum(each[0] for each in counts), sum(each[1] for each in counts)
        codes = ", ".join(sorted({code for each in counts for code in each[2]}))
        yield f"| {label} | {codes} | {made:,} | {told:,} | {told / made if made else 0:.3f} |"
    totals = [mended_names(some, seed) for some in sample.values()]
    made, right, wrong = (sum(each[place] for each in totals) for place in range(3))
    yield ""
    yield f"Of {made:,} mistyped tools, `mend` put {share(right, made)} right by itself and took"
    yield f"{share(wrong, made)} for another tool; the others stay errors with a hint."
    yield ""
    yield from ALARMS_HEAD
    yield ""
    yield "| Set | plans | false alarms | by code | gold's own faults | by code | mended | notes |"
    yield "|---|--:|--:|---|--:|---|--:|---|"
    total = Alarms()
    for name, every in everything.items():
        found = alarms(every, show=show)
        total += found
        yield row(name, found)
    yield row("all", total)


def row(name: str, found: Alarms) -> str:
    """One set's row."""

    def shares(codes: Counter[str]) -> str:
        told = [f"{code} {share(codes[code], found.plans)}" for code in sorted(codes)]
        return ", ".join(told) or "none"

    cells = (
        name,
        f"{found.plans:,}",
        share(found.false, found.plans),
        shares(found.by_code),
        share(found.own_faults, found.plans),
        shares(found.own_codes),
        share(found.coerced, found.plans),
        shares(found.notes),
    )
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "# Check and lint on mutated gold plans",
    "",
    "`scripts/bench lint --write` (data: `--data DIR`, else `$PLANSMITH_BENCH_DATA`, else",
    "`../shared/bench`; `--rows` plans a set, `--seed`). Public gold plans of twelve sets, rows",
    "with `gold_issues` left out, turned into plans of ours with a reply to what comes out of",
    "them; one mutant a plan and class, where the class applies. A mutant counts as found when a",
    "problem that the plan did not have before names the right code and the right step (for a",
    "ring: a step of the plan). Where lint depends on a tool's effect, the mutation says it. The",
    "few misses in the argument classes are arguments that were wrong in the gold already, and one",
    "schema with a condition, which may bring in more arguments than can be seen.",
)
ALARMS_HEAD = (
    "## False alarms on unmutated gold plans",
    "",
    "Plans are mended first (types and names, no questions), as in planning. A false alarm is a",
    "warning or an error that the gold does not deserve. Deserved is what the gold does against",
    "the tools' own schemas, judged apart from check: a plain validator (references taken out,",
    "formats asserted) refuses the step's arguments, the schema has no such argument, or a",
    "reference joins two ends that are declared with different types. These are the gold's own",
    "faults. Notes are no alarms; on sets whose authors give a sequence, `PS402` and `PS403` say",
    "that the sequence is longer than the data needs, and `PS404` that a call is repeated later.",
)


def main() -> None:
    """Print the report, and with `--write` keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("PLANSMITH_BENCH_DATA", "../shared/bench")
    parser.add_argument("--data", type=Path, default=Path(default), help="the bench data folder")
    parser.add_argument("--rows", type=int, default=150, help="plans a set that are mutated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every false alarm")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    options = parser.parse_args()
    if not (options.data / "planning").is_dir():
        sys.exit(f"no gold plans in {options.data}: use --data or PLANSMITH_BENCH_DATA")
    lines: list[str] = []
    for line in report(options.data, options.rows, options.seed, show=options.show):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
