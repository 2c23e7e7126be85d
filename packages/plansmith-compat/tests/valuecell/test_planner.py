"""ValueCell: every fact of its section, every decision, and the defects that are not inherited."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.members import NO_TRIAGE, Member, Script
from tests.servers.a2a_desk import Desk
from tests.waiting import until

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import Misconfigured, ModelRefused, ToolFailed
from plansmith.plan.capability import Skill
from plansmith.plan.limits import Limits
from plansmith.schedules.schedule import Missed, Overlap
from plansmith.testing import Answer, FakeClock, MemoryStore, ScriptedModel
from plansmith_compat import valuecell as vc
from plansmith_compat.valuecell import (
    AgentOrchestrator,
    ExecutionPlanner,
    PlanService,
    RemoteConnections,
)
from plansmith_compat.valuecell.conversations import is_confirmed
from plansmith_connect.a2a.agent import connect
from plansmith_planner.dialect import dialect, recognise
from plansmith_planner.settings import PlannerSettings

SKILL = Skill(
    name="Price watch", description="Monitors prices", examples=("Watch AAPL",), tags=("alerts",)
)


def task(agent: str = "Research", **fields: Any) -> dict[str, Any]:
    return {"title": "Look at Apple", "query": "look at Apple", "agent_name": agent} | fields


def answer(*tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"tasks": list(tasks), "adequate": True, "reason": "it fits"} | fields


def asked(query: str = "look at Apple", target: str = "", conversation: str = "c1") -> vc.UserInput:
    meta = vc.UserInputMetadata(conversation_id=conversation, user_id="ada")
    return vc.UserInput(query=query, target_agent_name=target, meta=meta)


def smith_of(model: ScriptedModel | None, *agents: Any, **options: Any) -> Plansmith:
    given: dict[str, Any] = {"settings": NO_TRIAGE} | options
    return Plansmith(model=model, agents=agents or [Member("Research")], **given)


async def nobody(_: vc.UserInputRequest) -> None:
    raise AssertionError("nothing was to be asked")


async def planned(smith: Plansmith, request: vc.UserInput, thread: str = "t1") -> vc.ExecutionPlan:
    return await ExecutionPlanner(RemoteConnections(smith)).create_plan(request, nobody, thread)


def orchestrator(smith: Plansmith, agent: vc.SuperAgent | None = None) -> vc.AgentOrchestrator:
    return vc.AgentOrchestrator(vc.PlanService(RemoteConnections(smith)), agent)


async def send(desk: vc.AgentOrchestrator, request: vc.UserInput) -> list[tuple[str, str]]:
    """Returns all responses to a message; a stream that does not end fails the test."""

    async def everything() -> list[tuple[str, str]]:
        return [(each.event, each.content) async for each in desk.process_user_input(request)]

    return await asyncio.wait_for(everything(), timeout=30)


# Triage


@pytest.mark.parametrize("broken", ["no model", "failing model"])
async def test_a_request_is_handed_over_unchanged_when_the_triage_model_is_unavailable(
    scripted: Script, broken: str
) -> None:
    model = None if broken == "no model" else scripted(ModelRefused("no key"))
    outcomes = [each async for each in vc.SuperAgent(model).run(asked("look at Apple"))]
    assert [each.enriched_query for each in outcomes] == ["look at Apple"]
    assert outcomes[0].decision is vc.SuperAgentDecision.HANDOFF_TO_PLANNER
    assert outcomes[0].reason


# The plan service


async def test_a_passthrough_agent_gets_one_task_and_no_model_is_called() -> None:
    worker = Member("Strategy", passthrough=True)
    smith = smith_of(None, worker)
    planning = PlanService(RemoteConnections(smith)).start_planning_task(
        asked("trade it", "Strategy"), "t1", nobody
    )
    assert isinstance(planning, asyncio.Task)
    plan = await planning
    [only] = plan.tasks
    assert (only.title, only.query, only.agent_name) == ("Run Strategy", "trade it", "Strategy")
    assert (await smith.run(plan.plan_id)).status is RunStatus.DONE
    assert worker.tasks == ["trade it"]


@pytest.mark.parametrize("query", ["What was Tesla's revenue?", "Go on", "daily at 9: {{x}}"])
async def test_a_request_to_a_named_agent_passes_through_unchanged(
    scripted: Script, query: str
) -> None:
    plan = await planned(smith_of(scripted()), asked(query, target="Research"))
    [only] = plan.tasks
    assert (only.query, only.agent_name, plan.guidance_message) == (query, "Research", None)
    assert only.pattern is vc.TaskPattern.ONCE


async def test_pending_questions_are_kept_by_conversation_and_answered_once(
    scripted: Script,
) -> None:
    registry, request = vc.UserInputRegistry(), vc.UserInputRequest("Which stock?")
    service = PlanService(RemoteConnections(smith_of(scripted())), user_input_registry=registry)
    service.register_user_input("c1", request)
    assert service.has_pending_request("c1")
    assert service.get_request_prompt("c1") == registry.get_prompt("c1") == "Which stock?"
    assert service.get_request_prompt("c2") is None
    assert service.provide_user_response("c1", "Apple") is True
    assert service.provide_user_response("c1", "Tesla") is False
    assert request.response == await request.wait_for_response() == "Apple"
    service.register_user_input("c1", request)
    service.clear_pending_request("c1")
    assert not registry.has_request("c1")
    assert isinstance(service.planner, ExecutionPlanner)


# The planner


FAILURE = ModelRefused("the key is wrong", hint="set OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("answers", "parts"),
    [
        (None, ["Planner is unavailable: ", "no model"]),
        ([FAILURE], ["Planner is unavailable: ", "the key is wrong", "set OPENAI_API_KEY"]),
        (["I would rather sing"] * 3, ["malformed", "I would rather sing"]),
    ],
)
async def test_a_model_failure_is_guidance_and_never_an_exception(
    answers: list[Any] | None, parts: list[str]
) -> None:
    model = None if answers is None else ScriptedModel(*answers)
    plan = await planned(smith_of(model), asked())
    assert plan.tasks == []
    assert all(part in (plan.guidance_message or "") for part in parts)


def test_the_planner_can_describe_one_agent_and_list_the_enabled_ones(scripted: Script) -> None:
    agents = [
        Member("Watcher", description="Watches", skills=(SKILL,)),
        Member("Ghost", enabled=False),
        Member("Hidden", hidden=True),
        Member("Direct", passthrough=True),
    ]
    connections = RemoteConnections(smith_of(scripted(), *agents))
    planner = ExecutionPlanner(connections)
    text = planner.tool_get_agent_description("Watcher")
    for part in ("# Agent: Watcher", "Price watch", "Watch AAPL", "`alerts`", "Monitors prices"):
        assert part in text
    assert text == vc.agentcard_to_prompt(agents[0].spec)
    assert "could not be found" in planner.tool_get_agent_description("Ghost")
    listed = planner.tool_get_enabled_agents()
    assert "<Watcher>" in listed
    assert not any(name in listed for name in ("Ghost", "Hidden", "Direct"))
    assert set(connections.get_all_agent_cards()) == {"Watcher", "Hidden", "Direct"}
    assert connections.is_planner_passthrough("Direct")
    assert connections.list_available_agents() == ["Watcher", "Hidden", "Direct"]


@pytest.mark.parametrize("name", ["Hidden", "Direct", "Invented"])
async def test_an_agent_that_is_not_available_rejects_the_plan_and_is_named(
    scripted: Script, name: str
) -> None:
    agents = [Member("Research"), Member("Hidden", hidden=True), Member("Direct", passthrough=True)]
    model = scripted(*[answer(task(name))] * 3)
    smith = smith_of(model, *agents)
    plan = await planned(smith, asked())
    assert plan.tasks == []
    for part in (name, "not available", "made them up", model.name):
        assert part in (plan.guidance_message or "")
    assert [run.status for run in await smith.runs.all()] == [RunStatus.FAILED]
    assert agents[0].tasks == []


async def test_an_invented_agent_is_mended_when_the_model_can(scripted: Script) -> None:
    model = scripted(answer(task("Invented")), Answer(answer(task()), expects="Invented"))
    plan = await planned(smith_of(model), asked())
    assert [each.agent_name for each in plan.tasks] == ["Research"]


def test_the_tasks_of_an_inadequate_plan_wait_for_an_answer_in_any_dialect_reader() -> None:
    reading = dialect("valuecell").read(answer(task(), task(), adequate=False))
    assert reading.plan is not None
    asks = [step for step in reading.plan.steps if step.kind == "ask"]
    assert len(asks) == 1
    for step in reading.plan.steps:
        assert step.kind == "ask" or asks[0].id in step.needed


async def test_an_inadequate_plan_is_its_guidance(scripted: Script) -> None:
    draft = answer(adequate=False, reason="no stock named", guidance_message="Name a stock.")
    plan = await planned(smith_of(scripted(draft)), asked("analyse"))
    assert (plan.tasks, plan.guidance_message) == ([], "Name a stock.")


async def test_the_model_is_asked_in_the_shape_and_the_words_of_the_planner(
    scripted: Script,
) -> None:
    model = scripted(answer(task()))
    await planned(smith_of(model, Member("Research", description="Looks at stocks")), asked())
    system, user = model.prompts[0]
    assert '"agent_name"' in system.text
    assert "ten English words or twenty Chinese characters" in system.text
    assert "language of the request" in system.text
    assert "Looks at stocks" in user.text


async def test_agents_over_a2a_are_known_by_their_cards_and_their_names_and_take_tasks(
    scripted: Script,
) -> None:
    async with Desk().serving() as served:
        agent: Any = await connect("desk", served.url, effect="read")
        model = scripted(answer(task("a2a.desk", query="echo hello")))
        async with smith_of(model, agent) as smith:
            card = RemoteConnections(smith).get_agent_card("a2a.desk")
            assert card is not None
            assert card.skills[0].name in vc.agentcard_to_prompt(card)
            plan = await planned(smith, asked())
            assert (await smith.run(plan.plan_id)).status is RunStatus.DONE
        plan = await planned(smith_of(scripted(), agent), asked(target="Desk"))
        assert [each.agent_name for each in plan.tasks] == ["a2a.desk"]
        taken = smith_of(scripted(), Member("Desk", enabled=False), agent)
        plan = await planned(taken, asked(target="Desk"))
        assert "'Desk' is not available" in (plan.guidance_message or "")
        assert served.executor.deeds == ["begin echo hello"]


# Plans and tasks


def test_the_models_have_the_fields_of_the_original() -> None:
    assert list(vc.ExecutionPlan.model_fields) == [
        *("plan_id", "conversation_id", "user_id", "orig_query", "tasks", "created_at"),
        "guidance_message",
    ]
    assert set(vc.Task.model_fields) >= {
        *("task_id", "title", "query", "conversation_id", "thread_id", "user_id", "agent_name"),
        *("status", "pattern", "schedule_config", "created_at", "started_at", "completed_at"),
        *("updated_at", "error_message"),
    }
    assert [each.value for each in vc.TaskStatus] == [
        *("pending", "running", "waiting_input", "completed", "failed", "cancelled")
    ]
    assert [each.value for each in vc.TaskPattern] == ["once", "recurring"]
    made = vc.PlannerResponse.model_validate(answer(task(pattern="once")))
    assert made.tasks[0].pattern is vc.TaskPattern.ONCE
    assert vc.PlannerInput(query="q").target_agent_name == ""
    nobody_named = vc.UserInput.model_validate({"query": "q", "target_agent_name": None})
    assert nobody_named.target_agent_name == ""


async def test_a_task_handed_over_has_a_new_conversation_and_keeps_the_thread(
    scripted: Script,
) -> None:
    smith = smith_of(scripted(answer(task(), task(query="and its rivals"))))
    plan = await planned(smith, asked(), thread="t7")
    assert plan.conversation_id == "c1"
    assert {each.thread_id for each in plan.tasks} == {"t7"}
    conversations = {each.conversation_id for each in plan.tasks}
    assert len(conversations) == 2
    assert "c1" not in conversations
    assert all(each.handoff_from_super_agent for each in plan.tasks)
    again = await ExecutionPlanner(RemoteConnections(smith)).plan_of(await smith.get(plan.plan_id))
    assert again == plan


LONG = "one two three four five six seven eight nine ten"
CHINESE = "每天早上九点检查苹果公司的股票价格并且"


@pytest.mark.parametrize(
    ("title", "short"),
    [
        (LONG, LONG),
        (f"{LONG} eleven", f"{LONG}…"),
        (CHINESE, CHINESE),
        (f"{CHINESE}发送通知", f"{CHINESE}…"),
    ],
)
async def test_titles_have_at_most_ten_words_or_twenty_characters(
    scripted: Script, title: str, short: str
) -> None:
    plan = await planned(smith_of(scripted(answer(task(title=title)))), asked())
    assert plan.tasks[0].title == short


# Schedules


@pytest.mark.parametrize(
    ("config", "at", "seconds"),
    [
        ({"interval_minutes": 5}, "08:00", 300),
        ({"daily_time": "09:30"}, "08:00", 5400),
        ({"daily_time": "9:5"}, "08:00", 3900),
        ({"daily_time": "07:15"}, "20:00", 40_500),
        ({"daily_time": "09:30", "timezone": "Asia/Shanghai"}, "08:00", 63_000),
        ({"daily_time": "24:00"}, "08:00", None),
        ({"daily_time": "soon"}, "08:00", None),
        ({"interval_minutes": 0}, "08:00", None),
        ({"daily_time": "09:30", "timezone": "Mars/Base"}, "08:00", None),
        ({}, "08:00", None),
    ],
)
def test_a_schedule_comes_at_its_time_and_a_bad_one_never(
    config: dict[str, Any], at: str, seconds: int | None
) -> None:
    now, made = (datetime.fromisoformat(f"2026-03-02T{at}:00+00:00"), vc.ScheduleConfig(**config))
    assert vc.calculate_next_execution_delay(made, now=now) == seconds
    assert made.is_valid() is (seconds is not None)
    given = {"query": "q", "conversation_id": "c", "user_id": "u", "agent_name": "A"}
    recurs = vc.Task.model_validate(given | {"pattern": "recurring", "schedule_config": made})
    assert recurs.is_scheduled() is made.is_valid()


def test_a_schedule_has_exactly_one_time() -> None:
    assert vc.calculate_next_execution_delay(None) is None
    both = vc.ScheduleConfig(interval_minutes=5, daily_time="09:30")
    assert both.is_valid() is False
    with pytest.raises(Misconfigured):
        both.timing()


YES = ["yes, confirmed", "Confirmed.", "check it every hour, I confirm", "go ahead", "确认"]
YES += ["好的，每天九点", "是的，没问题"]
NO = ["check it every hour", "do not set it up", "Please don’t set it up", "I can't confirm"]
NO += ["I cannot confirm that", "it isn’t confirmed", "不是的", "还没确认", "未经同意", "不好的"]
NO += ["不要，先别确认"]


def test_words_of_confirmation_count_inline_in_english_and_chinese() -> None:
    assert [draft for draft in YES if not is_confirmed(draft)] == []
    assert [draft for draft in NO if is_confirmed(draft)] == []


def recurring(**fields: Any) -> dict[str, Any]:
    config = {"interval_minutes": 60}
    given = {"pattern": "recurring", "schedule_config": config, "query": "look at Apple"}
    return task("Watcher", **given | fields)


def watcher(*does: Any) -> Member:
    return Member("Watcher", *does, effect=Effect.WRITE, unattended=True, skills=(SKILL,))


async def test_a_schedule_is_not_set_up_before_the_person_confirmed_it(scripted: Script) -> None:
    model = scripted(answer(recurring()), Answer(answer(recurring()), expects="every hour"))
    planner = ExecutionPlanner(RemoteConnections(smith_of(model, watcher())))
    first = await planner.create_plan(asked("look at Apple every hour"), nobody, "t1")
    assert first.tasks == []
    assert "confirm the schedule: every hour" in (first.guidance_message or "")
    [only] = (await planner.create_plan(asked("yes, confirmed"), nobody, "t1")).tasks
    assert only.pattern is vc.TaskPattern.RECURRING
    assert only.schedule_config == vc.ScheduleConfig(interval_minutes=60)
    assert "every hour" not in only.query


@pytest.mark.parametrize(
    ("query", "bare"),
    [
        ("Check the price of Tesla every hour", "Check the price of Tesla"),
        ("每小时检查特斯拉股价", "检查特斯拉股价"),
    ],
)
async def test_the_words_of_the_schedule_are_taken_out_of_the_query_also_when_the_model_did_not(
    scripted: Script, query: str, bare: str
) -> None:
    worker = watcher()
    smith = smith_of(scripted(answer(recurring(query=query))), worker, clock=FakeClock())
    plan = await planned(smith, asked(f"{query}, confirmed 确认"))
    assert [each.query for each in plan.tasks] == [bare]
    run = await smith.get(plan.plan_id)
    assert run.plan is not None
    orchestrator = AgentOrchestrator(PlanService(RemoteConnections(smith)))
    [made] = await orchestrator.set_up_each(plan, approve=run.plan.hash)
    await smith.schedules.fire_now(made.id)
    await smith.schedules.carried()
    assert worker.tasks == [bare]


async def test_a_recurring_task_needs_an_agent_that_monitors_or_notifies(scripted: Script) -> None:
    plain = Member("Watcher", effect=Effect.WRITE, description="Writes letters")
    smith = smith_of(scripted(answer(recurring())), plain)
    plan = await planned(smith, asked("write every hour, confirmed"))
    assert plan.tasks == []
    assert "not said to work unattended" in (plan.guidance_message or "")


async def scheduled(smith: Plansmith) -> Any:
    service = PlanService(RemoteConnections(smith))
    plan = await service.start_planning_task(asked("hourly, confirmed"), "t1", nobody)
    digest = (await smith.get(plan.plan_id)).plan
    assert digest is not None
    return (await AgentOrchestrator(service).set_up_each(plan, approve=digest.hash))[0]


async def test_a_recurring_task_resumes_after_a_restart_and_a_failed_run_does_not_end_it(
    scripted: Script,
) -> None:
    store, clock = MemoryStore(), FakeClock()
    first = smith_of(scripted(answer(recurring())), watcher(), store=store, clock=clock)
    made = await scheduled(first)
    assert (made.overlap, made.missed) == (Overlap.SKIP, Missed.ONE)

    second = smith_of(None, watcher(ToolFailed("the market is closed")), store=store, clock=clock)
    for times in (1, 2):
        await clock.advance(3600)
        await second.schedules.tick()
        await second.schedules.carried()
        runs = [run for run in await second.runs.all() if run.origin.kind == "schedule"]
        assert [run.status for run in runs] == [RunStatus.FAILED] * times
    assert (await second.schedules.get(made.id)).paused is False
    assert len(await second.schedules.history(made.id)) == 2


# Running


async def test_a_request_runs_through_and_done_is_the_last_event(scripted: Script) -> None:
    smith = smith_of(scripted(answer(task())))
    events = await send(orchestrator(smith), asked())
    names = [name for name, _ in events]
    assert names == [
        *("conversation_started", "thread_started", "task_started", "task_completed"),
        *("message", "done"),
    ]


async def test_a_failed_task_is_told_as_failed_and_never_as_completed(scripted: Script) -> None:
    broken = Member("Research", ToolFailed("no data"))
    smith = smith_of(scripted(answer(task())), broken, limits=Limits(max_replans=0))
    events = await send(orchestrator(smith), asked())
    names = [name for name, _ in events]
    assert "task_failed" in names
    assert "task_completed" not in names
    assert ("task_failed", "no data") in events
    assert names[-1] == "done"


async def test_a_question_of_planning_is_told_and_its_answer_goes_on(scripted: Script) -> None:
    ask = {"decision": "ask", "reason": "", "query": "", "answer": "Which stock?"}
    go = {"decision": "plan", "reason": "", "query": "look at Apple", "answer": ""}
    model = scripted(ask, go, answer(task()))
    service = PlanService(RemoteConnections(smith_of(model, settings=PlannerSettings())))
    names: list[str] = []
    async for each in AgentOrchestrator(service).process_user_input(asked("look at it")):
        names.append(each.event)
        if each.event == "plan_require_user_input":
            assert each.content == "Which stock?"
            assert service.provide_user_response("c1", "Apple")
    assert names[-3:] == ["task_completed", "message", "done"]


async def test_guidance_is_in_the_language_of_the_request(scripted: Script) -> None:
    plan = await planned(smith_of(scripted(answer(recurring())), watcher()), asked("每小时看苹果"))
    assert "请确认" in (plan.guidance_message or "")


@pytest.mark.parametrize("at", ["conversation_started", "task_started"])
async def test_a_run_goes_on_after_the_client_disconnects(scripted: Script, at: str) -> None:
    gate = asyncio.Event()
    smith = smith_of(scripted(answer(task())), Member("Research", gate))
    orchestrator = AgentOrchestrator(PlanService(RemoteConnections(smith)))
    stream = orchestrator.process_user_input(asked())
    async for each in stream:
        if each.event == at:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    gate.set()

    async def is_done() -> bool:
        return [run.status for run in await smith.runs.all()] == [RunStatus.DONE]

    await until(is_done)


async def test_tasks_show_where_their_steps_stand(scripted: Script) -> None:
    broken = Member("Broken", ToolFailed("no data"))
    model = scripted(answer(task(), task("Broken")))
    smith = smith_of(model, Member("Research"), broken, limits=Limits(max_replans=0))
    plan = await planned(smith, asked())
    assert {each.status for each in plan.tasks} == {vc.TaskStatus.PENDING}
    run = await smith.run(plan.plan_id)
    after = await ExecutionPlanner(RemoteConnections(smith)).plan_of(run)
    assert [each.status for each in after.tasks] == [vc.TaskStatus.COMPLETED, vc.TaskStatus.FAILED]
    assert after.tasks[1].error_message == "no data"
    assert after.tasks[0].started_at is not None


# The dialect


SLOPPY: list[Any] = [
    [task()],
    task(),
    {"tasks": [task()], "adequate": "yes", "reason": "it fits"},
    {"tasks": [{"agentName": "Research", "query": "look at Apple", "title": "Look at Apple"}]},
    {"tasks": [{"agent_name": "Research", "title": "only a title"}], "adequate": True},
    answer(task(pattern="recurring", schedule_config={"interval_minutes": "5"})),
    answer(task(pattern="recurring", schedule_config={"daily_time": "9:05"})),
]


@pytest.mark.parametrize("value", SLOPPY, ids=range(len(SLOPPY)))
def test_the_dialect_reads_sloppy_plans_and_notes_what_it_guessed(value: Any) -> None:
    found = dialect("valuecell").read(value)
    assert found.plan is not None
    [step] = found.plan.steps
    assert step.to_json()["agent"] == "Research"
    assert not [each for each in found.problems if each.severity == "error"]
    timing = found.plan.schedule
    known = (timing.every_minutes, timing.daily_at) if timing else None
    assert known == {5: (5, None), 6: (None, "09:05")}.get(SLOPPY.index(value))


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("words", "PS001", ""),
        ({"tasks": "words"}, "PS001", ""),
        (answer(task(pattern="recurring")), "PS004", "has no schedule"),
        (answer(task(), "words"), "PS014", "not a task"),  # type: ignore[arg-type]
        (answer({"title": "t", "query": "q"}), "PS014", "has no 'agent_name'"),
        (answer(task(pattern="sometimes")), "PS005", "'sometimes' is neither 'once'"),
        (answer(task(schedule_config={"interval_minutes": 5})), "PS005", "neither 'once'"),
    ],
)
def test_what_the_dialect_cannot_read_is_an_error(value: Any, code: str, message: str) -> None:
    found = dialect("valuecell").read(value)
    flaws = [each for each in found.problems if each.severity == "error"]
    assert [each.code for each in flaws] == [code]
    assert message in flaws[0].message
    assert found.plan is None or found.plan.schedule is None


@pytest.mark.parametrize(
    ("schedule", "lost"),
    [
        ({"every_minutes": 5}, False),
        ({"daily_at": "09:30", "timezone": "Europe/Oslo"}, False),
        ({"cron": "30 9 * * MON"}, True),
    ],
)
def test_schedules_come_back_or_are_told(schedule: dict[str, Any], lost: bool) -> None:
    steps = [{"id": "a", "agent": "Research", "task": "look"}]
    value = {"steps": steps, "schedule": schedule, "enough_context": True}
    plan = Plan.model_validate(value)
    written = dialect("valuecell").write(plan, None)
    assert bool(written.lost) is lost
    assert (dialect("valuecell").read(written.value).plan == plan) is not lost


def test_what_belongs_to_a_run_is_told_when_a_plan_is_read() -> None:
    whole: dict[str, Any] = {
        "plan_id": "p1",
        "conversation_id": "c1",
        "user_id": "ada",
        "orig_query": "look at Apple",
        "created_at": "2026-01-01T00:00:00",
        "tasks": [task(task_id="task-1", status="completed", thread_id="t1")],
    }
    assert recognise(whole) == "valuecell"
    found = dialect("valuecell").read(whole)
    assert found.plan is not None
    assert (found.plan.id, found.plan.goal) == ("p1", "look at Apple")
    assert [step.id for step in found.plan.steps] == ["task-1"]
    messages = " ".join(each.message for each in found.problems)
    assert all(name in messages for name in ("conversation_id", "user_id", "status", "thread_id"))


async def test_a_run_is_written_with_its_statuses(scripted: Script) -> None:
    smith = smith_of(scripted(answer(task())))
    run = await smith.run((await planned(smith, asked())).plan_id)
    assert run.plan is not None
    value: Any = dialect("valuecell").write(run.plan, run).value
    [written] = value["tasks"]
    assert (value["plan_id"], value["orig_query"]) == (run.id, "look at Apple")
    assert (written["status"], written["error_message"]) == ("completed", None)
    started = datetime.fromisoformat(written["started_at"])
    assert datetime.fromisoformat(written["completed_at"]) - started < timedelta(minutes=1)
