"""Contract tests for implementations of ports, as classes to inherit in a test module.

    from plansmith.testing.contracts import JournalStoreContract

    class TestMyStore(JournalStoreContract):
        def make_store(self): return MyStore()

One each for stores, documents, models, tool sources, agents, context sources, rankers, planners,
writers of replies, conversations, secrets and clocks; `claim_contracts` has that for stores which
several processes share. They need nothing but pytest: each test runs its own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plansmith import ports
from plansmith.app import Plansmith
from plansmith.errors import JournalDamaged, Misconfigured, ModelFailed, StaleWriter, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, json_text
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.plan.problem import has_errors
from plansmith.plan.run import RunStatus
from plansmith.plan.run_options import RunOptions
from plansmith.testing.fakes import FakeTool, FakeTools

_START = datetime(2026, 1, 1, tzinfo=UTC)
_HELLO = ports.Prompt([ports.Message("user", "hello")])


def journal(run: str, length: int) -> list[e.Event]:
    """Returns a valid journal of a given length."""
    events: list[e.Event] = []
    for number in range(length):
        body: e.AnyBody = (
            e.RunPaused(reason=f"{number}") if number else e.RunCreated(request="\u8bf7 ✓")
        )
        last = events[-1] if events else None
        at = _START + timedelta(microseconds=number)
        actor = e.Actor(kind="system", name="contract")
        events.append(e.next_event(body, run=run, by=actor, at=at, last=last))
    return events


def on_new_store(test: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any], None]:
    """Runs a test of a contract with a new store, in an event loop of its own."""

    async def play(contract: Any) -> None:
        store = contract.make_store()
        try:
            await test(contract, store)
        finally:
            await store.close()
            await store.close()

    return in_loop(play)


def in_loop(test: Callable[[Any], Awaitable[None]]) -> Callable[[Any], None]:
    """Runs a test of a contract in an event loop of its own."""

    async def play(contract: Any) -> None:
        await test(contract)

    return lambda contract: asyncio.run(play(contract))


class JournalStoreContract:
    """Tests for stores; define `make_store`."""

    def make_store(self) -> ports.JournalStore:
        """Returns a new, empty store."""
        raise NotImplementedError

    @on_new_store
    async def test_events_are_read_behind_a_number(self, store: ports.JournalStore) -> None:
        events = journal("a", 5)
        await store.append(events)
        assert list(await store.events("a", after=3)) == events[3:]
        assert list(await store.events("a", after=9)) == []
        assert list(await store.events("unknown")) == []

    @on_new_store
    async def test_a_stale_writer_is_refused_and_changes_nothing(
        self, store: ports.JournalStore
    ) -> None:
        events = journal("a", 4)
        await store.append(events[:3])
        for stale in ([events[1]], events[1:3], events[2:4], journal("b", 2)[1:]):
            with pytest.raises(StaleWriter):
                await store.append(stale, [{"not": "needed"}])
        assert list(await store.events("a")) == events[:3]
        assert list(await store.events("b")) == []
        assert [each.number for each in await store.news()] == [1, 2, 3]

    @on_new_store
    async def test_of_two_writers_exactly_one_wins(self, store: ports.JournalStore) -> None:
        events = journal("a", 2)
        await store.append(events[:1])
        rivals = [store.append(events[1:]) for _ in range(5)]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
        assert outcomes.count(None) == 1
        assert sum(isinstance(each, StaleWriter) for each in outcomes) == 4
        assert list(await store.events("a")) == events

    @on_new_store
    async def test_runs_are_listed_oldest_first(self, store: ports.JournalStore) -> None:
        await store.append([])
        assert list(await store.runs()) == []
        for run in ("0001", "0002", "0003"):
            await store.append(journal(run, 1))
        await store.append(journal("0001", 2)[1:])
        assert list(await store.runs()) == ["0001", "0002", "0003"]

    @on_new_store
    async def test_news_of_all_runs_come_in_their_order(self, store: ports.JournalStore) -> None:
        a, b = journal("a", 3), journal("b", 2)
        for events in (a[:1], b[:1], a[1:], b[1:]):
            await store.append(events)
        news = await store.news()
        order = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]
        assert [(each.run, each.number) for each in news] == order
        assert [each.position for each in news] == sorted({each.position for each in news})
        assert await store.news(news[1].position, limit=2) == news[2:4]
        assert await store.news(news[-1].position) == []

    @on_new_store
    async def test_waiting_for_news_ends_with_the_next_event_of_any_run(
        self, store: ports.JournalStore
    ) -> None:
        await store.append(journal("a", 1))
        seen = await store.wait_news(0)
        waiting = asyncio.ensure_future(store.wait_news(seen))
        await store.append(journal("b", 1))
        assert await asyncio.wait_for(waiting, 30) > seen
        assert [each.run for each in await store.news(seen)] == ["b"]

    @on_new_store
    async def test_a_run_is_open_until_it_is_finished(self, store: ports.JournalStore) -> None:
        await store.append(journal("a", 2))
        over = journal("b", 1)
        body = e.RunFinished(status="done")
        system = e.Actor(kind="system")
        end = e.next_event(body, run="b", by=system, at=over[0].at, last=over[0])
        await store.append([*over, end])
        assert list(await store.open_runs()) == ["a"]

    @on_new_store
    async def test_a_value_comes_back_by_its_hash(self, store: ports.JournalStore) -> None:
        text = "\u6587\u5b57 \u0000 \U0001f600"
        values: list[Json] = [None, True, 1, 1.5, text, [1, [2]], {"b": {"a": []}}]
        for value in values:
            digest = await store.put(value)
            assert await store.put(value) == digest
            back = await store.get(digest)
            assert back == value
            assert type(back) is type(value)
        changed: dict[str, Json] = {"a": 1}
        digest = await store.put(changed)
        changed["a"] = 2
        assert await store.get(digest) == {"a": 1}, "it cannot be changed from outside"

    @on_new_store
    async def test_a_run_that_was_run_is_whole_folds_and_has_all_its_results(
        self, store: ports.JournalStore
    ) -> None:
        source = FakeTools(FakeTool("look", [{"text": "\u2713 seen"}, [1, 2.5, None]]))
        smith = Plansmith(tools=[source], store=store)
        steps = [{"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "after": ["a"]}]
        plan = Plan.model_validate({"goal": "see", "steps": steps})
        run = await smith.run((await smith.submit(plan)).id)
        assert run.status is RunStatus.DONE
        events = list(await store.events(run.id))
        e.verify_chain(events)
        assert [each.number for each in events] == list(range(1, len(events) + 1))
        again = await smith.get(run.id)
        assert (again, again.damage) == (run, "")
        assert [again.steps[name].result for name in "ab"] == [
            {"text": "\u2713 seen"},
            [1, 2.5, None],
        ]
        for after in range(len(events)):
            assert list(await store.events(run.id, after=after)) == events[after:]
        assert list(await store.open_runs()) == []

    @on_new_store
    async def test_an_unknown_hash_is_an_error(self, store: ports.JournalStore) -> None:
        with pytest.raises(JournalDamaged):
            await store.get("0" * 64)


def document(name: str, version: int = 1, *, kind: str = "note", **more: str) -> ports.Document:
    """Returns a version of a document."""
    return ports.Document(kind, name, version, f'{{"text":"{name} {version} \u6696"}}', **more)  # type: ignore[arg-type]


class DocumentsContract:
    """Tests for stores that keep documents; define `make_store`."""

    def make_store(self) -> ports.Store:
        raise NotImplementedError

    @on_new_store
    async def test_a_record_comes_back_as_it_was_put(self, store: ports.Store) -> None:
        put = document("a", label="'; --", place="%s :kind", state="open", run="r")
        assert await store.put_documents([put])
        assert await store.put_documents([])
        assert await store.document("note", "a") == put
        assert await store.document("note", "b") is None
        assert await store.document("other", "a") is None

    @on_new_store
    async def test_a_version_is_followed_only_by_the_next(self, store: ports.Store) -> None:
        assert not await store.put_documents([document("a", 2)])
        assert await store.put_documents([document("a")])
        assert await store.put_documents([document("a", 2)])
        for version in (1, 2, 4):
            assert not await store.put_documents([document("a", version)])
        assert await store.document("note", "a") == document("a", 2)

    @on_new_store
    async def test_records_are_put_together_or_not_at_all(self, store: ports.Store) -> None:
        await store.put_documents([document("b")])
        assert not await store.put_documents([document("a"), document("b"), document("c")])
        assert list(await store.documents("note")) == [document("b")]
        assert await store.put_documents([document("a"), document("b", 2)])
        assert list(await store.documents("note")) == [document("a"), document("b", 2)]

    @on_new_store
    async def test_of_many_who_write_one_version_exactly_one_wins(self, store: ports.Store) -> None:
        rivals = [document("a", label=f"{number}") for number in range(9)]
        won = await asyncio.gather(*(store.put_documents([each]) for each in rivals))
        assert sum(won) == 1
        assert list(await store.documents("note")) == [rivals[won.index(True)]]

    @on_new_store
    async def test_lists_choose_by_label_and_state_and_sort_by_place(
        self, store: ports.Store
    ) -> None:
        a = document("a", place="3", label="x")
        b = document("b", place="1", label="y", state="open")
        c = document("c", place="2", label="x", state="open")
        d = document("d", place="2", label="x")
        await store.put_documents([a, b, c, d, document("a", kind="other", place="0", label="x")])
        assert list(await store.documents("note")) == [b, c, d, a]
        assert list(await store.documents("note", newest=True)) == [a, d, c, b]
        assert list(await store.documents("note", label="x")) == [c, d, a]
        assert list(await store.documents("note", state="open")) == [b, c]
        assert list(await store.documents("note", label="x", state="")) == [d, a]
        assert list(await store.documents("note", newest=True, limit=2)) == [a, d]
        assert list(await store.documents("note", after=("2", "c"))) == [d, a]
        assert list(await store.documents("note", after=("2", "d"), newest=True)) == [c, b]
        assert list(await store.documents("none")) == []

    @on_new_store
    async def test_removed_records_take_those_that_are_labelled_with_their_names(
        self, store: ports.Store
    ) -> None:
        parts = [document(f"{of}{n}", kind="part", label=of) for of in "ab" for n in (1, 2)]
        await store.put_documents([document("a"), document("b"), document("c"), *parts])
        assert await store.remove_documents("note", ["a", "none"], labelled=["part"]) == 1
        assert list(await store.documents("note")) == [document("b"), document("c")]
        assert list(await store.documents("part")) == parts[2:]
        assert await store.remove_documents("note", []) == 0
        assert await store.remove_documents("note", ["b"]) == 1
        assert list(await store.documents("part")) == parts[2:]
        assert await store.put_documents([document("a")])

    @on_new_store
    async def test_a_record_of_a_run_is_deleted_with_the_run(self, store: ports.Store) -> None:
        await store.append(journal("r", 2))
        kept = document("b")
        await store.put_documents([document("a", run="r"), kept])
        assert await store.delete_run("r")
        assert list(await store.documents("note")) == [kept]

    @on_new_store
    async def test_waiting_for_a_record_ends_with_its_next_version_and_no_other(
        self, store: ports.Store
    ) -> None:
        await store.put_documents([document("a")])
        await asyncio.wait_for(store.wait_document("note", "a", version=0), 30)
        waiting = asyncio.ensure_future(store.wait_document("note", "a", version=1))
        new = asyncio.ensure_future(store.wait_document("note", "b", version=0))
        for _ in range(5):
            await asyncio.sleep(0)
        await store.put_documents([document("a", kind="other"), document("a", 2, kind="more")])
        await store.append(journal("a", 5))
        assert not waiting.done()
        await store.put_documents([document("a", 2)])
        await asyncio.wait_for(waiting, 30)
        assert not new.done()
        await store.put_documents([document("b")])
        await asyncio.wait_for(new, 30)


class ChatModelContract:
    """Tests for models; define `make_model`; any answer is accepted."""

    def make_model(self) -> ports.ChatModel:
        """Returns a model that answers at least once."""
        raise NotImplementedError

    @in_loop
    async def test_an_answer_is_pieces_of_text_and_one_end(self) -> None:
        deltas = [each async for each in self.make_model().stream(_HELLO)]
        assert isinstance(deltas[-1], ports.ModelDone)
        assert sum(isinstance(each, ports.ModelDone) for each in deltas) == 1
        assert "".join(each.text for each in deltas if isinstance(each, ports.TextDelta))
        assert deltas[-1].usage.input_tokens >= 0

    def test_a_model_has_a_name(self) -> None:
        assert self.make_model().name

    @in_loop
    async def test_an_answer_may_be_left_half_way(self) -> None:
        stream = self.make_model().stream(_HELLO)
        async for _ in stream:
            break
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


class ToolSourceContract:
    """Tests for tool sources; define `make_source` and one call that works."""

    good_call: tuple[str, Mapping[str, Json]]

    def make_source(self) -> ports.ToolSource:
        """Returns a source with at least one tool."""
        raise NotImplementedError

    def test_tools_have_distinct_names_and_object_schemas(self) -> None:
        tools = asyncio.run(self.make_source().tools())
        assert tools
        assert len({tool.name for tool in tools}) == len(tools)
        assert all(tool.input_schema.get("type", "object") == "object" for tool in tools)

    def test_a_good_call_gives_a_result(self) -> None:
        tool, arguments = self.good_call
        asyncio.run(self.make_source().call(tool, arguments, ports.Call(key="contract")))

    def test_a_call_of_no_tool_fails_as_a_tool(self) -> None:
        with pytest.raises(ToolFailed):
            asyncio.run(self.make_source().call("no such tool", {}, ports.Call(key="contract")))


class AgentContract:
    """Tests for agents; define `make_agent`; the agent must do the task `hello`."""

    def make_agent(self) -> ports.Agent:
        raise NotImplementedError

    def test_an_agent_has_a_card_and_does_a_task(self) -> None:
        agent = self.make_agent()
        assert agent.spec.name
        assert asyncio.run(agent.work("hello", {}, ports.Call(key="contract"))) is not None


class ContextSourceContract:
    """Tests for context sources; define `make_source`."""

    def make_source(self) -> ports.ContextSource:
        raise NotImplementedError

    @in_loop
    async def test_blocks_have_titles_and_keep_to_the_limit(self) -> None:
        blocks = await self.make_source().gather("hello", token_limit=50)
        assert all(block.title for block in blocks)
        assert sum(len(block.text.split()) for block in blocks) <= 50


class RankerContract:
    """Tests for rankers; define `make_ranker`."""

    def make_ranker(self) -> ports.Ranker:
        raise NotImplementedError

    def test_every_text_gets_a_score_and_the_same_text_the_best(self) -> None:
        texts = ["send an email", "the weather in a city", ""]
        scores = list(self.make_ranker().scores("the weather in a city", texts))
        assert len(scores) == 3
        assert max(range(3), key=scores.__getitem__) == 1

    def test_no_texts_give_no_scores(self) -> None:
        assert list(self.make_ranker().scores("anything", [])) == []


class PlannerContract:
    """Tests for planners; define `make_planner`. It gets one tool, to look for something."""

    def make_planner(self) -> ports.Planner:
        """Returns a planner for one request."""
        raise NotImplementedError

    def test_a_planner_has_a_name(self) -> None:
        assert self.make_planner().name

    def test_a_request_leads_to_a_plan_for_the_tools_there_are_or_to_words(self) -> None:
        self._plans(PlanRequest("look for cats"))

    def test_a_plan_is_revised_as_a_person_asks(self) -> None:
        steps = [{"id": "a", "tool": "look", "inputs": {"x": "dogs"}}]
        before = Plan.model_validate({"goal": "see", "steps": steps})
        self._plans(PlanRequest("look for dogs", previous=before, feedback="rather for cats"))

    def _plans(self, request: PlanRequest) -> None:
        lines, planner = list[str](), self.make_planner()

        async def scenario() -> Planned:
            [spec] = await FakeTools(FakeTool("look", ["seen"])).tools()
            available = ports.Available(tools=[spec])
            return await planner.make(request, available, tell=lines.append)

        made = asyncio.run(scenario())
        assert all(isinstance(each, str) for each in lines)
        assert made.plan is not None or made.answer or made.reason
        steps = made.plan.steps if made.plan is not None else ()
        called = {step.tool for step in steps if step.kind == "tool"}
        # A plan that could not run comes with what is wrong with it.
        assert called <= {"look"} or has_errors([*made.problems])


class ReplyWriterContract:
    """Tests for writers of replies; define `make_writer` and `make_broken_writer`."""

    def make_writer(self) -> ports.ReplyWriter:
        """Returns a writer that can write one reply."""
        raise NotImplementedError

    def make_broken_writer(self) -> ports.ReplyWriter:
        """Returns a writer that cannot: its model is away, or says nothing usable."""
        raise NotImplementedError

    def test_a_reply_is_a_text(self) -> None:
        assert isinstance(asyncio.run(self._write(self.make_writer())), str)

    def test_a_reply_that_cannot_be_written_is_a_failure_of_the_model(self) -> None:
        with pytest.raises(ModelFailed):
            asyncio.run(self._write(self.make_broken_writer()))

    async def _write(self, writer: ports.ReplyWriter) -> str:
        brief = ports.ReplyBrief("Say what {{look}} is", {"{{look}}": {"rows": [1, "two"]}})
        return await writer.write(brief, [ports.Message("user", "hello")], ports.Call("contract"))


class ConversationsContract:
    """Tests for what remembers conversations; define `begin`."""

    async def begin(self, *messages: str) -> tuple[ports.Conversations, str, Sequence[int]]:
        """Lets a person say this in a new conversation; returns its id and the message numbers."""
        raise NotImplementedError

    @in_loop
    async def test_a_message_comes_after_those_that_were_said_before_it(self) -> None:
        conversations, thread, numbers = await self.begin("first", "second", "third")
        assert list(await conversations.before(thread, numbers[0])) == []
        before = await conversations.before(thread, numbers[2])
        assert [each.text for each in before if each.role == "user"] == ["first", "second"]

    @in_loop
    async def test_a_run_may_join_twice_and_brings_no_results_that_it_has_not(self) -> None:
        conversations, thread, numbers = await self.begin("first", "second")
        for _ in range(2):
            await conversations.join("a-run", RunOptions(thread=thread, message=numbers[0]))
        assert list(await conversations.results(thread, numbers[1])) == []


class SecretsContract:
    """Tests for secrets; define `make_secrets`."""

    def make_secrets(self, name: str, value: str, tool: str) -> ports.Secrets:
        """Returns secrets with one of this name and value, for this tool alone."""
        raise NotImplementedError

    def test_a_secret_is_revealed_to_its_tool_and_to_no_other(self) -> None:
        secrets = self.make_secrets("key", "open sesame", "mail.send")
        assert secrets.flaw("key", "mail.send") == ""
        assert secrets.reveal("key", "mail.send") == "open sesame"
        for name, tool in (("key", "web.get"), ("other", "mail.send"), ("key", "")):
            assert secrets.flaw(name, tool)
            with pytest.raises(Misconfigured):
                secrets.reveal(name, tool)

    def test_what_comes_back_from_a_tool_has_no_secret_in_it(self) -> None:
        secrets = self.make_secrets("key", "open sesame", "mail.send")
        secrets.reveal("key", "mail.send")
        result: list[Json] = ["it is open sesame", {"open sesame": [{"deep": "open sesame!"}]}, 7]
        assert "sesame" not in json_text(secrets.hide(result))
        assert secrets.hide(["nothing", {"to": "hide"}, 7]) == ["nothing", {"to": "hide"}, 7]


class ClockContract:
    """Tests for clocks that move by themselves; define `make_clock`."""

    def make_clock(self) -> ports.Clock:
        raise NotImplementedError

    @in_loop
    async def test_time_is_utc_and_goes_forward_over_a_sleep(self) -> None:
        clock = self.make_clock()
        before, mark = clock.now(), clock.monotonic()
        await clock.sleep(0.001)
        assert before.utcoffset() == timedelta(0)
        assert clock.monotonic() > mark
