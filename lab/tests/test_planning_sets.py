"""The sets of the planning bench that nobody tunes on: well-formed, measured, and not printed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lab.bench.planning import OWN, gate, own_cases, run
from lab.bench.planning_gate import left_alone, own_offers
from tests.servers.model_server import ModelServer, Reply, Request

from plansmith_planner.models.provider import ProviderModel

KINDS = {"single": 11, "parallel": 2, "two-step": 4, "missing": 4, "talk": 3}
ANSWER: dict[str, Any] = {"decision": "answer", "reason": "", "query": "", "answer": "No tool."}


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@pytest.mark.parametrize("name", OWN)
def test_each_gold_call_of_a_planning_set_fits_its_tool(name: str) -> None:
    for case in own_cases(name):
        tools = {each.name: each.input_schema for each in case.tools}
        for call in case.gold:
            schema: dict[str, Any] = tools[call["tool"]]
            required = set(schema.get("required") or ())
            assert call["args"].keys() <= schema["properties"].keys(), case.id
            assert required <= call["args"].keys(), case.id
            assert not any(None in call["args"][each] for each in required), case.id


def test_the_unseen_planning_set_is_new_and_half_chinese() -> None:
    cases = own_cases("unseen")
    others = [*own_cases("heldout"), *own_cases("dev")]
    assert len(cases) == 24
    assert sum(case.id.startswith("zh-") for case in cases) == 12
    assert not {case.query for case in cases} & {case.query for case in others}
    names = {each.name for each in cases[0].tools}
    assert len(names) == 30
    assert not names & {each.name for case in others for each in case.tools}


def test_a_planning_set_prints_and_keeps_nothing_of_an_unseen_request(
    key: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = own_cases("unseen")[0]

    async def measured() -> None:
        async with ModelServer(then=Reply(ANSWER)) as server:
            model = ProviderModel("openai:test", base_url=server.url)
            await run([case], model, tmp_path / "rows.jsonl", [])

    asyncio.run(measured())
    told = capsys.readouterr().out + (tmp_path / "rows.jsonl").read_text(encoding="utf-8")
    assert "WRONG" in told
    assert case.query not in told
    assert case.gold[0]["tool"] not in told


def test_the_gate_bench_counts_what_is_left_alone_and_what_is_lost(
    key: None, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = own_cases("unseen")[0].tools
    unfit, fit = own_offers("unfit", tools), own_offers("fit", tools)
    assert Counter(len(each.tools) for each in (*unfit, *fit)) == {3: 40}
    assert (len(unfit), len(fit)) == (20, 20)
    call = {"id": "a", "kind": "tool", "tool": "car.position"}
    words = {"id": "a", "kind": "reply", "instruction": "Say that no tool can do it."}

    def answer(request: Request) -> Reply:
        fits = "did I park" in str(request.json["messages"][-1]["content"])
        if "'decision'" in str(request.json):
            return Reply(ANSWER | {"decision": "plan" if fits else "answer"})
        plan: Any = {"goal": "g", "steps": [call if fits else words]}
        return Reply(plan)

    async def measured() -> tuple[int, int]:
        async with ModelServer(then=answer) as server:
            model = ProviderModel("openai:test", base_url=server.url)
            return await left_alone(model, unfit[:2]), await left_alone(model, fit[:2])

    assert asyncio.run(measured()) == (2, 1)
    printed = capsys.readouterr().out
    assert "fit-02 call" in printed
    assert fit[1].text not in printed


def test_the_gate_bench_reads_files_of_bfcl(key: None, tmp_path: Path) -> None:
    row = (
        '{"id": "irrelevance_0", "question": [[{"role": "user", "content": "Why is snow cold?"}]], '
        '"function": [{"name": "roads.snow", "description": "Snow on a road.", '
        '"parameters": {"type": "dict", "properties": {"road": {"type": "string"}}}}]}\n'
    )
    (tmp_path / "bfcl.json").write_text(row, encoding="utf-8")

    async def measured() -> str:
        async with ModelServer(then=Reply(ANSWER)) as server:
            model = ProviderModel("openai:test", base_url=server.url)
            return await gate(model, [tmp_path / "bfcl.json"] * 2, 5)

    assert asyncio.run(measured()) == (
        "Of 1 requests that no tool fits, 1 were left alone; of 1 that one fits, 1 were lost."
    )
