"""Shows plans, problems and differences as text that is safe for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plansmith.plan import sentence
from plansmith.plan import steps as st
from plansmith.plan.conditions import rule_sentences, rule_text
from plansmith.plan.data import Json, json_text
from plansmith.plan.diff import FieldChange, PlanDiff, is_rule
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Estimate
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.refs import earlier_parts, find_refs, is_earlier, value_line
from plansmith.text import WIDTH, clip, safe
from plansmith_cli.ui.terminal import padded, text_width

BAR: Final = "│ "  # before every line of a value: none can pass for one of ours
_MAX_LENGTH: Final = 1000
_MAX_LINES: Final = 20
_MAX_COLUMNS: Final = 8
_TABLE_WIDTH: Final = 88


def named_lines(name: str, value: Json, locale: str) -> Iterator[str]:
    """Yields a name and its value, both behind a bar; what is left out is counted without one."""
    lines = value_lines(value)
    if len(lines) > 1:
        yield f"{BAR}{safe(name)} ="
    for line in lines[:_MAX_LINES]:
        lead = "  " if len(lines) > 1 else f"{safe(name)} = "
        yield f"{BAR}{lead}{line[:_MAX_LENGTH]}".rstrip()
        if len(line) > _MAX_LENGTH:
            yield left_out("show.more_letters", len(line) - _MAX_LENGTH, locale)
    if len(lines) > _MAX_LINES:
        yield left_out("show.more_lines", len(lines) - _MAX_LINES, locale)


def left_out(code: str, count: int, locale: str) -> str:
    """Returns the line that counts what is not shown."""
    return sentence.in_language(sentence.Sentence(code, count=f"{count:,}"), locale)


def value_lines(value: Json) -> list[str]:
    """Returns a text line by line, rows as a table, and anything else as JSON."""
    if isinstance(value, list) and (rows := [each for each in value if isinstance(each, dict)]):
        columns = list(dict.fromkeys(name for row in rows for name in row))
        if len(rows) == len(value) and len(columns) <= _MAX_COLUMNS:
            return table_lines(
                columns, [[value_cell(row.get(each)) for each in columns] for row in rows]
            )
    text = value if isinstance(value, str) else json_text(value)
    if not isinstance(value, str) and len(text) > _TABLE_WIDTH:
        text = json_text(value, 1)
    return text_lines(text)


def text_lines(text: str) -> list[str]:
    """Returns the lines of a text, each without control or hidden characters."""
    return [safe(line) for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n")]


def value_cell(value: Json) -> str:
    """Returns a value on one line, as it stands in a table."""
    if value is None:
        return ""
    return safe(value if isinstance(value, str) else json_text(value))


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a table as lines; a column of numbers is aligned at its right, a long cell is cut."""
    most = max(_TABLE_WIDTH // max(len(columns), 1) - 2, 8)
    table = [[clip(safe(cell), most) for cell in row] for row in (columns, *rows)]
    widths = [max(map(text_width, column)) for column in zip(*table, strict=True)]
    is_number = [
        all(cell.strip("-").replace(".", "").isdecimal() for cell in column if cell)
        for column in zip(*table[1:], strict=True)
    ]
    table.insert(1, ["─" * width for width in widths])
    lines: list[str] = []
    for row in table:
        cells = zip(row, widths, is_number, strict=True)
        lines.append("  ".join(c.rjust(w) if right else padded(c, w) for c, w, right in cells))
    return [line.rstrip() for line in lines]


def plan_lines(
    plan: Plan,
    templates: Mapping[str, Plan] | None = None,
    locale: str = "en",
    *,
    tells_rules: bool = True,
) -> Iterator[str]:
    """Yields a plan and its templates as text for review.

    `tells_rules`: also tells that rules made it, where nothing else does.
    """
    words = _words(locale)
    yield words["plan"].format(goal=clip(safe(plan.goal)) or words["no_goal"])
    count = len(plan.steps)
    head = words["head_one" if count == 1 else "head"]
    yield f"      {head.format(count=count, revision=plan.revision, hash=plan.hash[:12])}"
    if plan.degraded:
        why = sentence.in_language_if(plan.degraded, "show.by_rules", locale)
        if tells_rules or why != words["by_rules"]:
            yield f"      {words['degraded'].format(text=clip(safe(why)))}"
    for assumption in plan.assumptions:
        yield f"      {words['assumes'].format(text=clip(safe(assumption)))}"
    for number, step in enumerate(plan.steps, start=1):
        yield ""
        yield from step_lines(step, f"{number}.", locale, plan)
    for name, inner in sorted((templates or {}).items()):
        yield ""
        yield words["template_plan"].format(name=safe(name))
        for step in inner.steps:
            yield from step_lines(step, "·", locale, inner)


def _words(locale: str) -> Mapping[str, str]:
    return sentence.texts_under("show.", sentence.language_of(locale))


def step_lines(
    step: st.StepFields, mark: str, locale: str = "en", plan: Plan | None = None
) -> Iterator[str]:
    """Yields the lines of one step of a plan: what it is, does and waits for."""
    words = _words(locale)
    title = f" — {clip(safe(step.title))}" if step.title else ""
    off = words["switched_off"] if step.disabled else ""
    yield f"{mark:>4} {safe(step.id)}{title}{off}"
    yield f"     {action(step, locale)}"
    for name, value in _inputs(step).items():
        yield from (f"       {line}" for line in _input_lines(name, value, locale, plan))
    if isinstance(step, st.MapStep):
        yield from (f"  {line}" for line in step_lines(step.each, "·", locale, plan))
    for rule in rule_sentences(step):
        yield f"     {sentence.in_language(rule, locale)}"
    if step.needed:
        yield f"     {words['after'].format(steps=', '.join(sorted(map(safe, step.needed))))}"
    for ref in dict.fromkeys(ref.step for ref in step.input_refs() if is_earlier(ref.step)):
        run, name = earlier_parts(ref)
        yield f"     {words['earlier'].format(step=safe(name), run=safe(run))}"
    if step.why:
        yield f"     {words['because'].format(why=clip(safe(step.why)))}"


def _input_lines(name: str, value: Json, locale: str, plan: Plan | None) -> Iterator[str]:
    """Yields an argument, and the titles of the steps that it comes from."""
    refs = [found.ref.step for found in find_refs(value) if found.ref is not None]
    titles = [plan.by_id[each].title for each in dict.fromkeys(refs) if plan and each in plan.by_id]
    named = ", ".join(safe(clip(title, 60)) for title in titles if title)
    source = f"  ← {named}" if named else ""
    lines = list(named_lines(name, value, locale))
    if len(lines) > 1:
        yield f"{lines[0].removeprefix(BAR)}{source}"
        yield from lines[1:]
    else:
        yield f"{safe(name)} = {value_line(value, 6000)}{source}"


def action(step: st.StepFields, locale: str = "en") -> str:
    """Says what a step does, in a few words."""
    words = _words(locale)
    match step:
        case st.ToolStep():
            return words["tool"].format(name=safe(step.tool))
        case st.AgentStep():
            return words["agent"].format(name=safe(step.agent), task=clip(safe(step.task)))
        case st.AskStep():
            options = f" [{' / '.join(map(safe, step.options))}]" if step.options else ""
            return words["ask"].format(question=clip(safe(step.question))) + options
        case st.MapStep():
            most = words["at_most"].format(most=step.most) if step.most else ""
            over = value_line(step.over, 80)
            return words["each"].format(over=over, width=step.width, most=most)
        case st.PlanStep():
            form = words["template_version" if step.version else "template"]
            return form.format(name=safe(step.template), version=step.version)
        case st.ReplyStep():
            return words[step.style].format(text=clip(safe(step.instruction)))
        case _:
            return str(st.kind_of(step))


def _inputs(step: st.StepFields) -> dict[str, Json]:
    return step.inputs if isinstance(step, (st.ToolStep, st.AgentStep, st.PlanStep)) else {}


def problem_lines(problems: Sequence[Problem], locale: str = "en") -> Iterator[str]:
    """Yields problems, one a line, with a count at the end if there are errors."""
    for each in problems:
        yield safe(each.line(locale))
    errors = sum(each.severity is Severity.ERROR for each in problems)
    if errors:
        count = sentence.Sentence(
            "errors: {errors}, warnings and notes: {others}",
            errors=errors,
            others=len(problems) - errors,
        )
        yield sentence.in_language(count, locale)


def diff_lines(diff: PlanDiff, locale: str = "en") -> Iterator[str]:
    """Yields the changes, one a line: + added, - removed, ~ changed, > moved."""
    words = _words(locale)
    for change in diff.plan:
        yield f"~ {words['whole_plan']} {_change(change, locale)}"
    for gone in diff.removed:
        yield f"- {safe(gone.step.id)}: {action(gone.step, locale)}"
    for new in diff.added:
        yield f"+ {safe(new.step.id)}: {action(new.step, locale)}"
        for name, value in _inputs(new.step).items():
            yield f"+   {safe(name)} = {value_line(value)}"
        yield from (
            f"+   {sentence.in_language(rule, locale)}" for rule in rule_sentences(new.step)
        )
    for step in diff.changed:
        yield from (f"~ {safe(step.id)} {_change(change, locale)}" for change in step.fields)
    for move in diff.moved:
        moved = words["moved"].format(before=move.before + 1, after=move.after + 1)
        yield f"> {safe(move.id)}: {moved}"


def _change(change: FieldChange, locale: str) -> str:
    def text(value: Json, width: int = WIDTH) -> str:
        if not is_rule(change.path):
            return value_line(value, width)
        return sentence.in_language(rule_text(str(change.path[-1]), value), locale)

    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in change.path)
    place = safe("".join(parts).removeprefix("."))  # `inputs.items[0]`
    match change.change:
        case "added":
            return f"{place}: + {text(change.after)}"
        case "removed":
            return f"{place}: - {text(change.before)}"
        case _:
            return f"{place}: {text(change.before, 70)} -> {text(change.after, 70)}"


