"""OpenManus' planning tool and planning flow: every command, text and rule, and the defects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.members import Script

from plansmith import Plan, Plansmith
from plansmith.errors import Misconfigured, ModelRefused, ToolFailed
from plansmith.testing import Answer
from plansmith_compat import openmanus
from plansmith_compat.openmanus import PlanningFlow, PlanningTool, PlanStepStatus
from plansmith_compat.openmanus.dialect import DIALECT
from plansmith_compat.openmanus.tool import PlanningResult
from plansmith_planner.dialect import dialect


async def done(tool: PlanningTool, command: str, **given: Any) -> str:
    result = await tool.execute(command=command, **given)
    assert result.error is None, result.error
    return result.output


async def refused(tool: PlanningTool, command: str, **given: Any) -> str:
    result = await tool.execute(command=command, **given)
    assert result.error is not None
    assert result.output == ""
    return result.error


async def tool_with(*steps: str, plan_id: str = "p", title: str = "T") -> PlanningTool:
    tool = PlanningTool()
    await done(tool, "create", plan_id=plan_id, title=title, steps=list(steps))
    return tool


# The planning tool


class Logged(PlanningTool):
    """Overrides OpenManus' private methods, plain and async, and calls the original ones."""

    def _create_plan(self, *given: Any, **more: Any) -> Any:
        self.description = f"created {given[0]}"
        return super()._create_plan(*given, **more)

    async def _mark_step(self, *given: Any, **more: Any) -> Any:
        done = await super()._mark_step(*given, **more)
        return done.model_copy(update={"output": f"marked: {done.output}"})

    async def _delete_plan(self, plan_id: str | None) -> Any:
        return PlanningResult(error=f"{plan_id} is kept")

    def _format_plan(self, plan: Any) -> str:
        return f"<{plan['title']}: {', '.join(plan['steps'])}>"


async def test_a_subclass_of_the_planning_tool_overrides_its_private_methods() -> None:
    tool = Logged()
    output = await done(tool, "create", plan_id="p", title="T", steps=["a", "b"])
    assert output == "Plan created successfully with ID: p\n\n<T: a, b>"
    assert tool.description == "created p"
    assert await done(tool, "get") == "<T: a, b>"
    assert (await done(tool, "mark_step", step_index=0, step_status="completed")).startswith(
        "marked: Step 0 updated in plan 'p'."
    )
    assert await refused(tool, "delete", plan_id="p") == "p is kept"
    assert "T" in await done(tool, "list")


