"""Writes a report as one HTML file."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from plansmith.plan.refs import is_earlier
from plansmith.report.data import Entry, Evidence, Picture, Report, Words
from plansmith.report.markdown import taken_over, took_lines, when
from plansmith.report.prose import OPTIONS, read_prose
from plansmith.text import visible

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5b616b; --line: #d5d9e0; --box: #f5f6f8;
  --paper: #fff; --mark: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a3aab5; --line: #3a3f47;
  --box: #1f2329; --paper: #15181c; --mark: #8ab8ee; } }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem;
  border-bottom: 1px solid var(--line); } h3, h4, h5, h6 { font-size: 1rem; margin: 1.2rem 0 0; }
a { color: var(--mark); } .cite { font-size: .85em; text-decoration: none; }
pre { background: var(--box); border: 1px solid var(--line); padding: .6rem; overflow-x: auto;
  white-space: pre-wrap; } code { background: var(--box); padding: 0 .2em; }
pre code { padding: 0; } .soft { color: var(--soft); font-size: .9em; }
.note { border-left: 3px solid var(--line); padding-left: .7rem; color: var(--soft); }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .2rem .6rem; }
"""
_DIGEST: Final = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; img-src data:; style-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'"
)


def to_html(report: Report) -> str:
    """Returns the report as a page: no scripts, nothing loaded, only web and mail links."""
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(report.title)}</title><style>{STYLE}</style>"
    )
    body = "\n".join(_body(report))
    language = escape(report.locale)
    return (
        f'<!doctype html>\n<html lang="{language}">\n<head>{head}</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def text(given: str) -> str:
    """Escapes a text for HTML, with hidden characters made visible."""
    return escape(visible(given))


def _body(report: Report) -> Iterator[str]:
    words = report.words
    yield f"<h1>{text(report.title)}</h1>"
    head = [f"<p>{text(each)}</p>" for each in report.head]
    yield from () if report.is_answered else head
    if report.request and report.request != report.title:
        yield f'<p class="soft">{text(words["request"])}: {text(report.request)}</p>'
    yield f"<h2>{text(words['answer'])}</h2>"
    yield str(_PROSE.render(read_prose(report.answer.text), OPTIONS, {})).rstrip()
    if report.answer.sources:
        links = ", ".join(_step_link(name) for name in report.answer.sources)
        yield f'<p class="soft">{text(words["sources"])}: {links}</p>'
    yield from map(_figure, report.pictures)
    yield from (f'<p class="note">{text(note)}</p>' for note in report.notes)
    yield from head if report.is_answered else ()
    if report.evidence:
        yield f"<h2>{text(words['evidence'])}</h2>"
        yield from (_evidence(each, words) for each in report.evidence)
    yield from _section(words["deviations"], [_entry(each) for each in report.deviations])
    yield from _section(words["assumptions"], [text(each) for each in report.assumptions])
    failures = [
        f"<code>{text(each.step)}</code> {text(words[f'is_{each.status}'])}"
        + (f": {text(each.reason)}" if each.reason else "")
        for each in report.failures
    ]
    yield from _section(words["failures"], failures)
    yield from _section(words["decisions"], [_entry(each) for each in report.decisions])
    yield from _section(words["cost"], [text(each) for each in took_lines(report.took, words)])
    yield f'<p class="soft">{text(words["run"])} <code>{text(report.run)}</code> · '
    made = f" · {text(words[f'made_{report.made_by}'])}" if report.made_by else ""
    yield f"{text(words['plan'])} <code>{text(report.plan[:12])}</code>{made}</p>"


def _figure(picture: Picture) -> str:
    """Returns a picture inside of the page; as an image, nothing in it runs or is loaded."""
    data = b64encode(picture.data).decode()
    source = f"data:{escape(picture.media)};base64,{data}"
    caption = f'<span class="soft">{text(picture.path)}</span> {_step_link(picture.step)}'
    image = f'<img alt="{text(picture.path)}" src="{source}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _section(title: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        yield f"<h2>{text(title)}</h2>\n<ul>"
        yield from (f"<li>{entry}</li>" for entry in entries)
        yield "</ul>"


def _evidence(each: Evidence, words: Words) -> str:
    title = f" — {text(each.title)}" if each.title else ""
    callee = f' <span class="soft">{text(each.callee)}</span>' if each.callee else ""
    clipped = words["clipped"].format(size=f"{each.size:,}") if each.clipped else ""
    note = f'\n<p class="soft">{text(clipped)}</p>' if clipped else ""
    taken = f'<p class="soft">{text(taken_over(each, words))}</p>\n' if each.taken_from else ""
    return (
        f'<h3 id="{_anchor(each.step)}"><code>{text(each.step)}</code>{title}{callee}</h3>\n'
        f"{taken}<pre><code>{text(each.shown)}</code></pre>{note}"
    )


def _entry(entry: Entry) -> str:
    step = f"{_step_link(entry.step)}: " if entry.step else ""
    at = f' <span class="soft">{when(entry.at)}</span>' if entry.at else ""
    return f"{step}{text(entry.text)}{at}"


def _step_link(name: str) -> str:
    if is_earlier(name):  # its result stands in another report
        return f"<code>{text(name)}</code>"
    return f'<a class="cite" href="#{_anchor(name)}"><code>{text(name)}</code></a>'


def _anchor(name: str) -> str:
    """Returns an HTML id for a step, of letters that need no escape."""
    letters = (each if each.isascii() and each.isalnum() else f"_{ord(each):x}_" for each in name)
    return "step-" + "".join(letters)


class _Prose(RendererHTML):
    """Renders Markdown tokens as HTML, with two token types of our own."""

    def cite(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        return f"[{_step_link(tokens[idx].content)}]"

    def host(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        """Renders the host of a link whose text does not show it."""
        return f' <span class="soft">({text(tokens[idx].content)})</span>'


_PROSE: Final = _Prose()
