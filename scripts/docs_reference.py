"""Makes the pages of the reference from the code: Python, commands, settings, HTTP, events."""

import inspect
import json
import os
import re
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import ModuleType
from typing import Any, Final, NamedTuple, get_args

from pydantic import BaseModel

import plansmith
import plansmith.testing
import plansmith_planner
from plansmith.plan.events import AnyBody
from plansmith_cli.command_table import DAILY, MORE, verbs
from plansmith_cli.config import Settings
from plansmith_cli.main import load_command, parser_of
from plansmith_server.app import ROUTES
from plansmith_server.openapi import openapi

Schema = Mapping[str, Any]


def reference() -> dict[str, str]:
    """Returns the pages by their names."""
    return {
        **{f"{name}.md": _python(page) for name, page in PYTHON_PAGES.items()},
        "commands.md": _commands(),
        "settings.md": _settings(),
        "http.md": _http(),
        "events.md": _events(),
    }


class PythonPage(NamedTuple):
    """A page that docstrings make: what it is about, and the names on it."""

    title: str
    about: str
    names: Sequence[str]


def _public(package: ModuleType, first: str) -> list[str]:
    names = sorted(package.__all__, key=lambda name: (name != first, name.lower()))
    return [f"{package.__name__}.{name}" for name in names]


# tests/docs/test_examples.py looks at every name here.
PYTHON_PAGES: Final = {
    "api": PythonPage(
        "Python",
        "What `from plansmith import …` and `from plansmith_planner import …` have. Type the "
        "examples into `python -m asyncio`: there, `await` works at the prompt. The examples "
        "of a method go on from that of its class.",
        [*_public(plansmith, "Plansmith"), *_public(plansmith_planner, "model")],
    ),
    "parts": PythonPage(
        "Parts of a Plansmith",
        "The options of `Plansmith(…)`, and what `smith.templates`, `smith.schedules`, "
        "`smith.threads` and `smith.runs` can do.",
        (
            "plansmith.arguments.Options",
            "plansmith.runs.template_book.TemplateBook",
            "plansmith.schedules.service.Schedules",
            "plansmith.schedules.service.ScheduleSettings",
            "plansmith.schedules.service.NewSettings",
            "plansmith_planner.threads.service.Threads",
            "plansmith_planner.threads.thread.Thread",
            "plansmith.runs.service.RunService",
            "plansmith.runs.editing.PlanEditing",
            "plansmith.runs.journals.Journals",
            "plansmith.plan.limits.BudgetLimits",
            "plansmith.review.settings.ReviewPolicy",
        ),
    ),
    "errors": PythonPage(
        "Errors",
        "Every exception that Plansmith raises on purpose. All are kinds of `PlansmithError`.",
        ("plansmith.errors",),
    ),
    "ports": PythonPage(
        "Ports",
        "What a model, a tool source, an agent, a store or a clock of yours must have. They are "
        "protocols: you inherit from nothing.",
        ("plansmith.ports", "plansmith.store_ports"),
    ),
    "testing": PythonPage(
        "Testing",
        "Fakes for the tests of your program: `from plansmith.testing import …`.",
        _public(plansmith.testing, "ScriptedModel"),
    ),
}


# What a program uses of the parts that Plansmith makes itself; the rest serves other parts.
MEMBERS: Final[Mapping[str, Sequence[str]]] = {
    "plansmith.runs.template_book.TemplateBook": (
        *("all", "get", "shipped", "save", "take_in", "remove", "problems", "plan", "use"),
    ),
    "plansmith.schedules.service.Schedules": (
        *("create", "create_each", "all", "get", "change", "pause", "resume", "remove"),
        *("fire_now", "backfill", "history", "next_fires", "tick", "carried", "run_forever"),
    ),
    "plansmith_planner.threads.service.Threads": (
        "open",
        "last",
        "list",
        "delete",
        "delete_before",
    ),
    "plansmith_planner.threads.thread.Thread": ("id", "history", "runs", "say", "undo", "refresh"),
    "plansmith.runs.service.RunService": ("all", "undo_effects", "resume_all", "editing", "skip"),
    "plansmith.runs.editing.PlanEditing": ("undo", "redo"),
    "plansmith.runs.journals.Journals": ("repair",),
}


