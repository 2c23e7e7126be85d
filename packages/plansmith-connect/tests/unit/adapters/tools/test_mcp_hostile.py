"""Hostile servers (M4): whatever they do, memory and time are bounded and the call ends cleanly."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.kit import approved, limits, raw, servers, use

from plansmith.errors import OutcomeUnknown, ToolBusy, ToolFailed
from plansmith_connect.mcp.transports import ServerOutput, parse_line

MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("lie", 'does not fit its own schema: "many" is not of type "number"'),
        ("empty", "declares a structured result and returned none"),
        ("bytes", "its reply cannot be read: the reply is not valid JSON in UTF-8"),
        ("surrogate", "its reply cannot be read"),
        ("deep", "its reply cannot be read"),
        ("nan", "cannot be stored as JSON"),
        ("nonsense", "its reply does not follow the protocol"),
    ],
)
async def test_a_bad_reply_fails_its_call_and_no_other(tool: str, said: str) -> None:
    async with await approved(servers(raw=raw())) as source:
        with pytest.raises(ToolFailed, match=said):
            await use(source, f"raw.{tool}")
        assert await use(source, "raw.echo", text="still here") == "still here"


async def test_a_reply_of_a_hundred_megabytes_is_not_taken_in() -> None:
    async with await approved(servers(raw=raw(trusted=True))) as source:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(OutcomeUnknown, match="more than 4,194,304 bytes") as caught:
            await use(source, "raw.big", bytes=100 * MEGABYTE)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # It would do so again: there is no other try, although it only reads.
        assert not caught.value.again
        assert (after - before) * 1024 < 50 * MEGABYTE
        assert await use(source, "raw.echo", text="again") == "again"


async def test_silence_ends_at_the_time_limit_and_is_cancelled_on_the_wire() -> None:
    async with await approved(servers(b=raw(bounds=limits(call_s=0.2)))) as s:
        with pytest.raises(OutcomeUnknown, match=r"no answer from its server for 0\.2 s") as caught:
            await use(s, "b.silent")
        assert caught.value.again
        assert await use(s, "b.echo", text="still here") == "still here"
        with pytest.raises(ToolFailed, match="no answer"):
            await use(s, "b.headless")


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("mute", "it did not start within 0.5 s"),
        ("million", "it has more than 500 tools"),
        ("pages", "endless pages"),
    ],
)
async def test_a_server_that_never_starts_or_lists_without_end_is_given_up(
    mode: str, why: str
) -> None:
    bounds = limits(start_s=0.5) if mode == "mute" else limits()
    async with await approved(servers(raw=raw(mode, bounds=bounds))) as source:
        assert list(await source.tools()) == []
        assert why in source.statuses()[0].detail
        if mode == "mute":
            with pytest.raises(ToolBusy, match="did not start"):
                await use(source, "raw.echo")


async def test_many_calls_get_their_own_results_and_what_a_server_wants_is_refused() -> None:
    async with await approved(servers(raw=raw())) as source:
        calls = [use(source, "raw.echo", text=str(number)) for number in range(50)]
        assert await asyncio.gather(*calls) == [str(number) for number in range(50)]
        assert await use(source, "raw.sample") == "Sampling not supported"
        assert await use(source, "raw.roots") == "List roots not supported"
        with pytest.raises(ToolFailed, match="asked more than 64 things at once"):
            await use(source, "raw.flood")
        assert await use(source, "raw.echo", text="again") == "again"


# The reading of lines


@given(st.binary(max_size=200))
def test_no_line_can_break_the_reader(line: bytes) -> None:
    parse_line(line)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":"\xff"}', 7),
        (b'{"jsonrpc":"2.0","result":{"x":' + b"[" * 5000 + b'},"id": 8}', 8),
    ],
)
def test_an_unreadable_reply_still_finds_its_request(line: bytes, number: int) -> None:
    message: Any = parse_line(line)
    assert message.message.id == number


def test_only_the_end_of_what_a_server_says_is_kept() -> None:
    words = ServerOutput(10)
    for each in (b"x" * 1000, b"\xffthe end"):
        words.hear(each)
    assert words.last == "xx\ufffdthe end"
