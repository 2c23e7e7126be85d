"""Writes a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from plansmith.lazy import lazy_modules
from plansmith.plan.refs import without_citations
from plansmith.report.data import Evidence, Line, Report, Took, Words
from plansmith.report.result_text import coded, facts, line, listing

if TYPE_CHECKING:
    from plansmith.report import prose
else:
    lazy_modules(globals(), prose="plansmith.report.prose")


def to_markdown(report: Report, *, brief: bool = False) -> str:
    """Returns the report as Markdown, in which text from tools has no effect.

    `brief` shows results as tables and a few lines, not as they are stored.
    """
    return "\n".join(_lines(report, brief=brief)).strip() + "\n"


def answer_markdown(report: Report, *, alone: bool = False) -> str:
    """Returns what a run came to, as Markdown: what failed or is missing, then the answer.

    How it was found out (steps, evidence, decisions, cost) is left to the whole report, and who
    made the plan to the plan itself; `alone` leaves out also what `lacking_markdown` tells.
    """
    answer = "\n".join(each.rstrip() for each in _blocks(report.answer.text, cites=False)).strip()
    lacking = "" if alone else lacking_markdown(report, with_plan=False)
    return f"{lacking}\n\n{answer}\n" if lacking else f"{answer}\n"


def lacking_markdown(report: Report, *, with_plan: bool = True) -> str:
    """Returns what failed or is missing, and the notes on an answer; empty if there is nothing.

    Without `with_plan`, the note on who or what made the plan is left out.
    """
    lines = [] if report.is_answered else [*_head(report), ""]
    # How well an answer is sourced is told where its sources are: in the whole report.
    codes = ("uncited",) if with_plan else ("uncited", "degraded")
    elsewhere = tuple(report.words[code].partition("{")[0] for code in codes)
    lines += [f"> {line(note)}" for note in report.notes if not note.startswith(elsewhere)]
    lines += [f"- {each}" for each in _failures(report)]
    return "\n".join(lines).strip()


def harmless(text: str) -> str:
    """Returns a model's Markdown as ours: no HTML, no images, only web and mail links."""
    return "\n".join(_blocks(text, cites=False)).strip()


def _lines(report: Report, *, brief: bool) -> Iterator[str]:
    words = report.words
    yield f"# {line(report.title)}"
    if not report.is_answered:
        yield from _head(report)
    if report.request and report.request != report.title:
        yield from ("", f"{words['request']}: {line(report.request)}")
    yield from ("", f"## {words['answer']}", "")
    yield from _blocks(report.answer.text, cites=True)
    if report.answer.sources:
        named = ", ".join(coded(name) for name in report.answer.sources)
        yield from (f"{words['sources']}: {named}", "")
    yield from (f"> {line(note)}" for note in report.notes)
    if report.is_answered:
        yield from _head(report)
    if report.evidence:
        yield from ("", f"## {words['evidence']}")
        for each in report.evidence:
            yield from _evidence(each, words, brief=brief)
    yield from _section(words["deviations"], [_entry(each) for each in report.deviations])
    yield from _section(words["assumptions"], [line(each) for each in report.assumptions])
    yield from _section(words["failures"], list(_failures(report)))
    yield from _section(words["decisions"], [_entry(each) for each in report.decisions])
    yield from _section(words["cost"], list(took_lines(report.took, words)))
    made = f" · {words[f'made_{report.made_by}']}" if report.made_by else ""
    yield ""
    yield f"{words['run']} {coded(report.run)} · {words['plan']} {report.plan[:12]}{made}"


def _head(report: Report) -> Iterator[str]:
    return (part for text in report.head for part in ("", line(text)))


def _blocks(text: str, *, cites: bool) -> Iterator[str]:
    blocks = prose.harmless_blocks(text if cites else without_citations(text))
    return (part for block in blocks for part in (block, ""))


def _failures(report: Report) -> Iterator[str]:
    for failure in report.failures:
        reason = f": {line(failure.reason)}" if failure.reason else ""
        yield f"{coded(failure.step)} {report.words[f'is_{failure.status}']}{reason}"


def _section(title: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        yield from ("", f"## {title}", "")
        yield from (f"- {entry}" for entry in entries)


def _evidence(each: Evidence, words: Words, *, brief: bool) -> Iterator[str]:
    title = f" — {line(each.title)}" if each.title else ""
    callee = f" ({coded(each.callee)})" if each.callee else ""
    yield from ("", f"**{line(each.step)}**{title}{callee}", "")
    if each.taken_from:
        yield from (f"{line(taken_over(each, words))}", "")
    if each.given_by:
        yield from (line(words["given"].format(who=each.given_by)), "")
    if brief:
        yield from _beginning(each, words)
        return
    yield listing(each.result)
    if each.clipped:
        yield from ("", words["clipped"].format(size=f"{each.characters:,}"))


def _beginning(each: Evidence, words: Words) -> Iterator[str]:
    """Yields a result as tables and lists; of a long one the beginning."""
    text = each.result if each.is_prose else facts(each.result, language=words["locale"])
    yield "\n".join(_blocks(text, cites=not each.is_prose)).rstrip()
    if each.clipped:
        yield from ("", words["brief"].format(size=f"{each.characters:,}"))


def _entry(entry: Line) -> str:
    step = f"{coded(entry.step)}: " if entry.step else ""
    at = f" ({when(entry.at)})" if entry.at else ""
    return f"{step}{line(entry.text)}{at}"


def taken_over(each: Evidence, words: Words) -> str:
    """Says in which earlier run a result was made, and when."""
    at = when(each.at) if each.at else words["unknown"]
    return words["taken_over"].format(run=each.taken_from, at=at)


def when(at: datetime) -> str:
    """Formats a time to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def took_lines(took: Took, words: Words) -> Iterator[str]:
    """Yields the calls, tokens, money and time of a run, one line each."""
    unknown = words["unknown"]
    tokens = unknown if took.tokens is None else f"{took.tokens:,}"
    money = unknown if took.money_usd is None else f"${took.money_usd}"
    if took.money_usd and took.some_prices_unknown:
        money = words["at_least"].format(amount=money)
    elif took.some_prices_unknown:
        money = unknown
    seconds = unknown if took.seconds is None else f"{took.seconds:.1f} s"
    if took.times.planning and took.times.running:
        parts = {"planning": took.times.planning, "running": took.times.running}
        texts = {name: f"{each:.1f} s" for name, each in parts.items()}
        seconds += f" ({words['times'].format(**texts)})"
    amounts = {"calls": f"{took.calls:,}", "tokens": tokens, "money": money, "time": seconds}
    yield from (f"{words[key]}: {value}" for key, value in amounts.items())
    if took.times.waiting >= 1:
        yield f"{words['waited']}: {took.times.waiting:.1f} s"
