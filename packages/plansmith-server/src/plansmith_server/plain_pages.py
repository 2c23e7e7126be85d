"""Pages that need nothing of the built page: signing in, a link that was used, no such address."""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Final

from starlette.responses import HTMLResponse

from plansmith_server.errors import wanted_language

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
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# The style is named by its hash; nothing else is loaded and nothing runs.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_TEXTS: Final = {
    "sign_in": {
        "en": (
            "This browser is not signed in",
            (
                "<p>Open the link that <code>plansmith serve</code> printed when it started; it"
                " works once. <code>plansmith tokens link</code> makes a new one.</p>"
            ),
        ),
        "zh": (
            "此浏览器尚未登录",
            (
                "<p>请打开 <code>plansmith serve</code> 启动时显示的链接；它只能用一次。"
                "<code>plansmith tokens link</code> 可生成新的链接。</p>"
            ),
        ),
    },
    "used": {
        "en": (
            "This link has been used",
            (
                "<p>A link signs in one browser, once. If it was this browser, just go on:</p>"
                '<p><a class="go" href="/">Open Plansmith</a></p>'
                "<p>For another browser, run <code>plansmith tokens link</code> on the machine of"
                " the server: it makes a new link, which works for ten minutes.</p>"
            ),
        ),
        "zh": (
            "这个链接已经用过",
            (
                "<p>一个链接只能让一个浏览器登录一次。如果就是这个浏览器，请继续：</p>"
                '<p><a class="go" href="/">打开 Plansmith</a></p>'
                "<p>要在另一个浏览器中登录，请在服务器所在的机器上运行"
                " <code>plansmith tokens link</code>，它会生成十分钟内有效的新链接。</p>"
            ),
        ),
    },
    "switch": {
        "en": (
            "Log in as somebody else?",
            (
                "<p>This browser is logged in as <b>{old}</b>. The link that you followed logs it"
                " in as <b>{new}</b>: what you do then is done in that name.</p>"
                '<form method=post action="/?token={token}"><button class=go>Log in as {new}'
                '</button></form><p><a href="/">Stay logged in as {old}</a></p>'
            ),
        ),
        "zh": (
            "要以另一个人的身份登录吗？",
            (
                "<p>此浏览器以 <b>{old}</b> 的身份登录。你打开的链接会让它以 <b>{new}</b>"
                " 的身份登录：之后所做的一切都算在那个名下。</p>"
                '<form method=post action="/?token={token}"><button class=go>以 {new} 的身份登录'
                '</button></form><p><a href="/">保持 {old} 的登录</a></p>'
            ),
        ),
    },
    "lost": {
        "en": (
            "There is nothing at this address",
            (
                "<p>The link may be old or mistyped. Your runs are all still there.</p>"
                '<p><a class="go" href="/">Open Plansmith</a></p>'
            ),
        ),
        "zh": (
            "这个地址没有内容",
            (
                "<p>链接可能已过期或输入有误。你的运行记录都还在。</p>"
                '<p><a class="go" href="/">打开 Plansmith</a></p>'
            ),
        ),
    },
}
_BY_PROVIDER: Final = {
    "en": '<p><a class="go" href="/login">Log in</a> with the account of your organisation.</p>',
    "zh": '<p><a class="go" href="/login">登录</a>（使用你所在组织的账号）</p>',
}


def plain_page(
    kind: str, status: int, *, accepts: str = "", by_provider: bool = False, **names: str
) -> HTMLResponse:
    """Returns a page in the reader's language; `by_provider` adds the log-in of a provider."""
    language = wanted_language(accepts)
    title, text = _TEXTS[kind].get(language, _TEXTS[kind]["en"])
    text = text.format(**{name: html.escape(each) for name, each in names.items()})
    more = _BY_PROVIDER.get(language, _BY_PROVIDER["en"]) if by_provider else ""
    whole = (
        f'<!doctype html><html lang="{language}"><meta charset=utf-8>'
        f'<meta name=viewport content="width=device-width"><title>Plansmith</title>'
        f"<style>{_STYLE}</style><main><h1>{title}</h1>{text}{more}</main>"
    )
    return HTMLResponse(whole, status, headers={"Content-Security-Policy": _POLICY})


def onward(address: str) -> HTMLResponse:
    """Returns a page that goes on by itself: only a visit from our own site has strict cookies."""
    there = html.escape(address)
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title>"
        f'<meta http-equiv=refresh content="0;url={there}"><p><a href="{there}">Continue</a></p>'
    )
