"""Route of the API's page: the OpenAPI document to read, without scripts, from here alone."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, cast

from starlette.responses import HTMLResponse

from plansmith_server.openapi import Answer, Ask, Nothing, openapi

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1a2230; --dim: #596275; --line: #dfe3ea; --box: #f3f5f8;
  --paper: #fff; --back: #f8f9fb; --mark: #2458c5; --green: #17713f; --amber: #8a5300;
  --red: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaf0; --dim: #a3adbd; --line: #333b49;
  --box: #1f2530; --paper: #181d26; --back: #12161d; --mark: #8fb4ff; --green: #6fce97;
  --amber: #e5b365; --red: #ff9d94; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--back); font: 15px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
.all { display: grid; grid-template-columns: 13rem minmax(0, 58rem); gap: 2rem; padding: 1.5rem; }
nav { position: sticky; top: 1.5rem; align-self: start; max-height: calc(100vh - 3rem);
  overflow: auto; display: flex; flex-direction: column; gap: .3rem; }
nav a { color: var(--dim); text-decoration: none; } nav a:hover { color: var(--mark); }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font-size: .85rem; color: var(--dim); margin: 1rem 0 .3rem; }
a { color: var(--mark); } p { margin: .4rem 0; } .dim { color: var(--dim); }
details.op { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  margin: .35rem 0; } details.op > summary { padding: .5rem .8rem; cursor: pointer; display: flex;
  flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; list-style: none; }
details.op > summary::-webkit-details-marker { display: none; }
details.op > div { padding: 0 .9rem .9rem; border-top: 1px solid var(--line); }
.method { font: 650 .78rem/1.6 ui-monospace, monospace; min-width: 3.6rem; color: var(--green); }
.POST, .PUT, .PATCH { color: var(--amber); } .DELETE { color: var(--red); }
code, pre { font-family: ui-monospace, monospace; font-size: .87em; }
pre { background: var(--box); border-radius: 6px; padding: .6rem .8rem; overflow-x: auto;
  white-space: pre-wrap; margin: .3rem 0; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: start; padding: .2rem .8rem
  .2rem 0; vertical-align: top; border-bottom: 1px solid var(--line); font-weight: 400; }
th { color: var(--dim); font-size: .85rem; } td:first-child { white-space: nowrap; }
@media (max-width: 760px) { .all { grid-template-columns: minmax(0, 1fr); padding: 1rem; }
  nav { position: static; flex-flow: row wrap; gap: .2rem .9rem; max-height: none; } }
"""
_DIGEST: Final = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_POLICY: Final = (
    f"default-src 'self'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'"
)
_TAGS: Final = {"runs": "Runs", "plans": "Plans", "decisions": "Decisions and inbox"}
_INTRO: Final = (
    "<p>Every route wants a token with the scope that is named, as"
    " <code>Authorization: Bearer …</code>; <code>plansmith tokens create</code> makes one. This"
    " browser is logged in, so links of GET routes open at once. Errors are problem+json with"
    " <code>code</code>, <code>detail</code> and <code>hint</code>."
    ' The same as data: <a href="/openapi.json">/openapi.json</a>.</p>'
)
_CODE: Final = re.compile(r"`([^`]+)`")
Schema = Mapping[str, Any]


async def page(ask: Ask, _: Nothing) -> Answer:
    """Returns the description of all routes as a page."""
    text = api_page(openapi(ask.request.app.state.routes))
    return HTMLResponse(text, headers={"Content-Security-Policy": PAGE_POLICY})


def api_page(document: Mapping[str, Any]) -> str:
    """Returns the page of an OpenAPI document."""
    tags: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            tag = str(operation["tags"][0])
            tags.setdefault(tag, []).append((method.upper(), path, operation))
    title = f"{_text(document['info']['title'])} API {_text(document['info']['version'])}"
    names = {tag: _TAGS.get(tag, tag.capitalize()) for tag in tags}
    index = "".join(f'<a href="#{_text(tag)}">{_text(names[tag])}</a>' for tag in tags)
    parts = "".join(
        f'<h2 id="{_text(tag)}">{_text(names[tag])}</h2>'
        + "".join(_operation(each, document) for each in operations)
        for tag, operations in tags.items()
    )
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{title}</title><style>{STYLE}</style><link rel="icon" href="/icon.svg">'
    )
    intro = f"<h1>{title}</h1><p>{_text(document['info']['description'])}</p>{_INTRO}"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><div class="all">'
        f'<nav aria-label="Parts of the API">{index}</nav><main>{intro}{parts}</main>'
        "</div></body></html>\n"
    )