async def test_plans_are_listed_activated_deleted_and_found_again_after_a_restart(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def again(command: str, **given: Any) -> str:
        tool = PlanningTool(store=url)
        result = await tool.execute(command=command, **given)
        await tool.close()
        return str(result)

    none = "No plans available. Create a plan with the 'create' command."
    assert await again("list") == none
    nobody = "Error: No active plan. Please specify a plan_id or set an active plan."
    assert await again("get") == await again("mark_step", step_index=0) == nobody
    for name in ("p", "q"):
        await again("create", plan_id=name, title=name.upper(), steps=["a", "b"])
    rows = "• p: P - 0/2 steps completed\n• q (active): Q - 0/2 steps completed\n"
    assert await again("list") == f"Available plans:\n{rows}"
    output = await again("set_active", plan_id="p")
    assert output.startswith("Plan 'p' is now the active plan.\n\nPlan: P (ID: p)\n")
    one, two = PlanningTool(store=url), PlanningTool(store=url)
    assert two._current_plan_id == "p"
    await done(one, "mark_step", step_index=0, step_status="completed", step_notes="n0")
    await done(two, "mark_step", plan_id="p", step_index=1, step_status="in_progress")
    assert two.plans["p"]["step_statuses"] == ["completed", "in_progress"]
    await one.close()
    await two.close()
    assert "0. [✓] a\n   Notes: n0\n1. [→] b\n" in await again("get")
    async with Plansmith(store=url) as smith:
        assert await smith.runs.resume_all() == []  # nothing starts what an agent keeps
        assert {run.status for run in await smith.runs.all()} == {"paused"}
    await again("delete", plan_id="q")
    assert "Plan: P (ID: p)" in await again("get")
    assert await again("delete", plan_id="p") == "Plan 'p' has been deleted."
    assert await again("get") == nobody
    assert await again("get", plan_id="p") == "Error: No plan found with ID: p"
    assert "0. [ ] z" in await again("create", plan_id="p", title="Anew", steps=["z"])


NEEDED = "Parameter `{}` is required for command: {}"
TEXTS = "Parameter `steps` must be a {}list of strings for command: {}"
INDEX = "Invalid step_index: {}. Valid indices range from 0 to 2."
STATUSES = "Valid statuses are: not_started, in_progress, completed, blocked"
STATUS = f"Invalid step_status: done. {STATUSES}"
STRING = "Parameter `{}` must be a string for command: {}"
COMMANDS = "create, update, list, get, set_active, mark_step, delete"


@pytest.mark.parametrize(
    ("command", "given", "text"),
    [
        ("create", {}, NEEDED.format("plan_id", "create")),
        ("create", {"plan_id": "q"}, NEEDED.format("title", "create")),
        *(
            ("create", {"plan_id": "q", "title": "T", "steps": steps}, TEXTS.format(more, "create"))
            for steps in (None, [], "a", [1], ["a", None])
            for more in ("non-empty ",)
        ),
        (
            "create",
            {"plan_id": "p", "title": "T", "steps": ["b"]},
            "A plan with ID 'p' already exists. Use 'update' to modify existing plans.",
        ),
        ("update", {}, NEEDED.format("plan_id", "update")),
        ("update", {"plan_id": "p", "steps": ["a", 1]}, TEXTS.format("", "update")),
        ("set_active", {}, NEEDED.format("plan_id", "set_active")),
        ("delete", {}, NEEDED.format("plan_id", "delete")),
        ("mark_step", {}, NEEDED.format("step_index", "mark_step")),
        *(("mark_step", {"step_index": n}, INDEX.format(n)) for n in (3, -1, 9)),
        ("mark_step", {"step_index": 0, "step_status": "done"}, STATUS),
        ("mark_step", {"step_index": 0, "step_notes": 7}, STRING.format("step_notes", "mark_step")),
        ("list", {"plan_id": ["p"]}, STRING.format("plan_id", "list")),
        *(
            (command, {"plan_id": "x"}, "No plan found with ID: x")
            for command in ("get", "update", "set_active", "delete", "mark_step")
        ),
        ("nope", {}, f"Unrecognized command: nope. Allowed commands are: {COMMANDS}"),
    ],
)
async def test_a_command_says_what_is_wrong(command: str, given: dict[str, Any], text: str) -> None:
    tool = await tool_with("a", "b", "c")
    assert await refused(tool, command, **given) == text
    assert list(tool.plans) == ["p"]
    assert "step_name" in await refused(tool, "list", step_name="x")


async def test_a_plan_is_rendered_with_its_progress_marks_and_notes() -> None:
    tool = await tool_with("a", "b", "c")
    await done(tool, "mark_step", step_index=0, step_status="completed", step_notes="n0")
    await done(tool, "mark_step", step_index=1, step_status="in_progress")
    output = await done(tool, "mark_step", step_index=2, step_status="blocked")
    assert output == (
        "Step 2 updated in plan 'p'.\n\n"
        "Plan: T (ID: p)\n"
        "================\n\n"
        "Progress: 1/3 steps completed (33.3%)\n"
        "Status: 1 completed, 1 in progress, 1 blocked, 0 not started\n\n"
        "Steps:\n"
        "0. [✓] a\n"
        "   Notes: n0\n"
        "1. [→] b\n"
        "2. [!] c\n"
    )
    output = await done(tool, "mark_step", step_index=2, step_status="not_started")
    assert "2. [ ] c" in output


async def test_update_keeps_status_and_notes_by_text() -> None:
    tool = await tool_with("a", "b", "a")
    await done(tool, "mark_step", step_index=1, step_status="completed", step_notes="n1")
    await done(tool, "mark_step", step_index=2, step_status="in_progress")
    output = await done(tool, "update", plan_id="p", title="U", steps=["new", "a", "b", "a"])
    assert output.startswith("Plan updated successfully: p\n\nPlan: U (ID: p)\n")
    steps = "0. [ ] new\n1. [ ] a\n2. [✓] b\n   Notes: n1\n3. [→] a\n"
    assert output.endswith(f"Steps:\n{steps}")
    again = await done(tool, "update", plan_id="p", steps=["b"])
    assert again.endswith("Steps:\n0. [✓] b\n   Notes: n1\n")


@given(st.lists(st.text(), min_size=1, max_size=5), st.text(max_size=3000))
@example(["", " ", "[X] b", "ask [CODER] b", "[primary] b", "[a] [a] b", "{{s1}}"], "long " * 999)
async def test_steps_and_notes_come_back_word_for_word(steps: list[str], notes: str) -> None:
    usable = [step.encode("utf-8", "replace").decode() for step in steps]
    tool, stored = await tool_with(*usable), notes.encode("utf-8", "replace").decode()
    plan_text = (await done(tool, "get")).split("Steps:\n", 1)[1]
    assert plan_text == "".join(f"{place}. [ ] {text}\n" for place, text in enumerate(usable))
    await done(tool, "mark_step", step_index=0, step_notes=stored)
    assert tool.plans["p"]["step_notes"][0] == stored


# The planning flow


class Worker:
    """An agent as OpenManus has them: says its answers in turn."""

    def __init__(self, name: str, *answers: str | Exception) -> None:
        self.name = name
        self.description = f"does what {name} does"
        self.state = openmanus.AgentState.IDLE
        self.answers = list(answers)
        self.prompts: list[str] = []

    async def run(self, request: str) -> str:
        self.prompts.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def made(*steps: str, title: str = "Do it", tool: str = "planning") -> Answer:
    call = {"command": "create", "plan_id": "theirs", "title": title, "steps": list(steps)}
    return Answer(call, tool=tool)


async def test_one_agent_a_list_or_a_table_of_agents(scripted: Script) -> None:
    agents: Sequence[Any] = (Worker("a", "x"), [Worker("a", "x")], {"k": Worker("a", "x")})
    for each in agents:
        flow = PlanningFlow(each, model=scripted(made("go"), "fine"))
        assert await flow.execute("do it") == "x\nPlan completed:\n\nfine"
    assert list(PlanningFlow(Worker("a")).agents) == ["default"]
    nobody: tuple[Any, ...] = ([], {})
    for none in nobody:
        flow = PlanningFlow(none, model=scripted())
        assert await flow.execute("do it") == "Execution failed: No primary agent available"
        await flow.close()


async def test_agents_of_a_list_answer_to_their_names_and_numbers(scripted: Script) -> None:
    first, second = Worker("finder"), Worker("coder", "coded")
    model = scripted(made("go"), "fine")
    flow = PlanningFlow([first, second], executors=["agent_1"], tools=[1], model=model)
    assert (await flow.execute("do it")).startswith("coded\n")
    assert flow.primary_agent is flow.get_executor("AGENT_0") is first
    assert (list(flow.agents), flow.executor_keys) == (["agent_0", "agent_1"], ["agent_1"])
    assert flow.get_agent("agent_1") is flow.get_agent("coder") is second
    assert (flow.get_agent("nobody"), flow.tools) == (None, [1])
    other = PlanningFlow([first, second], executors=["gone"], primary_agent_key="coder")
    assert other.primary_agent is other.get_executor() is second


def test_flows_are_made_by_their_type_and_statuses_have_their_names() -> None:
    flow = openmanus.FlowFactory.create_flow(
        openmanus.FlowType.PLANNING, agents=Worker("a"), plan_id="p"
    )
    assert isinstance(flow, PlanningFlow)
    assert flow.active_plan_id == "p"
    with pytest.raises(Misconfigured, match="no flow of the type"):
        openmanus.FlowFactory.create_flow("juggling", agents=Worker("a"))
    assert PlanStepStatus.get_all_statuses() == [
        *("not_started", "in_progress", "completed", "blocked")
    ]
    assert PlanStepStatus.get_active_statuses() == ["not_started", "in_progress"]
    assert PlanStepStatus.get_status_marks()["completed"] == "[✓]"


async def test_a_tag_in_any_case_picks_the_agent_and_other_steps_go_to_the_first_executor(
    scripted: Script,
) -> None:
    finder, coder = Worker("finder", "1"), Worker("coder", *"23456")
    texts = ["[FINDER] look", "[coder] write", "no tag", "[SEARCH] a kind of step"]
    texts += ["then [Finder] again", "ask [CODER] too"]
    model = scripted(made(*texts), "fine")
    flow = PlanningFlow({"finder": finder, "coder": coder}, executors=["coder"], model=model)
    assert (await flow.execute("do it")).startswith("1\n2\n3\n4\n")
    assert "[SEARCH] a kind of step" in coder.prompts[2]
    assert flow.get_executor("FINDER") is finder
    assert flow.get_executor(None) is flow.get_executor("nobody") is coder
    plan_text = await flow.plan_text()
    assert all(f"{place}. [✓] {text}\n" in plan_text for place, text in enumerate(texts))
    assert flow.planning_tool.plans[flow.active_plan_id]["steps"] == texts


REQUEST = "帮我找从奥斯陆去罗马的火车 and write down the best one for me, please"


@pytest.mark.parametrize("says", ["I would rather not.", {"command": "list"}, ModelRefused("down")])
async def test_without_a_usable_call_the_default_plan_runs_marked_degraded(
    scripted: Script, says: Any
) -> None:
    answers = [says] if isinstance(says, ModelRefused) else [says, says, says]
    worker = Worker("manus", "1", "2", "3")
    flow = PlanningFlow(worker, model=scripted(*answers, "fine"))
    output = await flow.execute(REQUEST)
    assert output.startswith("1\n2\n3\nThe default plan was run, since no plan could be made (")
    assert output.endswith("):\n\nfine")
    assert "Plan completed" not in output
    plan_text = await flow.plan_text()
    assert f"Plan: Plan for: {REQUEST[:50]}... (ID:" in plan_text
    for place, step in enumerate(("Analyze request", "Execute task", "Verify results")):
        assert f"{place}. [✓] {step}\n" in plan_text
    assert REQUEST in worker.prompts[0]
    failed = PlanningFlow(Worker("manus", ToolFailed("boom")), model=scripted(*answers), tries=1)
    was = "Error executing step 0: boom\nThe default plan was not completed, since no plan could "
    assert (await failed.execute(REQUEST)).startswith(was)
    run = await flow.run()
    assert run.plan is not None
    assert run.plan.degraded


async def test_without_a_model_there_is_the_default_plan_too() -> None:
    flow = PlanningFlow(Worker("manus", "1", "2", "3", "all in all"), model="rules")
    output = await flow.execute("hello")
    why = "there is no language model: give llm=… or model=…"
    head = f"The default plan was run, since no plan could be made ({why})"
    assert output == f"1\n2\n3\n{head}:\n\nall in all"


async def test_each_agent_is_told_the_whole_plan_and_its_own_step(scripted: Script) -> None:
    worker = Worker("manus", "seen", "written")
    await PlanningFlow(worker, model=scripted(made("look", "write"), "fine")).execute("do it")
    assert "0. [→] look\n1. [ ] write\n" in worker.prompts[0]
    last = worker.prompts[1]
    assert "0. [✓] look\n   Notes: seen\n1. [→] write\n" in last
    assert "marked [→] above: write" in last


async def test_the_summary_is_by_the_model_else_by_an_agent_else_plain(scripted: Script) -> None:
    down = ModelRefused("down")
    flow = PlanningFlow(Worker("a", "x", "summed up"), model=scripted(made("go"), down))
    assert await flow.execute("do it") == "x\nPlan completed:\n\nsummed up"
    flow = PlanningFlow(Worker("a", "x", ValueError("tired")), model=scripted(made("go"), down))
    assert await flow.execute("do it") == "x\nPlan completed. Error generating summary."


async def test_ids_are_unique_and_a_callers_own_is_kept(scripted: Script) -> None:
    ids = [PlanningFlow(Worker("a")).active_plan_id for _ in range(100)]
    assert len(set(ids)) == 100
    assert ids[0] < ids[-1]
    flow = PlanningFlow(Worker("a", "x"), plan_id="Mine", model=scripted(made("go"), "ok"))
    await flow.execute("do it")
    assert "(ID: Mine)" in await flow.plan_text()


async def test_a_flow_past_its_limit_of_tokens_says_so(scripted: Script) -> None:
    worker = Worker("a")
    flow = PlanningFlow(worker, model=scripted(), max_input_tokens=10)
    output = await flow.execute("do it")
    assert output.startswith("Execution failed: Request may exceed input token limit (Current: 0, ")
    assert "Max: 10" in output
    assert "used up" in output
    assert worker.prompts == []
    assert flow.planning_tool.plans == {}
    assert flow.llm.total_input_tokens == 0


async def test_defect_a_step_whose_agent_raises_is_not_retried_for_ever(scripted: Script) -> None:
    down = ModelRefused("down")
    for new, tries in (([down], 3), ([made("look elsewhere")], 6)):
        worker = Worker("a", *[ToolFailed("boom")] * tries, "what is missing")
        model = scripted(made("look", "write"), *new, down)
        output = await PlanningFlow(worker, model=model).execute("do it")
        assert output == "Error executing step 0: boom\nPlan not completed:\n\nwhat is missing"
        assert len(worker.prompts) == tries + 1


async def test_a_step_that_may_not_be_repeated_is_asked_about_when_its_agent_breaks_half_way(
    scripted: Script,
) -> None:
    worker = Worker("a", ValueError("boom"))
    flow = PlanningFlow(worker, model=scripted(made("look", "write")), repeatable=False)
    output = await flow.execute("do it")
    assert "Error executing step 0: ValueError: boom\nPlan waits for an answer" in output
    assert len(worker.prompts) == 1


async def test_defect_steps_that_are_blocked_or_cut_off_are_no_completed_plan(
    scripted: Script,
) -> None:
    cut = "Step 1: looked\nTerminated: Reached max steps (20)"
    for answer in (ToolFailed("boom"), cut):
        model = scripted(made("look", "write", "send"), Answer("one of three", expects="NOT been"))
        flow = PlanningFlow(Worker("a", "seen", answer), model=model, tries=1, replans=0)
        assert (await flow.execute("do it")).endswith("Plan not completed:\n\none of three")
        assert "Status: 1 completed, 0 in progress, 2 blocked" in await flow.plan_text()


async def test_defect_a_flow_is_kept_on_disk_and_gone_on_with(
    scripted: Script, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    flow = PlanningFlow(Worker("a", "x"), plan_id="p", store=url, model=scripted(made("go"), "ok"))
    await flow.execute("do it")
    assert (await flow.execute("do it again")).startswith("Execution failed: ")
    await flow.close()
    later = PlanningFlow(Worker("a"), plan_id="p", store=url, model=scripted("as it stands"))
    assert await later.execute("") == "x\nPlan completed:\n\nas it stands"
    result = await later.planning_tool.execute(command="delete", plan_id="p")
    assert result.error == "Plan 'p' is run by a flow: only its run changes it."
    await later.close()


# The shape


@pytest.mark.parametrize(
    "value",
    [
        {"title": "T", "steps": ["[A] a", "b"]},
        {"command": "create", "plan_id": "p", "title": "T", "steps": ["[A] a", "b"]},
        {"name": "planning", "arguments": '{"title": "T", "steps": ["[A] a", "b"]}'},
        {"function": {"name": "planning", "arguments": {"title": "T", "steps": ["[A] a", "b"]}}},
        {"tool_calls": [{"function": {"arguments": '{"title": "T", "steps": ["[A] a", "b"]}'}}]},
    ],
)
def test_the_shape_is_recognised_also_inside_a_call(value: Any) -> None:
    assert DIALECT.recognises(value)
    reading = DIALECT.read(value)
    assert reading.plan is not None
    assert reading.plan.goal == "T"
    assert [step.to_json().get("agent") for step in reading.plan.steps] == ["A", "primary"]
    assert reading.plan.by_id["s2"].needed == {"s1"}


@pytest.mark.parametrize(
    "steps",
    ["1. [A] a\n2. b", [{"step": "[A] a"}, {"title": "b"}], [{"agent": "A", "text": "a"}, "b"]],
)
def test_sloppy_steps_are_read_with_a_note(steps: Any) -> None:
    reading = DIALECT.read({"title": "T", "steps": steps, "mood": "good"})
    assert reading.plan is not None
    assert [step.to_json()["task"] for step in reading.plan.steps] == ["a", "b"]
    assert {each.code for each in reading.problems} == {"PS013"}


def test_what_says_nothing_is_told_and_what_is_no_plan_is_none() -> None:
    reading = DIALECT.read({"title": "T", "steps": ["a", " "], "step_statuses": ["completed", ""]})
    assert {each.code for each in reading.problems} == {"PS013", "PS014"}
    nothing: list[Any] = [None, 1, "x", {"command": "list"}, {"steps": 3}]
    for value in nothing:
        assert DIALECT.read(value).plan is None
        assert not DIALECT.recognises(value)


def test_calls_are_words_in_which_data_stays_data() -> None:
    inputs = {
        "city": {"$literal": "Oslo"},
        "body": {"$literal": "{{s1}}"},
        "all": {"$literal": [1]},
    }
    value = {
        "steps": [{"id": "a", "tool": "weather"}, {"id": "b", "tool": "mail", "inputs": inputs}]
    }
    written: Any = DIALECT.write(Plan.model_validate(value), None).value
    text = 'Call mail with {"city": "Oslo", "body": {"$literal": "{{s1}}"}, "all": [1]}'
    assert written["steps"][1] == text
    stored: Any = dialect("jmanus").write(Plan.model_validate(value), None).value
    assert stored["steps"][1]["stepRequirement"] == f"[DEFAULT_AGENT] {text}"
