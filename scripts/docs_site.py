"""Puts together what the documentation site is made of: docs/, and pages made from the code."""

import inspect
import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final, get_args

import plansmith
from plansmith.cli.command_table import COMMANDS
from plansmith.cli.main import main as run_command
from plansmith.config import Settings
from plansmith.plan.events import AnyBody
from plansmith.server.openapi import openapi
from plansmith.server.route_table import ROUTES

ROOT: Final = Path(__file__).resolve().parent.parent
# Pages that the site has from elsewhere, by where they are in the repository.
ELSEWHERE: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "bench/results": "results",
    "examples/README.md": "examples.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "SECURITY.md": "security-policy.md",
}
# Folders whose pages are all in the menu.
FOLDERS: Final = ("how-to", "results")
LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def assemble(out: Path) -> None:
    """Writes the sources of the site to a folder."""
    pages = out / "docs"
    shutil.copytree(ROOT / "docs", pages)
    for source, target in ELSEWHERE.items():
        for file in sorted((ROOT / source).glob("*.md")) or [ROOT / source]:
            place = pages / (f"{target}/{file.name}" if file.parent == ROOT / source else target)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    places = dict(_places(pages))
    for place in pages.rglob("*.md"):
        relative = place.relative_to(pages).as_posix()
        source = next((known for known, at in places.items() if at == relative), "")
        text = place.read_text(encoding="utf-8")
        place.write_text(_relinked(text, source, relative, places), encoding="utf-8")
    for name, text in reference().items():
        place = pages / "reference" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = config.replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    for folder in FOLDERS:
        names = sorted(file.name for file in (pages / folder).glob("*.md"))
        listed = ", ".join(f"{folder}/{name}" for name in names)
        config = re.sub(
            rf"\[\] # every page of .*{folder}$", f"[{listed}]", config, flags=re.MULTILINE
        )
    (out / "mkdocs.yml").write_text(config, encoding="utf-8")


def _places(pages: Path) -> Iterator[tuple[str, str]]:
    """Yields each page's place in the repository, and on the site."""
    for file in pages.rglob("*"):
        place = file.relative_to(pages).as_posix()
        folder, _, name = place.rpartition("/")
        moved = {at: source for source, at in ELSEWHERE.items()}
        if place in moved:
            yield moved[place], place
        elif folder in moved:
            yield f"{moved[folder]}/{name}", place
        else:
            yield f"docs/{place}", place


def _relinked(text: str, source: str, place: str, places: Mapping[str, str]) -> str:
    """Points links at the pages of the site; what the site does not have becomes plain text."""

    def relink(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        wanted = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120
        if wanted not in places:
            return words
        return f"[{words}]({os.path.relpath(places[wanted], os.path.dirname(place))}{anchor})"  # noqa: PTH120

    return LINK.sub(relink, text)


def reference() -> dict[str, str]:
    """Returns the pages that are made from the code."""
    return {
        "api.md": _api(),
        "commands.md": _commands(),
        "settings.md": _settings(),
        "http.md": _http(),
        "events.md": _events(),
    }


def _api() -> str:
    names = sorted(plansmith.__all__, key=lambda name: (name != "Plansmith", name.lower()))
    parts = "\n\n".join(f"::: plansmith.{name}" for name in names)
    return f"# Python\n\nWhat `from plansmith import …` has.\n\n{parts}\n"


def _commands() -> str:
    lines = ["# Commands", "", "What each command says about itself with `--help`."]
    os.environ["COLUMNS"] = "100"
    for name, entry in COMMANDS.items():
        said = io.StringIO()
        with redirect_stdout(said), suppress(SystemExit):
            run_command([name, "--help"])
        lines += ["", f"## {name}", "", f"{entry.summary.capitalize()}.", ""]
        lines += ["```text", said.getvalue().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _settings() -> str:
    head = [
        "# Settings",
        "",
        "Every key, its type and its default. [Settings](../settings.md) explains them.",
        "",
    ]
    rows = ["| key | type | default |", "|---|---|---|"]
    schema = Settings.model_json_schema()
    rows += _setting_rows("", schema, schema.get("$defs", {}))
    return "\n".join(head + rows) + "\n"


def _setting_rows(
    prefix: str, schema: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        key = f"{prefix}{name}"
        found = _resolved(part, known)
        if "properties" in found:
            yield from _setting_rows(f"{key}.", found, known)
        else:
            default = part.get("default", found.get("default"))
            shown = "" if default in (None, "", [], {}) else f"`{default}`"
            yield f"| `{key}` | {_type(part, known)} | {shown} |"


def _resolved(part: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    options = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    part = options[0] if len(options) == 1 else part
    ref = part.get("$ref", "")
    return known[ref.rpartition("/")[2]] if ref else part


def _type(part: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    found = _resolved(part, known)
    if "enum" in found:
        return ", ".join(f"`{each}`" for each in found["enum"])
    if found.get("type") == "array":
        return f"list of {_type(found.get('items', {}), known)}"
    if found.get("type") == "object":
        return "table"
    return str(found.get("type", "any"))


def _http() -> str:
    document = openapi(ROUTES)
    lines = [
        "# HTTP",
        "",
        "Every request of [the server](../server.md), from its OpenAPI document.",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += ["", f"## {method.upper()} {path}", "", f"{operation.get('summary', '')}."]
            if operation.get("description"):
                lines += ["", operation["description"]]
            rows = [
                f"| `{each['name']}` | {each['in']} | {each.get('description', '')} |"
                for each in operation.get("parameters", ())
            ]
            if rows:
                lines += ["", "| parameter | in | |", "|---|---|---|", *rows]
            answers = ", ".join(f"`{code}`" for code in operation["responses"])
            lines += ["", f"Answers: {answers}."]
    return "\n".join(lines) + "\n"


def _events() -> str:
    lines = ["# Events", "", "What a journal is made of, in the words of the code."]
    for body in get_args(AnyBody):
        told = inspect.cleandoc(body.__doc__ or "")
        lines += ["", f"## {body.type}", "", told, ""]
        lines += ["| field | type |", "|---|---|"]
        for name, kind in body.__annotations__.items():
            lines.append(f"| `{name}` | `{str(kind).replace('|', 'or')}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
