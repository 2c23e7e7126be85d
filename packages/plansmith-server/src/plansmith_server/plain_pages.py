"""Pages that need nothing of the built page: signing in, a link that was used, no such address."""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Final

from starlette.responses import HTMLResponse

from plansmith.plan.sentence import Sentence, in_language
from plansmith_server.errors import wanted_language


def policy_hash(content: str) -> str:
    """Returns how a policy names a style or a script by its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:16px/1.55 system-ui,sans-serif;margin:0;"
    "min-height:100vh;display:grid;place-items:center;background:Canvas;color:CanvasText}"
    "main{max-width:32rem;padding:2rem}h1{font-size:1.5rem;margin:0 0 .6rem}p{margin:.6rem 0}"
    "code{font:.9em ui-monospace,monospace;background:color-mix(in srgb,CanvasText 9%,Canvas);"
    "padding:.1em .35em;border-radius:4px}"
    ".go{display:inline-block;margin-top:.6rem;padding:.5rem 1rem;border-radius:6px;"
    "background:#2450b8;color:#fff;text-decoration:none;font:inherit;"
    "font-weight:600;border:0;cursor:pointer}"
)
# The style is named by its hash; nothing else is loaded and nothing runs.
_POLICY: Final = (
    f"default-src 'none'; style-src {policy_hash(_STYLE)}; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HOME: Final = Sentence('<a class="go" href="/">Open Plansmith</a>')
_LOG_IN: Final = Sentence(
    '<a class="go" href="/login">Log in</a> with the account of your organisation.'
)
# The title and the paragraphs of each page.
_TEXTS: Final = {
    "sign_in": (
        Sentence("This browser is not signed in"),
        Sentence(
            "Open the link that <code>plansmith serve</code> printed when it started; it works "
            "once. <code>plansmith tokens link</code> makes a new one."
        ),
    ),
    "used": (
        Sentence("This link has been used"),
        Sentence("A link signs in one browser, once. If it was this browser, just go on:"),
        _HOME,
        Sentence(
            "For another browser, run <code>plansmith tokens link</code> on the machine of the "
            "server: it makes a new link, which works for ten minutes."
        ),
    ),
    "lost": (
        Sentence("There is nothing at this address"),
        Sentence("The link may be old or mistyped. Your runs are all still there."),
        _HOME,
    ),
}


def plain_page(
    kind: str, status: int, *, accepts: str = "", by_provider: bool = False
) -> HTMLResponse:
    """Returns a page in the reader's language; `by_provider` adds the log-in of a provider."""
    title, *parts = _TEXTS[kind]
    return _page(status, accepts, title, *parts, *([_LOG_IN] if by_provider else []))


def switch_page(old: str, new: str, token: str, *, accepts: str) -> HTMLResponse:
    """Asks a browser that is logged in whether a link may log it in as somebody else."""
    old, new, token = html.escape(old), html.escape(new), html.escape(token)
    who = Sentence(
        "This browser is logged in as <b>{old}</b>. The link that you followed logs it in as "
        "<b>{new}</b>: what you do then is done in that name.",
        old=old,
        new=new,
    )
    button = Sentence(
        '<form method=post action="/?token={token}"><button class=go>Log in as {new}</button>'
        "</form>",
        token=token,
        new=new,
    )
    stay = Sentence('<a href="/">Stay logged in as {old}</a>', old=old)
    return _page(200, accepts, Sentence("Log in as somebody else?"), who, button, stay)


def _page(status: int, accepts: str, title: str, *parts: str) -> HTMLResponse:
    language = wanted_language(accepts)
    text = "".join(f"<p>{in_language(each, language)}</p>" for each in parts)
    whole = (
        f'<!doctype html><html lang="{language}"><meta charset=utf-8>'
        f'<meta name=viewport content="width=device-width"><title>Plansmith</title>'
        f"<style>{_STYLE}</style><main><h1>{in_language(title, language)}</h1>{text}</main>"
    )
    return HTMLResponse(whole, status, headers={"Content-Security-Policy": _POLICY})


def redirect_page(address: str) -> HTMLResponse:
    """Returns a page that goes on by itself: only a visit from our own site has strict cookies."""
    there = html.escape(address)
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title>"
        f'<meta http-equiv=refresh content="0;url={there}"><p><a href="{there}">Continue</a></p>'
    )