def _python(page: PythonPage) -> str:
    parts = "\n\n".join(_directive(name) for name in page.names)
    return f"# {page.title}\n\n{page.about}\n\n{parts}\n"


def _directive(name: str) -> str:
    """Returns the line that shows a name; of a part, without its constructor."""
    if name not in MEMBERS:
        return f"::: {name}"
    members = ", ".join(MEMBERS[name])
    options = f"      members: [{members}]\n      merge_init_into_class: false"
    return f"::: {name}\n    options:\n{options}"


def _commands() -> str:
    lines = [
        "# Commands",
        "",
        "What each command says about itself with `--help`: first the daily ones.",
    ]
    words = [*DAILY, *(name for group in MORE.values() for name in group)]
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "88"  # as wide as a block on the site
    try:
        for name in chain.from_iterable(map(_with_verbs, words)):
            parser = parser_of(name, load_command(name))
            lines += ["", f"{'###' if ' ' in name else '##'} {name}", *_help_of(parser)]
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return "\n".join(lines) + "\n"


def _with_verbs(name: str) -> list[str]:
    return [name, *chain.from_iterable(map(_with_verbs, verbs(name)))]


def _help_of(parser: ArgumentParser) -> list[str]:
    return ["", "```text", parser.format_help().rstrip(), "```"]


def _settings() -> str:
    head = [
        "# Settings",
        "",
        "Every key of `config.toml` and `plansmith.toml`. `NAME` is a name that you choose.",
        "[Settings](../settings.md) explains where they come from and which win.",
    ]
    tables: dict[str, list[str]] = {}
    for key, kind, default, about in setting_rows(Settings):
        table = key.rpartition(".")[0]
        tables.setdefault(table, []).append(
            f"| `{key.rpartition('.')[2]}` | {kind} | {default} | {about} |"
        )
    for table, rows in sorted(tables.items(), key=lambda each: (each[0] != "", each[0])):
        title = f"## [{table}]" if table else "## At the top"
        head += ["", title, "", "| key | type | default | what it is |", "|---|---|---|---|", *rows]
    return "\n".join(head) + "\n"


