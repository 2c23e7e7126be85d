"""Whatever a tool or a model wrote, a report of it runs nothing, loads nothing, hides nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.hostile import PAYLOADS as PAGE

from plansmith import Plan, Plansmith, Run, RunStatus, StepStatus, tool
from plansmith.plan.run import Steps, StepState
from plansmith.report.build import load_report, make_report
from plansmith.report.data import Report
from plansmith.report.markdown import answer_markdown, harmless, to_markdown
from plansmith.report.prose import as_text
from plansmith_server.report_page import to_html

SCRIPTS = [
    *("<script\x0c>alert(1)</script>", "</code></pre><script>alert(1)</script>"),
    *("</title><script>alert(1)</script>", "</style><script>alert(1)</script>"),
    *("--><script>alert(1)</script><!--", "<?php echo 1 ?>"),
    *("&lt;script&gt;alert(1)&lt;/script&gt;", "&#60;script&#62;alert(1)&#60;/script&#62;"),
    *("`onmouseover=alert(1)", "<x/onclick=alert(1)>click", "\x00<script>alert(1)</script>"),
    "<\x00script>alert(1)</script>",
]
TARGETS = [
    *("java\nscript:alert(1)", "javascript&colon;alert(1)", "  javascript:alert(1)"),
    *("<javascript:alert(1)>", "data:text/html;base64,PHNjcmlwdD4=", "file:///etc/passwd"),
    *("\\\\evil.example\\share", "ftp://evil.example", "blob:https://evil.example/1"),
    *("about:blank", "chrome://settings", "intent://evil#Intent;end", "tel:+1900"),
    *("https://user:pw@evil.example@good.example/", "https:evil.example"),
    *('https://good.example"onmouseover="alert(1)', "https://good.example' onclick='alert(1)"),
    *('https://good.example "a" onclick="b"', "https://good.example/<script>"),
    *("mailto:a@b.example?body=x%0d%0aBcc:c@d.example", "//evil.example"),
    "https://good.example/%E2%80%AE 'a title <b>'",
]
LINKS = [
    *(f"[x]({each})" for each in TARGETS),
    "[javascript:alert(1)](https://good.example)",
    "[https://bank.example](https://evil.example/login)",
    "[x][1]\n\n[1]: javascript:alert(1)",
    "[1]: https://evil.example 'x'\n\n[1]",
    "<https://good.example onclick=alert(1)>",
    'https://good.example/"onmouseover=alert(1)',
    "http://good.example/<img/src=x/onerror=alert(1)>",
    "![x](javascript:alert(1))",
    "![a![b](https://evil.example/1.png)](https://evil.example/2.png)",
    "![x][p]\n\n[p]: https://evil.example/1.png",
    "mailto:a@b.example?subject=<script>",
    "<https://good.example/%E2%80%AE%1b>",
    "[![x](https://evil.example/1.png)](https://good.example)",
    # Two harmless parts that would be an image, a link or its address together.
    "\\![x](https://evil.example/pixel.gif)",
    "!<https://evil.example/pixel.gif>",
    "seen!https://evil.example/pixel.gif",
    "[step:oslo](//evil.example/login)",
    "[step:oslo](javascript:alert(1))",
    "[step:oslo]: //evil.example/login",
    "![step:oslo](//evil.example/pixel.gif)",
]
MARKDOWN = [
    *("# not a heading of ours", "Answer\n======", "## Evidence\n\n**oslo** forged"),
    *("- forged item\n- another", "1. forged\n2. list", "> forged quote"),
    "| a | b |\n|---|---|\n| <script>alert(1)</script> | ![x](https://evil.example/i) |",
    *("```\nnot closed", "```html\n<script>alert(1)</script>\n```"),
    "````\n```\n<script>alert(1)</script>\n```\n````",
    *("~~~\n</code></pre><script>alert(1)</script>\n~~~", "`` ` ``<script>`"),
    *("`<img src=x onerror=alert(1)>`", "**<script>alert(1)</script>**"),
    *("*[x](javascript:alert(1))*", "***bold***_it_~~gone~~", "a\\\nb\\`c", "***\n---\n___"),
    *("<details><summary>x</summary>y</details>", "[^1]\n\n[^1]: <script>alert(1)</script>"),
    *("$$\\href{javascript:alert(1)}{x}$$", ":smile: @someone #123", "[ ] [x] task"),
    *("&copy; &#x1f4a9; &amp;lt;", "x" * 5000 + "<script>alert(1)</script>", "*" * 400, "[" * 400),
    *("`" * 401, "**a** " * 300, "> " * 400 + "deep"),
    "".join(f"{'  ' * depth}- item\n" for depth in range(100)),
    "&#8238; &rlm; &#27;",
]
HIDING = [
    *("\u202etxt.exe", "\u2066\u2069\u200f\u200e", "user\u202e\u2066// admin\u2069\u2066"),
    *("zero\u200bwidth\u200c\ufeff", "\u2028line\u2029separators", "\x1b[2J\x1b[31mred"),
    *("\x1b]0;title\x07", "\x1b]8;;https://evil.example\x07x\x1b]8;;\x07", "\x9b31m"),
    *("\x08\x08\x08overwritten", "line\rover", "bell\x07\x7f", "tag\U000e0041\U000e0042"),
    *("\udcff lone", "\U0001d173music", "\xadsoft\u2060"),
]
PAYLOADS = [*PAGE, *SCRIPTS, *LINKS, *MARKDOWN, *HIDING]
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("p", "br", "ul", "ol", "li", "a", "code", "pre", "strong", "em", "blockquote", "table"),
    *("thead", "tbody", "tr", "th", "td", "hr"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "href", "rel", "class", "id", "start")
}
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)


class Seen(HTMLParser):
    """Everything of a page that could do something."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.odd: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)

    handle_comment = handle_pi = unknown_decl


