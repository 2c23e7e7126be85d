"""`plansmith report` prints the report of a run; `runs replay` replays a run offline."""

from __future__ import annotations

from collections.abc import Iterator

from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.text import safe
from plansmith_cli.command_table import Exit
from plansmith_cli.options import JSON, RUN, RUN_OVER, TOOLS
from plansmith_cli.replay import Replayed, replay
from plansmith_cli.session import Session, session_command, store_command
from plansmith_cli.ui import output as ui
from plansmith_desk.files.run_files import WorkFiles
from plansmith_server.report_page import to_html


async def _main(session: Session) -> None:
    args = session.args
    run = await session.find(args.run)
    session.use_language_of((await session.journals.listed(run))[0])
    report = await load_report(session.smith.store, run, locale=session.locale)
    form = "json" if args.json else args.format
    if form == "json":
        text = ui.json_text(report.to_json())
    elif form == "html":
        files = await WorkFiles(session.smith.runs).written(run)
        text = to_html(report, files)
    else:
        text = to_markdown(report, brief=not args.evidence)
    if args.output:
        ui.write_file(args.output, text)
    else:
        (ui.print_markdown if form == "md" else ui.print_text)(text)


async def _replay(session: Session) -> int:
    replayed = await replay(await session.find(session.args.run), session.smith)
    session.print_as(replayed.to_json(), _lines(replayed))
    return Exit.OK if replayed.identical else Exit.FAILED


def _lines(replayed: Replayed) -> Iterator[str]:
    run, count = replayed.run, replayed.calls
    if replayed.identical:
        yield ui.own_text("{run}: {count} calls, the same again", run=run, count=count)
        return
    yield ui.own_text("{run}: what is different today", run=run)
    yield from (f"- {safe(ui.own(each))}" for each in replayed.differences)


_REPORT = """
--format  the form
| --json  the same as --format json
--evidence  show the result of each step whole, as JSON
-o --output FILE  write it to a file instead
"""
COMMAND = store_command(
    RUN_OVER + _REPORT,
    _main,
    format={"choices": ["md", "html", "json"], "default": "md"},
)
REPLAY = session_command(RUN + TOOLS + JSON, _replay)
