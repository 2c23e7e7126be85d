"""Small public sets, as files: what `lab.training.rows.public` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _tool(name: str, about: str, **arguments: str) -> dict[str, Any]:
    fields = {key: {"type": "string", "description": note} for key, note in arguments.items()}
    schema = {"type": "dict", "properties": fields, "required": list(arguments)}
    return {"name": name, "description": about, "input_schema": schema}


def _step(tool: str, number: int, **args: Any) -> dict[str, Any]:
    return {"id": f"s{number}", "tool": tool, "args": args, "after": []}


CATALOGUE = [
    _tool("getRiver", "Retrieve the length of a river", river="Its name (e.g., Nile, Elbe)"),
    _tool("getLake", "Retrieve the depth of a lake", lake="Its name (e.g., Garda, Erie)"),
    _tool("sendNote", "Send a note to somebody", to="Who (e.g., Kim, Ada)", text="What"),
]
ASKED = [
    {
        "query": "How long is the Nile, and send the answer to Kim.",
        "lang": "en",
        "gold_steps": [
            _step("getRiver", 1, river="Nile"),
            _step("sendNote", 2, to="Kim", text="s1")
            | {"refs": [{"arg": "text", "step": "s1", "output": "length"}]},
        ],
    },
    {
        "query": "How deep is the lake?",
        "lang": "en",
        "gold_steps": [_step("getLake", 1, lake="Garda")],
    },
]


def write_public_sets(folder: Path) -> None:
    """Writes all files of the sets."""
    names = ("sealtools", "bfcl", "acebench_en", "acebench_zh", "apibank", "nestful")
    golds = ("bfcl_parallel", "acebench_parallel_en", "acebench_parallel_zh", "nestful")
    for name in names:
        _write(folder / "catalogues" / f"{name}.jsonl", CATALOGUE)
    for name in golds:
        _write(folder / "planning" / f"{name}.jsonl", [])
    _write(folder / "planning" / "sealtools.jsonl", ASKED)
    _write(folder / "execution" / "apibank.jsonl", [])
    for name in ("metatool", "toolbench", "bfcl", "acebench_en", "acebench_zh", "sealtools"):
        lang = "zh" if name.endswith("zh") else "en"
        _write(
            folder / "retrieval" / f"{name}.jsonl",
            [{"query": f"Paint my house ({name})", "lang": lang, "gold": ["paint"]}],
        )


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")
