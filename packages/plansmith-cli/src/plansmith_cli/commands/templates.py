"""`plansmith templates`: saves plans by name, with parameters, and runs them again."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from plansmith.formats.text import write_yaml
from plansmith.plan.data import Json
from plansmith.plan.refs import value_line
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.templates.parameters import places
from plansmith.templates.template import Template
from plansmith.text import clip, safe
from plansmith_cli import options
from plansmith_cli.commands.runs import names_run
from plansmith_cli.interactive import require_runnable, run_interactively
from plansmith_cli.options import JSON, PARTS, RUNNING, TOOLS
from plansmith_cli.session import Session, session_command, store_command
from plansmith_cli.ui.output import (
    json_of,
    json_text,
    load_plan,
    own_text,
    read_file,
    write_file,
    wrong,
)
from plansmith_cli.ui.render import plan_lines
from plansmith_planner.suggest import suggest


async def _list(session: Session) -> None:
    book = session.smith.templates
    known = {name: each for name, each in (await book.all()).items() if "@" not in name}
    width = max((len(each.full_name) for each in known.values()), default=0)
    lines = (
        f"{safe(each.full_name):<{width}}  {clip(safe(each.plan.goal), 60)}"
        f"  ({safe(', '.join(each.properties)) or own_text('no parameters')})"
        for each in known.values()
    )
    none = Sentence("no templates; plansmith templates save RUN NAME makes one")
    session.print_list([*map(_row, known.values())], lines, none)
    ready = [name for name in book.shipped() if name not in known]
    if ready:
        names = ", ".join(ready)
        session.say(Sentence("ready to use, for folders with CSV files: {names}", names=names))


def _row(template: Template) -> dict[str, Json]:
    more = {"goal": template.plan.goal, "parameters": dict(template.parameters)}
    return json_of(template, "name version saved_by saved_at run", **more)


async def _show(session: Session) -> None:
    template = await session.smith.templates.get(session.args.name)
    who, run, at = safe(template.saved_by), safe(template.run), template.saved_at
    head = own_text("{name}, saved", name=safe(template.full_name))
    head += own_text(" by {who}", who=who) if who else ""
    head += own_text(" at {time} UTC", time=f"{at:%Y-%m-%d %H:%M}") if at else ""
    head += own_text(" from run {run}", run=run) if run else ""
    lines = [head]
    for name, form in template.properties.items():
        given = form.get("type") or form.get("enum")
        kind = value_line(given) if given else own_text("any")
        needed = f" ({own_text('required')})"
        default = f" = {value_line(form['default'])}" if "default" in form else needed
        lines.append(f"  {safe(name)}: {kind}{default}")
    lines += ["", *plan_lines(template.plan, locale=session.locale)]
    session.print_as(template.to_json(), lines)


async def _save(session: Session) -> None:
    args = session.args
    source = await session.run(args.run) if names_run(args.run) else load_plan(args.run)
    plan = source.plan if isinstance(source, Run) else source
    if args.list and plan is not None:
        found = list(places(plan))
        session.print_as(
            [{"place": each.where, "value": each.value} for each in found],
            (f"{safe(each.where)} = {value_line(each.value)}" for each in found),
        )
        return
    if not args.name:
        raise wrong("the template needs a name", hint="plansmith templates save RUN NAME")
    template = await session.smith.templates.save(
        source,
        args.name,
        parameters={
            name: value.split(",") for name, value in options.read_pairs(args.param).items()
        },
        required=args.required,
        by=session.by,
    )
    session.say_as(_row(template), Sentence("saved {name}", name=safe(template.full_name)))


async def _use(session: Session) -> int:
    book = session.smith.templates
    inputs = await inputs_of(session, session.args.name)
    await require_runnable(session, await book.plan(session.args.name, inputs))
    run = await book.use(session.args.name, inputs, by=session.by)
    return await run_interactively(session, run.id)


async def inputs_of(session: Session, name: str) -> dict[str, Json]:
    """Reads the parameters of `--set`, each as the template says: as text, else as JSON."""
    known = (await session.smith.templates.get(name)).properties
    found: dict[str, Json] = {}
    for key, text in options.read_pairs(session.args.set).items():
        is_text = known.get(key, {}).get("type") == "string"
        found[key] = text if is_text else options.read_value(key, text)
    return found


async def _suggest(session: Session) -> None:
    found = await suggest(session.args.request, session.smith.templates)
    lines: list[str] = []
    for each in found:
        typed = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in (*each.inputs.items(), *((name, "…") for name in each.missing))
        }
        flags = [word for name, value in typed.items() for word in ("--set", f"{name}={value}")]
        lines += [
            f"{safe(each.template.full_name)}  {clip(safe(each.template.plan.goal), 80)}",
            f"  {safe(session.command('templates', 'use', each.template.name, *flags))}",
        ]
    none = Sentence("no template fits this request")
    session.print_list([each.to_json() for each in found], lines, none)


async def _export(session: Session) -> None:
    written = (await session.smith.templates.get(session.args.name)).to_json()
    text = write_yaml(written) if session.args.yaml else json_text(written)
    if session.args.output:
        write_file(session.args.output, text)
    else:
        sys.stdout.write(text)


async def _import(session: Session) -> None:
    text, name = read_file(session.args.file), session.args.name
    template = await session.smith.templates.take_in(text, name=name, by=session.by)
    session.say_as(_row(template), Sentence("imported {name}", name=safe(template.full_name)))


async def _remove(session: Session) -> None:
    name = session.args.name
    count = await session.smith.templates.remove(name)
    message = Sentence("removed {name}; versions: {count}", name=safe(name), count=count)
    session.say_as({"removed": count}, message)


_NAME: Final = "NAME  a name such as weather or weather@2\n"
_SAVE: Final = """
RUN|PLAN  a run that was done, or a plan file
[NAME]  the template's name
--param NAME=PLACE[,PLACE…]*  make a value of the plan a parameter, such as \
city=w.inputs.city; repeatable
--required NAME*  a parameter that has no default
--list  list the values that can be parameters; save nothing
"""
_SET: Final = "--set NAME=VALUE*  a parameter; repeatable\n"
_REQUEST: Final = "REQUEST  what is wanted, in words\n"
_EXPORT: Final = "--yaml  write YAML\n-o --output FILE  write it to a file instead\n"
_IMPORT: Final = """
FILE  a template as JSON or YAML; - for stdin
--name NAME  keep it under another name
"""
_TYPED: Final[dict[str, Any]] = {n: {"default": []} for n in ("set", "param", "required")}
_NAMED: Final[dict[str, Any]] = {"name": {"default": ""}}
LIST = store_command(JSON, _list)
SHOW = store_command(_NAME + JSON, _show)
SAVE = session_command(_SAVE + TOOLS + JSON, _save, **_NAMED, **_TYPED)
USE = session_command(_NAME + _SET + PARTS + RUNNING, _use, **_TYPED)
SUGGEST = session_command(_REQUEST + TOOLS + JSON, _suggest)
EXPORT = store_command(_NAME + _EXPORT + JSON, _export)
IMPORT = session_command(_IMPORT + TOOLS + JSON, _import, **_NAMED)
REMOVE = store_command(_NAME + JSON, _remove)