def report_of(payload: str) -> Report:
    """A report with the payload wherever somebody else's words come in."""
    text = payload.encode("utf-8", "replace").decode()  # a plan has no half letters
    steps: list[dict[str, Any]] = [
        {"id": "oslo", "tool": "look", "title": text},
        {"id": "bad", "tool": "look"},
        {"id": "r", "instruction": "{{oslo}}"},
    ]
    plan = Plan.model_validate({"goal": text, "assumptions": [text], "steps": steps})
    states = {
        "oslo": StepState(StepStatus.DONE, result_hash="0" * 64),
        "bad": StepState(StepStatus.FAILED, error=payload),
        "r": StepState(StepStatus.DONE, result_hash="1" * 64),
    }
    run = Run(id=payload, request=payload, plan=plan, steps=Steps(states))
    results: dict[str, Any] = {"oslo": {"text": payload, payload: 1}, "r": payload}
    return make_report(run.replace(phase=RunStatus.PARTLY_DONE), results)


def unsafe(page: str) -> list[object]:
    """What of a page is not one of the few harmless things."""
    seen = Seen(page)
    bad: list[object] = list(seen.odd)
    for tag, attributes in seen.tags:
        bad += [tag] if tag not in TAGS else []
        bad += [(tag, name) for name in attributes if name not in ATTRIBUTES]
        target = attributes.get("href", "#")
        if not re.match(r"#step-|https?://[^/]|mailto:", target, re.IGNORECASE) and target != "#":
            bad.append(target)
    bad += [found for text in seen.text if (found := HIDDEN.findall(text))]
    return bad


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_page_does_nothing_whatever_it_tells_of(payload: str) -> None:
    page = to_html(report_of(payload))
    assert unsafe(page) == []
    assert [tag for tag, _ in Seen(page).tags].count("style") == 1
    assert not HIDDEN.search(page)


def bare_of_code(text: str) -> str:
    """Markdown without listings, code spans and escaped marks: what is left can have a meaning."""
    text = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    kept: list[str] = []
    at = 0
    while at < len(text):
        ticks = re.compile("`+").match(text, at)
        if text[at] == "\\":
            at += 2
        elif ticks:
            closing = re.compile(rf"(?<!`){ticks[0]}(?!`)").search(text, ticks.end())
            at = closing.end() if closing else ticks.end()
        else:
            kept.append(text[at])
            at += 1
    return "".join(kept)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_markdown_is_inert_whatever_it_tells_of(payload: str) -> None:
    text = to_markdown(report_of(payload))
    assert not HIDDEN.search(text)
    bare = bare_of_code(text)
    links = re.compile(r"\]\(<(?:https?://|mailto:)[^<>\s]+>\)", re.IGNORECASE)
    assert "<" not in links.sub("", bare)
    assert "](" not in links.sub("", bare)
    # An image is an outside request as soon as somebody looks.
    assert "![" not in bare
    assert not re.search(r"^\s{0,3}\[[^\]]+\]:", bare, re.MULTILINE)


def test_the_corpus_is_large() -> None:
    assert len(set(PAYLOADS)) >= 100


