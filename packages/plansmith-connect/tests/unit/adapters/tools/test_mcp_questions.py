"""What a server asks in the middle of a call is a question to the person, and to nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.servers.kit import approved, friendly, is_cancelled, limits, raw, reply, servers, use
from tests.waiting import until

from plansmith.errors import InputNeeded, OutcomeUnknown, ToolFailed
from plansmith.plan.data import flaws
from plansmith.ports import Call, Reply
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers


async def asked(call: Any) -> InputNeeded:
    with pytest.raises(InputNeeded) as caught:
        await call
    assert next(flaws(caught.value.state), None) is None
    return caught.value


# Servers that wait in the middle of the call (before 2026)


async def test_a_question_goes_to_the_person_and_the_answer_back_to_the_same_call() -> None:
    async with await approved(servers(raw=raw(), other=raw())) as source:
        first = await asked(use(source, "raw.ask", times=2))
        assert await use(source, "other.echo", text="hi") == "hi"  # other calls go on
        assert first.message == "raw asks: Day 0?"
        assert first.schema is not None
        assert first.schema["anyOf"][0]["required"] == ["day"]
        second = await asked(reply(source, "raw.ask", first.state, {"day": "mon"}, times=2))
        assert second.message == "raw asks: Day 1?"
        done = await reply(source, "raw.ask", second.state, "decline", times=2)
    assert json.loads(done) == [
        {"action": "accept", "content": {"day": "mon"}},
        {"action": "decline"},
    ]


async def test_a_question_without_fields_is_a_yes_or_no() -> None:
    async with await approved(servers(raw=raw())) as source:
        question = await asked(use(source, "raw.confirm"))
        assert question.options == ("accept", "decline")
        with pytest.raises(ToolFailed, match="has to be 'accept' or 'decline'"):
            await reply(source, "raw.confirm", question.state, "perhaps")
        done = await reply(source, "raw.confirm", question.state, "accept")
        assert json.loads(done) == {"action": "accept", "content": {}}


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() -> None:
    async with await approved(servers(raw=raw())) as source:
        question = await asked(use(source, "raw.ask"))
        for bad in ({"day": 1}, {}, "mon", None, ["mon"]):
            with pytest.raises(ToolFailed, match="does not fit"):
                await reply(source, "raw.ask", question.state, bad)
        assert "mon" in await reply(source, "raw.ask", question.state, {"day": "mon"})


async def test_endless_questions_and_pages_end_the_call(tmp_path: Path) -> None:
    given = {"signed_in": str(tmp_path / "never")}
    async with await approved(servers(raw=raw(bounds=limits(questions=2)))) as source:
        question = await asked(use(source, "raw.ask", times=99))
        question = await asked(reply(source, "raw.ask", question.state, {"day": "1"}, times=99))
        with pytest.raises(ToolFailed, match="asked more than 2 questions in one call"):
            await reply(source, "raw.ask", question.state, {"day": "2"}, times=99)
        assert await use(source, "raw.echo", text="again") == "again"
        question = await asked(use(source, "raw.page", **given))
        question = await asked(reply(source, "raw.page", question.state, "done", **given))
        with pytest.raises(ToolFailed, match="more than 2 times"):
            await reply(source, "raw.page", question.state, "done", **given)


async def test_a_question_nobody_answers_lapses_and_chooses_nothing() -> None:
    bounds = limits(answer_s=0.1)
    async with await approved(
        servers(a=raw(bounds=bounds, trusted=True), b=raw(bounds=bounds))
    ) as s:
        read, write = await asked(use(s, "a.ask")), await asked(use(s, "b.ask"))
        await until(lambda: not any(s._servers[name]._parked for name in ("a", "b")))
        with pytest.raises(ToolFailed, match="no longer waits for the answer"):
            await reply(s, "b.ask", write.state, {"day": "mon"})
        # A call that only reads is made anew, and asks anew.
        progress: list[str] = []
        call = Call(key="k", progress=progress.append, reply=Reply({"day": "mon"}, read.state))
        again = await asked(s.call("a.ask", {}, call))
        assert progress == ["its server no longer waits for the answer: the call is made again"]
        assert again.state != read.state


async def test_after_a_restart_an_old_answer_does_not_make_a_write_happen_twice() -> None:
    approvals = Approvals()
    async with McpServers({"raw": raw()}, approvals=approvals) as source:
        await approved(source)
        question = await asked(use(source, "raw.ask"))
    async with McpServers({"raw": raw()}, approvals=approvals) as source:
        with pytest.raises(OutcomeUnknown, match="no longer waits"):
            await reply(source, "raw.ask", question.state, {"day": "mon"})


# Servers that give the question back and forget (2026)


async def test_a_question_given_back_survives_a_restart_of_both_sides_and_ends_in_time() -> None:
    approvals = Approvals()
    settings = raw("modern", protocol="auto", bounds=limits(questions=2))
    async with McpServers({"raw": settings}, approvals=approvals) as source:
        await approved(source)
        assert source.statuses()[0].protocol == "2026-07-28"
        first = await asked(use(source, "raw.rounds"))
    async with McpServers({"raw": settings}, approvals=approvals) as source:
        second = await asked(reply(source, "raw.rounds", first.state, {"day": "mon"}))
        assert (first.message, second.message) == ("raw asks: Day 0?", "raw asks: Day 1?")
        with pytest.raises(ToolFailed, match="does not fit"):
            await reply(source, "raw.rounds", second.state, {"day": 1})
        bad: list[Any] = [None, {}, {"asked": {}, "answers": {}}, {"asked": 1, "answers": 2}]
        for state in bad:
            with pytest.raises(ToolFailed, match="belongs to no open question"):
                await reply(source, "raw.rounds", state, {"day": "mon"})
        with pytest.raises(ToolFailed, match="asked more than 2 times"):
            await reply(source, "raw.rounds", second.state, {"day": "tue"})


async def test_a_server_that_only_wants_to_be_asked_later_is_asked_later_but_not_for_ever() -> None:
    settings = raw("modern", protocol="auto", bounds=limits(questions=2))
    async with await approved(servers(raw=settings)) as source:
        assert await use(source, "raw.later", times=2) == "at last"
        with pytest.raises(ToolFailed, match="asked more than 2 times"):
            await use(source, "raw.later", times=9)
        with pytest.raises(ToolFailed, match="it asks for sampling/createMessage"):
            await use(source, "raw.model")


# Pages to be opened


async def test_a_page_to_open_is_a_link_and_the_call_is_made_after_it(tmp_path: Path) -> None:
    mark = tmp_path / "signed-in"
    given = {"signed_in": str(mark)}
    async with await approved(servers(raw=raw())) as source:
        question = await asked(use(source, "raw.page", **given))
        assert question.link == "https://a.example/in"
        assert question.options == ("done", "decline")
        with pytest.raises(ToolFailed, match="has to be 'done' or 'decline'"):
            await reply(source, "raw.page", question.state, "later", **given)
        with pytest.raises(ToolFailed, match="you answered decline"):
            await reply(source, "raw.page", question.state, "decline", **given)
        mark.touch()
        assert await reply(source, "raw.page", question.state, "done", **given) == "signed in"


# Both eras, on the library's own server


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_both_eras_ask_progress_cancel_and_tell_of_new_tools(
    protocol: str, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    settings = friendly(protocol=protocol, trusted=True, env={"RECORD": str(record)})
    async with await approved(servers(f=settings)) as source:
        era = {"legacy": "2025-11-25", "auto": "2026-07-28"}[protocol]
        assert source.statuses()[0].protocol == era
        assert await use(source, "f.add", a=1, b=2) == {"result": 3}
        await _asks_twice(source)
        await is_cancelled(source, "f.wait", record)
        await _notices_a_new_tool(source)


async def _asks_twice(source: McpServers) -> None:
    question = await asked(use(source, "f.book", what="table"))
    answers: dict[str, Any] = {"Which day?": {"day": "mon"}, "How many people?": {"people": 3}}
    for _ in range(2):
        answer = answers.pop(question.message.removeprefix("f asks: "))
        step = reply(source, "f.book", question.state, answer, what="table")
        if answers:
            question = await asked(step)
        else:
            assert await step == {"result": "table on mon for 3"}


async def _notices_a_new_tool(source: McpServers) -> None:
    await use(source, "f.grow")
    await until(lambda: source._servers["f"]._listing is None)
    assert "f.grown" in [each.name for each in await source.pending()]
