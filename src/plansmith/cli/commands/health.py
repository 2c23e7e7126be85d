"""`plansmith store verify` checks journals; `store doctor` checks store, model and sandbox."""

from __future__ import annotations

import argparse
import asyncio
import os
from dataclasses import asdict
from pathlib import Path

from plansmith.adapters.agents.sandbox import wall_findings
from plansmith.adapters.models.choose import choose, choose_at, pull_hint
from plansmith.adapters.models.local.files import ModelFolder, weights_path
from plansmith.adapters.stores.doctor import Finding, diagnose, missing_runs, verify
from plansmith.adapters.stores.urls import open_store
from plansmith.cli.command_table import Command
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_store, settings_of
from plansmith.cli.session import find_run
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.cli.ui.words import own, own_text
from plansmith.config import ModelSettings
from plansmith.errors import Misconfigured, PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.text import padded, safe


def _configure_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="last", metavar="RUN", help="default: last")
    parser.add_argument("--all", action="store_true", help="verify all runs")
    add_store(parser)
    add_json(parser)


def _verify(args: argparse.Namespace) -> int:
    return asyncio.run(_verify_runs(args))


async def _verify_runs(args: argparse.Namespace) -> int:
    store = open_store(settings_of(args).store_url())
    try:
        rows: list[dict[str, Json]] = []
        here = str(Path.cwd().resolve())
        ids = await store.runs() if args.all else [await find_run(args.run, store, here)]
        for run_id in ids:
            try:
                rows.append({"run": run_id, "events": await verify(store, run_id), "damage": ""})
            except PlansmithError as error:
                damage = with_hint(error.message, error.hint)
                rows.append({"run": run_id, "events": 0, "damage": damage})
        missing = await missing_runs(store) if args.all else []
        damages = [with_hint(each.message, each.hint) for each in missing]
        rows.extend({"run": "", "events": 0, "damage": damage} for damage in damages)
    finally:
        await store.close()
    if args.json:
        print_json(rows)
    else:
        print_lines(_verdict(row) for row in rows)
    return Exit.FAILED if any(row["damage"] for row in rows) else Exit.OK


def _verdict(row: dict[str, Json]) -> str:
    run, damage = str(row["run"]), row["damage"]
    if not damage:
        return own_text("verify.sound", run=run, count=row["events"])
    told = own(str(damage))
    told = own_text("text.with_reason", text=run, reason=told) if run else told
    return safe(own_text("text.with_reason", text=Sentence("severity.error"), reason=told))


def _configure_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample", type=int, metavar="N", help="verify only the newest N runs (default: all)"
    )
    add_store(parser)
    add_json(parser)


def _doctor(args: argparse.Namespace) -> int:
    warnings: list[str] = []
    settings = settings_of(args, warnings.append)
    findings = [
        *(Finding("warning", "folder", each) for each in warnings),
        *asyncio.run(diagnose(settings.store_url(), sample=args.sample)),
        *asyncio.run(_model_findings(settings.models.plan)),
        *(
            Finding(each.level, "sandbox", each.text, each.hint)
            for each in asyncio.run(wall_findings())
        ),
    ]
    if args.json:
        print_json([asdict(each) for each in findings])
    else:
        print_lines(map(_line, findings))
    return Exit.FAILED if any(each.level == "error" for each in findings) else Exit.OK


async def _model_findings(plan: ModelSettings) -> list[Finding]:
    """Says which model plans, and why others do not."""
    if plan.model != "auto":
        return [_configured(plan)]
    try:
        if plan.base_url:
            key = os.environ.get(plan.api_key_env or "", "")
            choice = await choose_at(plan.base_url, key=key)
        else:
            choice = await choose(os.environ, shelf=ModelFolder())
    except Misconfigured as error:
        return [Finding("error", "model", error.message, error.hint)]
    tried = [
        Finding(
            "note",
            f"model {each.kind}",
            Sentence("text.with_reason", text=each.what, reason=each.flaw),
        )
        for each in choice.tried
        if each.flaw
    ]
    if choice.kind == "rules":
        message = Sentence("model.none_found")
        return [*tried, Finding("warning", "model", message, pull_hint(ModelFolder()))]
    return [*tried, Finding("ok", "model", choice.described)]


def _configured(plan: ModelSettings) -> Finding:
    """Checks what the named model needs, without calling it."""
    variable = plan.api_key_env
    if variable and not os.environ.get(variable):
        flaw = Sentence("model.variable_unset", model=plan.model, variable=variable)
        return Finding("error", "model", flaw, f"export {variable}=…")
    name = plan.model.partition(":")
    if name[0] == "local":
        try:
            weights_path(name[2], ModelFolder())
        except Misconfigured as error:
            return Finding("error", "model", error.message, error.hint)
    return Finding("ok", "model", with_hint(plan.model, Sentence("model.is_set")))


def _line(found: Finding) -> str:
    level = own_text("doctor.ok" if found.level == "ok" else f"severity.{found.level}")
    told = own(with_hint(found.message, found.hint))
    about = own_text("text.with_reason", text=_subject(found.subject), reason=told)
    return f"{padded(level, 8)} {safe(about)}"


def _subject(text: str) -> str:
    """Returns what was looked at, such as `model key` or a run, in the person's language."""
    what, _, which = text.partition(" ")
    which = own_text(f"doctor.model_{which}") if which and what == "model" else which
    return f"{own_text(f'doctor.at_{what}')} {which}".rstrip()


VERIFY = Command(_configure_verify, _verify)
DOCTOR = Command(_configure_doctor, _doctor)