@given(st.text(alphabet=st.sampled_from("<>[]()!`*_#&;:/\\\"'|-= \nascriptjhve."), max_size=80))
def test_no_mixture_of_marks_gets_through(text: str) -> None:
    test_a_page_does_nothing_whatever_it_tells_of(text)
    test_markdown_is_inert_whatever_it_tells_of(text)


def test_what_is_harmless_is_still_shown_as_meant() -> None:
    answer = (
        "## Result\n\nIt is **cold** in *Oslo*: `-3`, see [the page](https://good.example/a?b=1).\n"
        "- one\n- two\n\n| city | C |\n|---|---|\n| Oslo | -3 |\n\n```\nraw <b>\n```"
    )
    page = to_html(report_of(answer))
    tags = [tag for tag, _ in Seen(page).tags]
    assert all(tags.count(tag) >= 1 for tag in ("strong", "em", "code", "table", "th", "td", "li"))
    links = [each for tag, each in Seen(page).tags if tag == "a" and "rel" in each]
    assert links[0]["href"] == "https://good.example/a?b=1"
    assert "good.example" in "".join(Seen(page).text)
    written = to_markdown(report_of(answer))
    for rendered in ("**cold**", "*Oslo*", "- one", "| Oslo | -3 |", "[the page](<https://good"):
        assert rendered in written


@pytest.mark.parametrize(
    "answer",
    [
        *("> " * 400 + "deep", "- " * 400 + "deep", "*a " * 3000 + "b* " * 3000 + "deep"),
        *("[" * 6000 + "deep", "a\n" * 250_000 + "deep"),
    ],
)
def test_what_is_too_deep_or_too_long_to_read_is_shown_letter_for_letter(answer: str) -> None:
    report = replace(report_of("x"), answer=replace(report_of("x").answer, text=answer))
    assert escape(answer) in to_html(report)
    assert answer in to_markdown(report)


def test_words_that_name_another_address_than_they_lead_to_are_told_on() -> None:
    page = to_html(report_of("[https://bank.example](https://evil.example/login)"))
    assert "(evil.example)" in "".join(Seen(page).text)


@pytest.mark.parametrize("opening", ["[", "*", "`", "|", "[x]("])
def test_long_runs_of_marks_are_read(opening: str) -> None:
    assert to_html(report_of(opening * 3000))


CODE = "def __init__(self):\n    return a * b  # <b>, [x](http://y), ```, | &\n\n# Title\n1. one"
LINES = st.text(st.sampled_from("_*#`~|[]()!<>&\\-+=1.:/ax 表"), max_size=20)


async def rendered(value: object) -> tuple[str, str]:
    """What an answer shows of a tool's result: as a plain text, and as Markdown."""

    @tool(effect="read")
    def look() -> Any:
        """Looks."""
        return value

    reply = {"id": "answer", "instruction": "{{look}}", "style": "results"}
    plan = Plan.model_validate({"goal": "g", "steps": [{"id": "look", "tool": "look"}, reply]})
    async with Plansmith(tools=[look], store="memory") as smith:
        run = await smith.run((await smith.submit(plan)).id)
        report = await load_report(smith.store, run.id)
    marked = answer_markdown(report)
    return as_text(marked), marked


@given(st.lists(LINES.map(str.strip).filter(bool), min_size=1, max_size=4))
async def test_the_text_of_a_tool_is_shown_letter_for_letter(lines: list[str]) -> None:
    text, _ = await rendered("\n".join(lines))
    assert [each for each in text.splitlines() if each] == lines


async def test_indented_text_keeps_its_lines_and_names_in_tables_keep_their_signs() -> None:
    assert await rendered(CODE) == (CODE, f"````text\n{CODE}\n````\n")
    rows = [{"name": "__init__", "note": "*a* <b>"}, {"name": "_x_", "note": "`c`"}]
    text, marked = await rendered(rows)
    assert "| __init__ | *a* <b> |" in text
    assert "| _x_ | `c` |" in text
    assert "| \\_\\_init\\_\\_ | \\*a\\* &lt;b&gt; |" in marked


async def test_lists_within_rows_are_escaped_once_and_a_link_without_words_is_shown() -> None:
    text, _ = await rendered([{"path": "a.txt", "columns": ["a|b", "x_y_"], "n": 3}])
    assert text == "- a.txt (columns: a|b; x_y_, n: 3)"
    assert as_text(harmless("[](https://e.example) see above")).startswith(" <https://e.example>")
