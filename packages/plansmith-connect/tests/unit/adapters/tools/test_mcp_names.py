from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.servers.kit import approved, raw, servers

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith_connect.mcp.listing import full_name, server_name, wire_names

NAMES = st.one_of(st.text(alphabet="_x5fa4 .-/名", max_size=12), st.text(max_size=12))


@given(NAMES, NAMES)
@example("a", "_x4 ")
@example("a", "_x5f_x41_")
def test_a_name_is_legal_and_leads_back_to_server_and_tool(server: str, tool: str) -> None:
    name = full_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_.-]*", name)
    assert wire_names(name) == (server, tool)


def test_plain_names_stay_as_they_are() -> None:
    assert full_name("time", "get_current_time") == "time.get_current_time"
    assert full_name("a.b", "c.d") == "a_x2e_b.c.d"
    assert full_name("every", "get-tiny-image") == "every.get-tiny-image"


def test_a_dot_in_a_server_cannot_make_it_look_like_another_one() -> None:
    assert full_name("a.b", "c") != full_name("a", "b.c")
    assert "." not in server_name("a.b")


@pytest.mark.parametrize("first", [True, False])
async def test_a_tool_with_the_name_of_another_one_is_left_out_and_shadows_nothing(
    first: bool,
) -> None:
    @tool(effect="read", name="raw.echo")
    def own(text: str) -> str:
        return f"mine: {text}"

    told: list[str] = []
    async with await approved(servers(told.append, raw=raw(trusted=True))) as source:
        app = Plansmith(tools=[source, own] if first else [own, source])
        for _ in range(2):
            step = {"id": "e", "tool": "raw.echo", "inputs": {"text": "hi"}}
            run = await app.submit(Plan.model_validate({"goal": "echo", "steps": [step]}))
            run = await app.run(run.id)
            assert (run.status, run.steps["e"].result) == (RunStatus.DONE, "mine: hi")
        [note] = [each for each in told if "'echo' is not used" in each]
        assert "give the server another name" in note
