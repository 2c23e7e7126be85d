"""`plansmith demo`: a tour of a minute, without a model, a network or a file of yours."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plansmith import PlansmithError
from plansmith.plan.sentence import Sentence, language_of
from plansmith.text import safe
from plansmith_cli.command_table import Exit
from plansmith_cli.keyboard import ask_line, is_at_terminal
from plansmith_cli.options import command_line
from plansmith_cli.parser import command
from plansmith_cli.ui.output import own, own_text, print_lines, styled
from plansmith_cli.ui.terminal import own_locale, wrapped

SALES: Final = """\
date,region,product,amount
2026-01-05,North,tea,120.50
2026-01-09,South,coffee,80.00
2026-02-11,North,coffee,200.25
2026-02-20,West,tea,60.00
2026-03-02,South,tea,95.10
"""
TOOLS: Final = '''\
import time
from pathlib import Path

from plansmith import tool


@tool(effect="write")
def send_mail(to: str, attachment: str) -> str:
    """Send a file to somebody."""
    with Path("outbox.txt").open("a", encoding="utf-8") as outbox:
        outbox.write(f"{to}: {attachment}\\n")
    return f"sent to {to}"


@tool(effect="read")
def wait_for_receipt(sender: str) -> str:
    """Wait until somebody confirms a mail."""
    while not Path("receipt.txt").exists():
        time.sleep(0.05)
    return Path("receipt.txt").read_text(encoding="utf-8")
'''
_ANN: Final = "ann@example.org"
_REQUEST: Final = Sentence(
    "Draw a chart of the totals by region in sales.csv, send it to Ann, and wait for her receipt"
)
_QUERY: Final = "SELECT region, SUM(amount) AS total FROM sales GROUP BY region ORDER BY region"
_CHART: Final = {"kind": "bar", "rows": "{{totals.rows}}", "x": "region", "path": "totals.svg"}
_MAIL: Final = {"to": _ANN, "attachment": "totals.svg"}
# What a model answered when the demo was recorded.
_STEPS: Final[tuple[dict[str, Any], ...]] = (
    {"id": "totals", "title": Sentence("Add up the sales of each region"), "tool": "tables.sql"}
    | {"inputs": {"query": _QUERY}},
    {"id": "chart", "title": Sentence("Draw the chart"), "tool": "charts.draw", "inputs": _CHART},
    {"id": "mail", "title": Sentence("Send the chart to Ann"), "tool": "send_mail"}
    | {"inputs": _MAIL, "after": ["chart"]},
    {"id": "receipt", "title": Sentence("Wait for the receipt"), "tool": "wait_for_receipt"}
    | {"inputs": {"sender": _ANN}, "after": ["mail"]},
    {
        "id": "answer",
        "say": Sentence(
            "totals.svg is drawn and sent; Ann wrote: {receipt}", receipt="{{receipt}}"
        ),
    },
)


class _Tour:
    """A run in a folder of its own, reviewed, asked about, killed and resumed, by commands."""

    def __init__(self, root: Path) -> None:
        self._root, self._folder = root, root / "demo"
        self._folder.mkdir()
        # Only what is a sentence is in the person's language.
        steps = [
            {name: own(each) if isinstance(each, Sentence) else each for name, each in step.items()}
            for step in _STEPS
        ]
        plan = json.dumps({"goal": own(_REQUEST), "steps": steps})
        for name, text in {"plan.json": plan, "sales.csv": SALES, "mail.py": TOOLS}.items():
            (self._folder / name).write_text(text, encoding="utf-8")

    def show(self) -> None:
        _prose(
            Sentence(
                "A tour of a minute. It works in a folder of its own, which is deleted "
                "at the end: nothing of yours is read or changed, and there is no "
                "network. Only the model's answer was recorded before; all else happens "
                "now."
            )
        )
        _act(Sentence("1/3 A request becomes a plan, and shows what it would change"))
        _prose(Sentence("In the folder: sales.csv, and two tools of our own in mail.py. You ask:"))
        print_lines(["", f"  “{own(_REQUEST)}”"])
        shown = self._run("run", "plan.json", expected=Exit.WAITING)
        _prose(
            Sentence(
                "A model drafted it. Plansmith checked every step, then added up the totals: "
                "reading changes nothing. So you see the very rows of the chart and the mail. "
                "Nothing has changed so far."
            )
        )
        _wait()
        _act(Sentence("2/3 You approve exactly this, and the power fails"))
        digest = re.findall("[0-9a-f]{64}", shown)[-1]
        self._run("approve", "last", digest, "--go", kill_at="▶ receipt")
        _prose(
            Sentence(
                "Your yes is bound to the hash of all that you saw: if a step or a value changes, "
                "you are asked again. The chart is drawn and the mail is sent. While it waits for "
                "the receipt, the process is killed with kill -9."
            )
        )
        _wait()
        _act(Sentence("3/3 It goes on, and repeats no change"))
        receipt = self._folder / "receipt.txt"
        receipt.write_text(own_text("received, thank you"), encoding="utf-8")
        self._run("go", "last", expected=Exit.OK)
        outbox = (self._folder / "outbox.txt").read_text(encoding="utf-8").splitlines()
        _prose(
            Sentence(
                "What was done before the crash was not repeated: outbox.txt has {count} mail. The "
                "wait for the receipt only reads, so it was made again. Had the crash hit the "
                "sending itself, you would have been asked: nobody could know.",
                count=len(outbox),
            )
        )

    def _run(self, *words: str, expected: Exit | None = None, kill_at: str = "") -> str:
        """Runs a command as a process of its own and shows it; kills it at a named line."""
        typed, output = [*words, "--tools", "mail.py"], list[str]()
        with subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "plansmith_cli", *typed, "--no-input"],
            cwd=self._folder,
            env=_environment(self._root),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        ) as process:
            for line in process.stdout or ():
                output.append(line.rstrip("\n"))
                if kill_at and kill_at in line:
                    process.kill()  # SIGKILL: it cannot tidy up
                    break
        if (process.returncode >= 0) if kill_at else (process.returncode != expected):
            raise PlansmithError(Sentence("the tour could not go on: {why}", why="\n".join(output)))
        lines = (f"  {safe(line)}".rstrip() for line in output)
        print_lines(["", f"  $ {' '.join(('plansmith', *typed))}", *lines])
        return "\n".join(output)


def _act(title: Sentence) -> None:
    print_lines(["", styled(sys.stdout, "1", own(title))])


def _prose(text: Sentence) -> None:
    print_lines(["", *wrapped(own(text))])


def _wait() -> None:
    if is_at_terminal():
        ask_line(own_text("— Enter goes on, Ctrl-C ends —"))


def _environment(root: Path) -> Mapping[str, str]:
    """Returns the environment of the commands: without a file or a setting of the person's."""
    kept = {n: each for n, each in os.environ.items() if not n.startswith(("PLANSMITH", "LC_"))}
    folders = ("HOME", *(f"XDG_{kind}_HOME" for kind in ("CONFIG", "DATA", "STATE", "CACHE")))
    return kept | {
        **dict.fromkeys(folders, str(root)),
        "LANG": "zh_CN.UTF-8" if language_of(own_locale()) == "zh" else "en_US.UTF-8",
        "PLANSMITH_MODEL": "rules",
        "PLANSMITH_OFFLINE": "1",
        "PYTHONUTF8": "1",
        "PYTHONSAFEPATH": "1",
    }


def _main(_: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="plansmith-demo-") as root:
        _Tour(Path(root).resolve()).show()
    question = own_text("Which files here mention invoices?")
    commands = {
        command_line("ask", question, "--yes-read-only"): Sentence(
            "a first question; it only reads"
        ),
        command_line("model", "pull"): Sentence("a model that plans on this machine"),
        command_line("serve"): Sentence("the same in the browser"),
    }
    print_lines(["", Sentence("That was all. Now with your own files:")])
    for typed, about in commands.items():
        print_lines([f"  {typed}", styled(sys.stdout, "2", f"      {own(about)}")])


COMMAND = command("--lang LANG  the language of the tour: en or zh-CN", _main)