def _operation(told: tuple[str, str, Schema], document: Mapping[str, Any]) -> str:
    method, path, operation = told
    name = _text(operation["operationId"])
    summary = (
        f'<summary><span class="method {method}">{method}</span><code>{_text(path)}</code>'
        f'<span class="dim">{_text(operation["summary"])}</span></summary>'
    )
    body = "".join(_parts(method, path, operation, document))
    return f'<details class="op" id="{name}">{summary}<div>{body}</div></details>'


def _parts(method: str, path: str, operation: Schema, document: Mapping[str, Any]) -> Iterator[str]:
    security = operation.get("security", [])
    scopes = [scope for each in security for scope in each.get("token", ())]
    needs = "".join(f"<p>Needs a token with the scope <code>{_text(x)}</code>.</p>" for x in scopes)
    yield needs or "<p>Needs no token.</p>"
    if method == "GET" and "{" not in path and path != "/v1/events":
        yield f'<p><a href="{_text(path)}">Open {_text(path)}</a></p>'
    if rows := [_parameter(each, document) for each in operation.get("parameters", ())]:
        yield f"<h3>Parameters</h3>{_table(('Name', 'Where', 'What'), rows)}"
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content:
        yield from _content("Body", content, document)
    yield f"<h3>Example</h3><pre>{_text(_curl(method, path, content or {}))}</pre>"
    failures: list[tuple[str, ...]] = []
    for status, answer in operation["responses"].items():
        found = _resolved(answer, document)
        if not str(status).startswith("2"):
            failures.append((_text(status), _prose(found["description"])))
            continue
        for media, form in found.get("content", {}).items():
            yield from _content(f"Answer {status}, {media}", form, document)
    if failures:
        yield f"<h3>Errors</h3>{_table(('Status', 'When'), failures)}"


def _content(title: str, content: Schema, document: Mapping[str, Any]) -> Iterator[str]:
    schema = _resolved(content.get("schema", {}), document)
    yield f"<h3>{_text(title)}</h3>"
    if schema.get("description"):
        yield f"<p>{_prose(schema['description'])}</p>"
    required = schema.get("required", ())
    rows = [
        (_field(name, name in required), _text(_kind(form)), _prose(form.get("description", "")))
        for name, form in schema.get("properties", {}).items()
    ]
    if rows:
        yield _table(("Field", "Type", "What"), rows)
    if "example" in content:
        example = json.dumps(content["example"], indent=2, ensure_ascii=False)
        yield f"<pre>{_text(example)}</pre>"


def _parameter(given: Schema, document: Mapping[str, Any]) -> tuple[str, ...]:
    schema = _resolved(given["schema"], document)
    what = f"{_kind(schema)} {schema.get('description', '')}".strip()
    return _field(given["name"], given.get("required", False)), _text(given["in"]), _text(what)


def _field(name: str, required: bool) -> str:  # noqa: FBT001 - a detail of the row
    return f"<code>{_text(name)}</code>{'' if required else ' <span class=dim>optional</span>'}"


def _kind(schema: Schema) -> str:
    """Returns the type of a value in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    kind = str(schema.get("type", "any JSON"))
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    limits = [
        f"{word} {schema[name]}"
        for name, word in (("minimum", "from"), ("maximum", "to"), ("default", "default"))
        if schema.get(name) not in (None, "")
    ]
    form = f" ({schema['format']})" if "format" in schema else ""
    return f"{kind}{form}{', ' if limits else ''}{', '.join(limits)}"


def _curl(method: str, path: str, content: Schema) -> str:
    """Returns a command that asks for it, for a shell with URL and TOKEN."""
    verb = "" if method == "GET" or (method == "POST" and content) else f" -X {method}"
    place = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
    line = f'curl{verb} -H "Authorization: Bearer $TOKEN" "$URL{place}"'
    if not content:
        return line
    body = json.dumps(content.get("example", {}), ensure_ascii=False)
    quoted = body.replace("'", "'\\''")
    return f"{line} \\\n  -H \"Content-Type: application/json\" -d '{quoted}'"


def _resolved(schema: Schema, document: Mapping[str, Any]) -> Schema:
    reference = str(schema.get("$ref", ""))
    if not reference:
        return schema
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return cast("Schema", found)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    heads = "".join(f'<th scope="col">{_text(each)}</th>' for each in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", _text(text))


def _text(value: object) -> str:
    return escape(str(value))