def setting_rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yields key, type, default and meaning of each setting; tables of tables have `NAME`."""
    told = attributes_of(model)
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        inner, is_named = _table_of(field.annotation)
        key = f"{prefix}{name}"
        if inner is not None:
            yield from setting_rows(inner, f"{key}.NAME." if is_named else f"{key}.")
            continue
        part = schema["properties"][name]
        default = part.get("default")
        shown = "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"
        about = field.description or told.get(name, "")
        yield key, _type(part, schema.get("$defs", {})), shown, _sentence(about)


def _table_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Returns the settings class of a table, and whether there is one for each name."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation, False
    arguments = get_args(annotation)
    is_named = getattr(annotation, "__origin__", None) is dict
    found = [each for each in arguments if inspect.isclass(each) and issubclass(each, BaseModel)]
    return (found[0], is_named) if found else (None, False)


def attributes_of(model: type) -> dict[str, str]:
    """Returns what a docstring says about each field under `Attributes:`."""
    text = inspect.getdoc(model) or ""
    section = re.search(r"^Attributes:\n((?: {4}.*\n?|\n)+)", text, re.MULTILINE)
    entries = re.split(r"^ {4}(?=\w)", section[1] if section else "", flags=re.MULTILINE)
    pairs = (each.partition(": ") for each in entries if ": " in each)
    return {name: " ".join(about.split()) for name, _, about in pairs}


def _sentence(text: str) -> str:
    whole = text[:1].upper() + text[1:] + ("" if text.endswith(".") or not text else ".")
    return whole.replace("|", "\\|")


def _type(part: Schema, known: Mapping[str, Any]) -> str:
    options = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if options:
        return " or ".join(dict.fromkeys(_type(each, known) for each in options))
    if ref := part.get("$ref", ""):
        return _type(known[ref.rpartition("/")[2]], known)
    if "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        return ", ".join(f"`{each}`" for each in values if each != "")
    if part.get("type") == "array":
        inner = _type(part.get("items", {}), known)
        if inner == "any":
            return "list"
        return f"list of {inner}" if inner.startswith("`") else f"list of {inner}s"
    return _WORDS.get(str(part.get("type", "any")), str(part.get("type", "any")))


_WORDS: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "object": "table",
}


def _http() -> str:
    document = openapi(ROUTES)
    known = document["components"]["schemas"]
    lines = [
        "# HTTP",
        "",
        "Every request of [the server](../server.md), from its document `/openapi.json`.",
        "An answer that is an error is a problem as RFC 9457 has it, with a `code` and a `hint`.",
    ]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            [group, *_] = operation.get("tags") or ["others"]
            groups.setdefault(group, []).extend(_operation(method, path, operation, known))
    for group, parts in groups.items():
        lines += ["", f"## {group.replace('_', ' ').capitalize()}", *parts]
    return "\n".join(lines) + "\n"


def _operation(
    method: str, path: str, operation: Mapping[str, Any], known: Schema
) -> Iterator[str]:
    yield from ["", f"### {method.upper()} {path}", "", f"{operation.get('summary', '')}."]
    scopes = [scope for each in operation.get("security", ()) for scope in each.get("token", ())]
    if scopes:
        yield from ["", f"Needs a token that may `{scopes[0]}`."]
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each.get('schema', {}), known)} |"
        for each in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    rows += [row for body in content.values() for row in _body(body.get("schema", {}), known)]
    if rows:
        yield from ["", "| field | in | type |", "|---|---|---|", *rows]
    yield from _example("Request", content)
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            yield from _example(f"Answer `{status}`", answer.get("content", {}))
    yield from ["", f"Answers: {', '.join(f'`{code}`' for code in operation['responses'])}."]


def _body(schema: Schema, known: Schema) -> Iterator[str]:
    """Yields a row for each field of a body."""
    if ref := schema.get("$ref", ""):
        schema = known[ref.rpartition("/")[2]]
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        place = "body, required" if name in required else "body"
        yield f"| `{name}` | {place} | {_type(part, known)} |"


def _example(title: str, content: Mapping[str, Any]) -> Iterator[str]:
    for body in content.values():
        if "example" in body:
            written = json.dumps(body["example"], indent=2, ensure_ascii=False)
            yield from ["", f"{title}:", "", "```json", written, "```"]


def _events() -> str:
    lines = [
        "# Events",
        "",
        "What a journal is made of. Every event also has the `run`, its `number`, the time (`at`)",
        "and who caused it (`by`). A page shows how to",
        "[read them with SQL](../running.md#reading-a-store-with-sql).",
    ]
    for body in get_args(AnyBody):
        told = inspect.cleandoc(body.__doc__ or "")
        lines += ["", f"## {body.type}", "", told]
        fields = {
            name: str(kind)
            for name, kind in body.__annotations__.items()
            if not str(kind).startswith("ClassVar")
        }
        if fields:
            lines += ["", "| field | type |", "|---|---|"]
        lines += [f"| `{name}` | {_event_type(kind)} |" for name, kind in fields.items()]
    return "\n".join(lines) + "\n"


_EVENT_TYPES: Final = {
    "str": "text",
    "ShownField": "text, or a code with fields",
    "Count": "whole number",
    "Positive": "whole number",
    "int": "whole number",
    "bool": "true or false",
    "Seconds": "seconds",
    "Moment": "time",
    "JsonField": "JSON",
}


def _event_type(kind: str) -> str:
    """Says in words what a field holds, as far as words are shorter than the type."""
    plain = kind.removesuffix(" | None")
    inner = re.fullmatch(r"tuple\[(\w+), \.\.\.\]", plain)
    shown = f"list of {_event_type(inner[1])}" if inner else _EVENT_TYPES.get(plain)
    if shown is None:
        shown = "`" + plain.replace(" | ", "` or `") + "`"
    return f"{shown}, or none" if plain != kind else shown
