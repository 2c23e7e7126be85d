"""Writes a report as one HTML file: its Markdown, rendered."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Final

from plansmith.file_ports import RunFile
from plansmith.report.data import Report
from plansmith.report.markdown import to_markdown
from plansmith.report.prose import page_parser
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
a { color: var(--mark); }
pre { background: var(--box); border: 1px solid var(--line); padding: .6rem; overflow-x: auto;
  white-space: pre-wrap; } code { background: var(--box); padding: 0 .2em; }
pre code { padding: 0; }
blockquote { border-left: 3px solid var(--line); margin: 0; padding-left: .7rem;
  color: var(--soft); }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .2rem .6rem; }
"""
_DIGEST: Final = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; img-src data:; style-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'"
)


def to_html(report: Report, files: Iterable[RunFile] = ()) -> str:
    """Returns the report as a page: no scripts, nothing loaded, only web and mail links.

    Of the files of the run, it has the pictures that are still as the run wrote them.
    """
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(visible(report.title))}</title><style>{STYLE}</style>"
    )
    shown = (each for each in files if each.kind == "picture" and each.state == "as_written")
    figures = (_figure(each) for each in shown if each.data)
    body = page_parser().render(to_markdown(report)) + "".join(figures)
    language = escape(report.locale)
    return (
        f'<!doctype html>\n<html lang="{language}">\n<head>{head}</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _figure(picture: RunFile) -> str:
    """Returns a picture inside of the page; as an image, nothing in it runs or is loaded."""
    data = b64encode(picture.data).decode()
    source = f"data:{escape(picture.media)};base64,{data}"
    path, step = escape(visible(picture.path)), escape(visible(picture.step))
    caption = f"<figcaption>{path} <code>{step}</code></figcaption>"
    return f'<figure><img alt="{path}" src="{source}">{caption}</figure>\n'
