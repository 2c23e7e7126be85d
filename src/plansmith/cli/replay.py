"""`plansmith replay`: a recorded run once more, offline, compared event by event."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from plansmith.cli.exits import Exit
from plansmith.cli.options import add_json, add_parts
from plansmith.cli.output import print_json, print_lines
from plansmith.cli.plans import FileCommand
from plansmith.cli.session import Session, in_session
from plansmith.plan.events import Event
from plansmith.runner.replay import Replayed, replay
from plansmith.text import safe


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run: its id, or last")
    add_parts(parser)
    add_json(parser)


def _main(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        told = await replay(await session.find(args.run), session.smith)
        if args.json:
            print_json(told.to_json())
        else:
            print_lines(_lines(told))
        return Exit.OK if told.identical else Exit.FAILED

    return in_session(args, work)


def _lines(told: Replayed) -> Iterator[str]:
    if told.identical:
        yield f"{told.run}: {told.events} events, identical byte for byte"
        return
    yield f"{told.run}: {told.same} of {told.events} events are the same; then"
    yield f"- recorded {_event(told.recorded)}"
    yield f"+ replayed {_event(told.replayed)}"


def _event(event: Event | None) -> str:
    """An event on one line, whole: what differs may stand at its end."""
    if event is None:
        return "nothing: the replay ends here"
    body = json.dumps({"type": event.body.type} | event.body.to_json(), ensure_ascii=False)
    return safe(f"{event.number} {event.at.isoformat()} by {event.by.kind}: {body}")


COMMAND = FileCommand(_configure, _main)
