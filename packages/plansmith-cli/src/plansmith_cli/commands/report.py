"""`plansmith report` prints the report of a run; `runs replay` replays a run offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from plansmith.errors import Misconfigured, Refused
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import may_write
from plansmith.replay.player import Replayed, replay
from plansmith.report.build import load_report
from plansmith.report.data import Report
from plansmith.report.html import to_html
from plansmith.report.markdown import to_markdown
from plansmith.runs.files import pictures
from plansmith.text import safe
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import JSON, RUN, RUN_OVER, STORE, TOOLS
from plansmith_cli.session import Session, session_command
from plansmith_cli.ui.output import print_as, print_json, print_markdown, print_text
from plansmith_cli.ui.words import own, own_text
from plansmith_desk.files.run_files import WorkFiles


async def _main(session: Session) -> None:
    args = session.args
    run = await session.find(args.run)
    session.use_language_of((await session.journals.listed(run))[0])
    locale = session.locale
    report = await load_report(session.smith.store, run, locale=locale)
    form = "json" if args.json else str(args.format)
    if form == "html":
        files = await WorkFiles(session.smith.runs).written(run)
        report = replace(report, pictures=pictures(files))
    if args.output:
        write_file(args.output, _written(report, form, whole=args.evidence))
    elif form == "json":
        print_json(report.to_json())
    elif form == "html":
        print_text(_written(report, form))
    else:
        print_markdown(_written(report, form, whole=args.evidence))


def _written(report: Report, form: str, *, whole: bool = False) -> str:
    if form == "json":
        return json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"
    return to_html(report) if form == "html" else to_markdown(report, brief=not whole)


def write_file(name: str, text: str) -> None:
    """Writes a text to a file; raises `Misconfigured` if that fails."""
    if not may_write(Path(name)):
        raise Refused(
            Sentence("{name} may not be changed from here", name=name),
            hint=Sentence(
                "Plansmith was started with it, or has it or something in it "
                "open: stop Plansmith and change it by hand, or choose "
                "another name"
            ),
        )
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        problem = Sentence("cannot write {name}: {reason}", name=name, reason=reason)
        raise Misconfigured(problem, hint=Sentence("check the path")) from None


async def _replay_main(session: Session) -> int:
    replayed = await replay(await session.find(session.args.run), session.smith)
    print_as(session.args, replayed.to_json(), _lines(replayed))
    return Exit.OK if replayed.identical else Exit.FAILED


def _lines(replayed: Replayed) -> Iterator[str]:
    run, count = replayed.run, replayed.events
    if replayed.identical:
        yield own_text("{run}: {count} events, identical byte for byte", run=run, count=count)
        return
    yield own_text(
        "{run}: {same} of {count} events are the same; then",
        run=run,
        same=replayed.same,
        count=count,
    )
    yield own_text("- recorded {event}", event=_event(replayed.recorded))
    yield own_text("+ replayed {event}", event=_event(replayed.replayed))
    if replayed.refused:
        yield own_text("since {why}", why=safe(own(replayed.refused)))


def _event(event: Event | None) -> str:
    """Returns an event on one line, in full: the difference may be at its end."""
    if event is None:
        return Sentence("nothing: the replay ends here")
    body = json.dumps({"type": event.body.type} | event.body.to_json(), ensure_ascii=False)
    return safe(f"{event.number} {event.at.isoformat()} by {event.by.kind}: {body}")


COMMAND = session_command(
    RUN_OVER
    + """
--format  the form
| --json  the same as --format json
--evidence  show the result of each step whole, as JSON
-o --output FILE  write it to a file instead
"""
    + STORE,
    _main,
    format={"choices": ["md", "html", "json"], "default": "md"},
)
REPLAY = session_command(RUN + TOOLS + JSON, _replay_main)
