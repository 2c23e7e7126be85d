"""`plansmith templates`: saves plans by name, with parameters, and runs them again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.review.render import plan_lines, value_line
from plansmith.templates.book import Template, TemplateBook, exported
from plansmith.templates.parameters import places
from plansmith.text import clip, safe
from plansmith_cli.commands.report import write_file
from plansmith_cli.commands.runs import names_run
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import run_interactively
from plansmith_cli.options import add_json, add_parts, add_running, add_store_alone, add_tools
from plansmith_cli.session import Session, session_command
from plansmith_cli.ui.output import load_plan, print_as, print_json, print_lines, read_file
from plansmith_planner.suggest import suggest

_NAMES: Final = "list|show|save|use|suggest|export|import|remove"


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar=_NAMES)
    listing = actions.add_parser("list", help="list all templates")
    show = actions.add_parser("show", help="show the parameters and the plan of a template")
    save = actions.add_parser("save", help="make a template of a run or a plan file")
    use = actions.add_parser("use", help="run a template, reviewed like any plan")
    like = actions.add_parser("suggest", help="find templates that fit a request")
    export = actions.add_parser("export", help="write a template to a file")
    take = actions.add_parser("import", help="read a template from a file, as the next version")
    remove = actions.add_parser("remove", help="remove a template")
    for action in (show, use, export, remove):
        action.add_argument("name", metavar="NAME", help="a name such as weather or weather@2")
    _configure_save(save)
    like.add_argument("request", metavar="REQUEST", help="what is wanted, in words")
    use.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter; repeatable"
    )
    export.add_argument("--yaml", action="store_true", help="write YAML")
    export.add_argument("-o", "--output", metavar="FILE", help="write it to a file instead")
    take.add_argument("file", metavar="FILE", help="a template as JSON or YAML; - for stdin")
    take.add_argument("--name", default="", help="keep it under another name")
    for action in (listing, show, save, like, export, take, remove):
        (add_tools if action in (save, like, take) else add_store_alone)(action)
        add_json(action)
    add_parts(use)
    add_running(use)


def _configure_save(save: argparse.ArgumentParser) -> None:
    save.add_argument("source", metavar="RUN|PLAN", help="a run that was done, or a plan file")
    save.add_argument("name", metavar="NAME", nargs="?", default="", help="the template's name")
    save.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=PLACE[,PLACE…]",
        help="make a value of the plan a parameter, such as city=w.inputs.city; repeatable",
    )
    save.add_argument(
        "--required",
        action="append",
        default=[],
        metavar="NAME",
        help="a parameter that has no default",
    )
    save.add_argument(
        "--list", action="store_true", help="list the values that can be parameters; save nothing"
    )


async def _main(session: Session) -> int:
    return await _ACTIONS[session.args.action](session, session.smith.templates)


async def _list(session: Session, book: TemplateBook) -> int:
    known = {name: each for name, each in (await book.all()).items() if "@" not in name}
    if session.args.json:
        print_json([_row(each) for each in known.values()])
    elif known:
        width = max(len(each.full_name) for each in known.values())
        print_lines(
            f"{safe(each.full_name):<{width}}  {clip(safe(each.plan.goal), 60)}"
            f"  ({safe(', '.join(each.properties)) or session.own_text('no parameters')})"
            for each in known.values()
        )
    else:
        session.say(session.own_text("no templates; plansmith templates save RUN NAME makes one"))
    ready = [name for name in book.shipped() if name not in known]
    if ready:
        session.say(
            session.own_text(
                "ready to use, for folders with CSV files: {names}", names=", ".join(ready)
            )
        )
    return Exit.OK


def _row(template: Template) -> dict[str, Json]:
    return {
        "name": template.name,
        "version": template.version,
        "goal": template.plan.goal,
        "parameters": dict(template.parameters),
        "saved_by": template.saved_by,
        "saved_at": template.saved_at.isoformat() if template.saved_at else None,
        "run": template.run,
    }


async def _show(session: Session, book: TemplateBook) -> int:
    template = await book.get(session.args.name)
    if session.args.json:
        print_json(exported(template))
        return Exit.OK
    print_lines(_lines(template, session))
    return Exit.OK


def _lines(template: Template, session: Session) -> Iterator[str]:
    who, run, at = safe(template.saved_by), safe(template.run), template.saved_at
    yield "".join(
        (
            session.own_text("{name}, saved", name=safe(template.full_name)),
            session.own_text(" by {who}", who=who) if who else "",
            session.own_text(" at {time} UTC", time=f"{at:%Y-%m-%d %H:%M}") if at else "",
            session.own_text(" from run {run}", run=run) if run else "",
        )
    )
    for name, form in template.properties.items():
        given = form.get("type") or form.get("enum")
        kind = value_line(given) if given else session.own_text("any")
        needed = f" ({session.own_text('required')})"
        default = f" = {value_line(form['default'])}" if "default" in form else needed
        yield f"  {safe(name)}: {kind}{default}"
    yield ""
    yield from plan_lines(template.plan, locale=session.locale)


async def _save(session: Session, book: TemplateBook) -> int:
    args = session.args
    source = await _source(session, args.source)
    plan = source.plan if isinstance(source, Run) else source
    if args.list and plan is not None:
        found = list(places(plan))
        print_as(
            args,
            [{"place": each.where, "value": each.value} for each in found],
            (f"{safe(each.where)} = {value_line(each.value)}" for each in found),
        )
        return Exit.OK
    if not args.name:
        hint = "plansmith templates save RUN NAME"
        raise Misconfigured(Sentence("the template needs a name"), hint=hint)
    chosen = {name: value.split(",") for name, value in pairs(args.param).items()}
    template = await book.save(
        source, args.name, parameters=chosen, required=args.required, by=session.by
    )
    _print_change(session, template, Sentence("saved {name}", name=safe(template.full_name)))
    return Exit.OK


async def _source(session: Session, name: str) -> Run | Plan:
    return await session.run(name) if names_run(name) else load_plan(name)


def pairs(given: list[str]) -> dict[str, str]:
    """Reads NAME=VALUE arguments; refuses a name that is given twice."""
    pairs: dict[str, str] = {}
    for each in given:
        name, found, value = each.partition("=")
        if not found or not name:
            hint = Sentence("such as city=Oslo")
            raise Misconfigured(Sentence("{text} is not NAME=…", text=repr(each)), hint=hint)
        if name in pairs:
            raise Misconfigured(Sentence("{name} is given twice", name=repr(name)))
        pairs[name] = value
    return pairs


def _print_change(session: Session, template: Template, change: str) -> None:
    if session.args.json:
        print_json(_row(template))
    else:
        session.say(in_language(change, session.locale))


async def _use(session: Session, book: TemplateBook) -> int:
    template = await book.get(session.args.name)
    given = pairs(session.args.set)
    inputs = {name: typed_value(template, name, text) for name, text in given.items()}
    plan = await book.plan(session.args.name, inputs)
    await session.refuse_what_cannot_run(plan)
    run = await book.use(session.args.name, inputs, by=session.by)
    return await run_interactively(session, run.id)


def typed_value(template: Template, name: str, text: str) -> Json:
    """Reads a typed value as the type of the parameter."""
    form: Mapping[str, Json] = template.properties.get(name, {})
    if form.get("type") == "string":
        return text
    try:
        value: Json = json.loads(text)
    except ValueError:
        return text
    return value


async def _suggest(session: Session, book: TemplateBook) -> int:
    found = await suggest(session.args.request, book)
    if session.args.json:
        print_json([each.to_json() for each in found])
        return Exit.OK
    if not found:
        session.say(session.own_text("no template fits this request"))
    for each in found:
        flags = [f"{name}={_typed(value)}" for name, value in each.inputs.items()]
        flags += [f"{name}=…" for name in each.missing]
        arguments = [each for flag in flags for each in ("--set", flag)]
        print_lines(
            [
                f"{safe(each.template.full_name)}  {clip(safe(each.template.plan.goal), 80)}",
                f"  {safe(session.command('templates', 'use', each.template.name, *arguments))}",
            ]
        )
    return Exit.OK


def _typed(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


async def _export(session: Session, book: TemplateBook) -> int:
    template = await book.get(session.args.name)
    written = exported(template, yaml=session.args.yaml)
    text = written if isinstance(written, str) else json.dumps(written, indent=2) + "\n"
    if session.args.output:
        write_file(session.args.output, text)
    else:
        sys.stdout.write(text)
    return Exit.OK


async def _import(session: Session, book: TemplateBook) -> int:
    text = read_file(session.args.file)
    template = await book.take_in(text, name=session.args.name, by=session.by)
    _print_change(session, template, Sentence("imported {name}", name=safe(template.full_name)))
    return Exit.OK


async def _remove(session: Session, book: TemplateBook) -> int:
    count = await book.remove(session.args.name)
    if session.args.json:
        print_json({"removed": count})
    else:
        name = safe(session.args.name)
        session.say(session.own_text("removed {name}; versions: {count}", name=name, count=count))
    return Exit.OK


_ACTIONS: Final[dict[str, Callable[[Session, TemplateBook], Awaitable[int]]]] = {
    "list": _list,
    "show": _show,
    "save": _save,
    "use": _use,
    "suggest": _suggest,
    "export": _export,
    "import": _import,
    "remove": _remove,
}
COMMAND = session_command(_configure, _main)