def estimate_lines(estimate: Estimate, locale: str = "en") -> Iterator[str]:
    """Yields the estimate of a plan on two lines: the sums, and what they are based on."""
    words = _words(locale)
    counted = [
        words[f"effect_{name}"].format(count=count)
        for name, count in estimate.effects.items()
        if count
    ]
    seconds = words["seconds"].format(count=f"{estimate.seconds:.0f}")
    amounts = [seconds if estimate.seconds >= 1 else words["a_second"]]
    if estimate.tokens:
        amounts.append(words["tokens"].format(count=f"{estimate.tokens:,}"))
    if estimate.cost_usd is not None:
        amounts.append(f"${estimate.cost_usd}")
    yield words["takes"].format(
        amounts=words["comma"].join(amounts),
        effects=words["comma"].join(counted) or words["no_effects"],
    )
    basis = [*estimate.basis]
    if basis and isinstance(basis[0], sentence.Sentence) and basis[0].key == "estimate.measured":
        count, total = basis[0].fields["count"], basis[0].fields["total"]
        if count == total:
            basis[0] = sentence.Sentence("from past runs of these steps")
        elif not count:
            basis[0] = sentence.Sentence("a rough guess: these steps have not run here before")
    note = sentence.joined([each for each in basis if each != "price unknown"])
    if note:
        yield f"      ({sentence.in_language(note, locale)})"
