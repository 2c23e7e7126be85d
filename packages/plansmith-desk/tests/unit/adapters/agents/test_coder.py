"""The coder: its code runs in the real sandbox, its files come back, its failures end."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.ports import Call
from plansmith.testing import Answer, ScriptedModel
from plansmith_desk.agents.coder import Coder, coder
from plansmith_desk.sandbox.sandbox import Sandbox, SandboxLimits

LIMITS = SandboxLimits(wall_s=20.0)


pytestmark = pytest.mark.usefixtures("walls")


def runs(code: str, expects: str | None = None) -> Answer:
    return Answer({"code": code}, tool="python.run", expects=expects)


def finish(text: str = "done", expects: str | None = None) -> Answer:
    return Answer({"text": text, "findings": [text]}, tool="finish", expects=expects)


def made(*answers: object, **more: Any) -> Coder:
    return coder(model=ScriptedModel(*answers), sandbox=Sandbox(limits=LIMITS), **more)


async def work(agent: Coder, **inputs: Json) -> dict[str, Any]:
    result = await agent.work("Compute it.", inputs, Call(key="k"))
    assert isinstance(result, dict)
    return result


async def test_code_runs_on_the_inputs_and_its_files_are_handed_over(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("month,total\n1,10\n2,32\n")
    code = (
        "import csv, json\n"
        "factor = json.load(open('inputs.json'))['factor']\n"
        "rows = list(csv.DictReader(open('data/sales.csv')))\n"
        "total = sum(int(row['total']) for row in rows) * factor\n"
        "open('total.txt', 'w').write(str(total))\n"
        "open('raw.bin', 'wb').write(b'\\x00\\xff')\n"
        "print(total)\n"
    )
    agent = made(runs(code), finish("It is 84.", expects='"stdout": "84\\n"'), folder=tmp_path)
    result = await work(agent, factor=2, files=["data/sales.csv"])
    assert (result["text"], result["findings"]) == ("It is 84.", ["It is 84."])
    assert (result["code"], result["output"], result["notes"]) == (code, "84\n", [])
    raw, total = result["files"]
    assert (raw["name"], base64.b64decode(raw["base64"])) == ("raw.bin", b"\x00\xff")
    assert (total["name"], total["type"], total["size"]) == ("total.txt", "text/plain", 2)
    assert total["text"] == "84"


async def test_files_of_one_run_are_there_in_the_next_and_of_another_agent_too() -> None:
    first = runs("open('a.txt', 'w').write(open('b.txt').read() + '!')")
    agent = made(first, runs("print(open('a.txt').read())"), finish(expects="hello!"))
    result = await work(agent, files=[{"name": "b.txt", "text": "hello"}])
    assert [each["name"] for each in result["files"]] == ["a.txt"]


async def test_an_error_is_shown_and_a_changed_program_may_mend_it() -> None:
    agent = made(runs("1 / 0"), runs("print(1)", expects="ZeroDivisionError"), finish())
    result = await work(agent)
    assert (result["output"], result["notes"]) == ("1\n", [])


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        (["1 / 0"] * 2, "the same code again after it failed: ZeroDivisionError"),
        (["0 / 0", "1 / 0", "2 / 0", "3 / 0"], "failed 4 times, at last with: ZeroDivisionError"),
    ],
)
async def test_code_that_keeps_failing_ends_the_task(programs: list[str], why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        await work(made(*map(runs, programs)))


async def test_the_same_code_after_a_success_is_not_run_again() -> None:
    code = "import os; print(os.urandom(8).hex())"
    result = await work(made(runs(code), runs(code), finish()))
    assert len(result["output"].strip()) == 16


async def test_a_result_without_code_and_one_after_a_failure_say_so() -> None:
    assert (await work(made(finish())))["notes"] == ["no code was run"]
    result = await work(made(runs("1 / 0"), finish()))
    notes = ["the last code that was run failed: ZeroDivisionError: division by zero"]
    assert result["notes"] == notes


async def test_limits_of_the_sandbox_are_shown_to_the_model() -> None:
    quick = Sandbox(limits=SandboxLimits(wall_s=0.5))
    model = ScriptedModel(runs("import time; time.sleep(60)"), finish(expects="it ran longer than"))
    await work(coder(model=model, sandbox=quick))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["../up.csv"], "leads out of the working folder"),
        (["none.csv"], "there is no file none.csv"),
        ([7], "neither a path nor a file"),
        ([{"name": "a"}], "neither a path nor a file"),
        ([{"name": "a", "base64": "?"}], "is not base64"),
        ([{"name": "a", "text": "1"}, {"name": "a", "text": "2"}], "two of its files"),
    ],
)
async def test_files_that_cannot_be_given_are_told_before_anything_runs(
    files: list[Json], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ToolFailed, match=reason):
        await work(made(folder=tmp_path), files=files)


async def test_a_coder_that_accepts_a_weak_sandbox_says_that_it_may_change_things() -> None:
    weak = coder(model=ScriptedModel(runs("print(1)"), finish()), sandbox=Sandbox(allow_weak=True))
    assert weak.spec.effect is Effect.WRITE
    assert made().spec.effect is Effect.READ
    assert (await work(weak))["output"] == "1\n"
