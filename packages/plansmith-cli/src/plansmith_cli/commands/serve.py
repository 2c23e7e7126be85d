"""`plansmith serve` runs the HTTP server; `serve worker` executes the runs of a shared store."""

from __future__ import annotations

import argparse
import asyncio
import html
import threading
import webbrowser
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from plansmith.files import replace_file
from plansmith.plan.sentence import Sentence
from plansmith_cli import server_wiring
from plansmith_cli.command_table import Exit
from plansmith_cli.extras import install_hint
from plansmith_cli.folders import data_folder
from plansmith_cli.options import PARTS, positive, settings_of
from plansmith_cli.parser import command
from plansmith_cli.ui.output import tell, wrong
from plansmith_server.settings import Serve
from plansmith_server.shown_settings import address

PORT: Final = 8765
_MAX_DAYS: Final = 365


def _main(args: argparse.Namespace) -> None:
    if args.insecure_remote and not args.token_file:
        raise wrong(
            "a server that others can reach needs a token",
            "name a file with --token-file; clients need its token",
        )
    if not 0 <= args.port < 65536:
        raise wrong("{port} is not a port", "a port is 0 to 65535", port=str(args.port))
    if not 0 < args.login_days <= _MAX_DAYS:
        hint, days = Sentence("more than 0, and at most {most}", most=_MAX_DAYS), args.login_days
        raise wrong("{days} is not a valid number of days", hint=hint, days=f"{days:g}")
    if args.concurrency and not args.engine:
        raise wrong(
            "--concurrency needs --engine",
            "add --engine dbos, or set run.width and run.per_tool in the settings",
        )
    run = _loaded("run_server", "serve.needs_package", "server")
    wanted = Serve(
        token_file=Path(args.token_file or data_folder() / "server.token").expanduser(),
        tokens_file=data_folder() / "tokens.json",
        login_days=args.login_days,
        host=args.host,
        port=args.port,
        allow_hosts=tuple(args.allow_host),
        remote=args.insecure_remote,
        telemetry=args.telemetry,
        tenants=data_folder(),
        engine=args.engine,
        executes=args.concurrency,
    )

    def announce(link: str) -> None:
        tell(
            Sentence("Plansmith is at {link}", link=link),
            Sentence("The link works once. Ctrl-C ends the server."),
        )
        if not args.no_browser:
            # In a thread: a browser that does not start must not block the server.
            threading.Thread(target=_open, args=(link,), daemon=True).start()

    wiring = server_wiring.ServerWiring(settings_of(args))
    asyncio.run(run(wiring, wanted, announce))


def _open(link: str) -> None:
    """Opens the link by a page that only its owner can read: everybody can read command lines."""
    page, there = data_folder() / "open.html", html.escape(link)
    page.parent.mkdir(parents=True, exist_ok=True)
    replace_file(page, f'<!doctype html><meta http-equiv=refresh content="0;url={there}">')
    webbrowser.open(page.as_uri())


def _loaded(name: str, problem: str, extra: str) -> Any:
    try:
        return resolve_name(f"plansmith_server.serve:{name}")
    except ModuleNotFoundError as error:
        raise wrong(problem, hint=install_hint(extra), name=error.name) from None


_PORT: Final = f"--port PORT  0 takes any free port (default: {PORT})\n"
_SERVE: Final = """
--no-browser  do not open a browser
--token-file FILE  the file with the token for API clients
--login-days DAYS  how long an unused browser stays logged in (default: 30)
--host HOST  the address (default: 127.0.0.1)
--insecure-remote  allow other machines to connect, without TLS; needs --token-file
--allow-host HOST[:PORT]*  another host name to accept, such as that of a proxy; repeatable
--engine  have workers execute the runs, see worker
--concurrency N  with --engine: execute up to N runs here too (default: none)
--telemetry  make OpenTelemetry spans
"""
COMMAND = command(
    _PORT + _SERVE + PARTS,
    _main,
    port={"type": int, "default": PORT},
    login_days={"type": float, "default": 30.0},
    host={"default": "127.0.0.1"},
    allow_host={"default": []},
    engine={"choices": ["dbos"], "default": ""},
    concurrency={"type": positive, "default": 0},
)


_MAX_S: Final = 3600.0


def _work(args: argparse.Namespace) -> int:
    if not 0 <= args.drain <= _MAX_S:
        hint = Sentence("0 to {most} seconds", most=f"{_MAX_S:g}")
        raise wrong("--drain cannot be {seconds}", hint=hint, seconds=f"{args.drain:g}")
    settings = settings_of(args)
    most = settings.workers.concurrency

    def announce(queue: str) -> None:
        tell(
            Sentence(
                "Executes up to {most} runs at once, from the queue {queue}", most=most, queue=queue
            ),
            Sentence(
                "SIGTERM or Ctrl-C drains for up to {seconds} s; a second one ends at once.",
                seconds=f"{args.drain:g}",
            ),
        )

    run = _loaded("run_worker", "worker.needs_package", "scale")
    tell(Sentence("Connecting to {address}", address=address(settings.store_url())))
    wiring = server_wiring.ServerWiring(settings)
    left = asyncio.run(run(wiring, drain_s=args.drain, announce=announce))
    tell(Sentence("Stopped. Runs left for other workers: {count}.", count=left.handed_over))
    if left.cut_off:
        tell(
            Sentence(
                "Runs whose calls were cut off: {count}. You are asked what they did.",
                count=left.cut_off,
            )
        )
    return Exit.PARTLY if left.cut_off else Exit.OK


WORKER = command(
    """
--concurrency N  execute up to N runs at once (default: workers.concurrency, 10)
--drain SECONDS  how long running calls may take after SIGTERM or Ctrl-C (default: 30)
"""
    + PARTS,
    _work,
    concurrency={"dest": "runs_at_once", "type": positive},
    drain={"type": float, "default": 30.0},
)
