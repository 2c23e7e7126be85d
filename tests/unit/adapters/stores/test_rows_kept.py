"""Rows as releases wrote them: whatever comes later has to read them."""

from __future__ import annotations

from datetime import UTC, datetime

from plansmith.adapters.stores import rows
from plansmith.adapters.stores.deflated_rows import plain_rows
from plansmith.adapters.stores.packing import packed_text
from plansmith.plan.data import content_of
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    PlanApproved,
    PlanProposed,
    RunCreated,
    RunFinished,
    RunStarted,
    StepDone,
    StepStarted,
    next_event,
)
from plansmith.plan.plan import Plan

RUN = "01a1de1f-eab2-77c6-8029-e6add897b254"
# Never change these: a file of an older Plansmith has rows like them. A new form of rows needs a
# migration, and another list beside these.
DEFLATED = (
    "ff9abad80006475ef6574f3501c399a6125312c16622459daeb31f4aece5e4e767a32674781c0200",
    (
        "dcca2be60006475ef6574f3503c399a6125312c16612936cdcf3735252f3145eb64f444a4040cf81cc4d5442"
        "8459b55205d045c06c06b5b3243f1f945ac194153091e4672bd5c6d6e24a4600"
    ),
    (
        "b854ec8f0006475ef6574f3505c399a6125312c166c283063576130b80115206720800131740a5c3bbacea18"
        "3d62bd5e5f9f9310f5fecefe7ab17ba495ea229f216175"
    ),
    (
        "a3767be40006475ef6574f350bc3660c3c3474b0860700131740a5c3bbacea183d62bd5e5f9f9310f5fecefe"
        "7ab17ba495ea229f216175"
    ),
    (
        "99fe015b0006475ef6574f350c23d251c000d14f447657222e7701000123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef"
    ),
    (
        "d7cb94000006475ef6574f350e23d21823b83189588d0100ffffffffffffffffffffffffffffffffffffffff"
        "ffffffffffffffffffffffff"
    ),
    "b7d010e70006475ef6574f351ac3660c3c41e34bc900",
)


ADA, SYSTEM = '{"kind":"person","name":"ada"}', '{"kind":"system"}'
PLAN = "131740a5c3bbacea183d62bd5e5f9f9310f5fecefe7ab17ba495ea229f216175"
STEP = '{"id":"a","inputs":{"x":1},"kind":"tool","tool":"look"}'
STEPS = f'{{"goal":"Golden 金","steps":[{STEP}]}}'
INPUTS, RESULT = "0123456789abcdef" * 4, "f" * 64
PLAIN = (
    (
        *("run_created", ADA, "ff9abad8"),
        '{"locale":"zh-CN","request":"look","type":"run_created"}',
    ),
    (
        *("plan_proposed", ADA, "dcca2be6"),
        f'{{"origin":"submitted","plan":{STEPS},"type":"plan_proposed"}}',
    ),
    (*("plan_approved", ADA, "b854ec8f"), f'{{"hash":"{PLAN}","type":"plan_approved"}}'),
    (*("run_started", SYSTEM, "a3767be4"), f'{{"hash":"{PLAN}","type":"run_started"}}'),
    (
        *("step_started", SYSTEM, "99fe015b"),
        f'{{"inputs":"{INPUTS}","key":"run/a/0123456789abcdef","step":"a","type":"step_started"}}',
    ),
    (
        *("step_done", SYSTEM, "d7cb9400"),
        f'{{"result":"{RESULT}","size":2,"step":"a","type":"step_done"}}',
    ),
    (*("run_finished", SYSTEM, "b7d010e7"), '{"status":"done","type":"run_finished"}'),
)


PACKED = (
    (1, ADA, "ff9abad8", '{"locale":"zh-CN","request":"look"}'),
    (3, ADA, "dcca2be6", f'{{"origin":"submitted","plan":{STEPS}}}'),
    (5, ADA, "b854ec8f", f'{{"hash":"{PLAN}"}}'),
    (11, None, "a3767be4", f'{{"hash":"{PLAN}"}}'),
    (
        *(12, None, "99fe015b"),
        f'{{"inputs":"{INPUTS}","key":"run/a/0123456789abcdef","step":"a"}}',
    ),
    (14, None, "d7cb9400", f'{{"result":"{RESULT}","size":2,"step":"a"}}'),
    (26, None, "b7d010e7", '{"status":"done"}'),
)


AT = 1767323045678901


def story() -> list[Event]:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    ada, system = Actor(kind="person", name="ada"), Actor(kind="system")
    step = {"id": "a", "tool": "look", "inputs": {"x": 1}}
    plan = Plan.model_validate({"goal": "Golden 金", "steps": [step]})
    key = "run/a/0123456789abcdef"
    told: list[tuple[AnyBody, Actor]] = [
        (RunCreated(request="look", locale="zh-CN"), ada),
        (PlanProposed(plan=plan, origin="submitted"), ada),
        (PlanApproved(hash=plan.hash), ada),
        (RunStarted(hash=plan.hash), system),
        (StepStarted(step="a", key=key, inputs="0123456789abcdef" * 4), system),
        (StepDone(step="a", result="f" * 64, size=2), system),
        (RunFinished(status="done"), system),
    ]
    events: list[Event] = []
    for body, by in told:
        last = events[-1] if events else None
        events.append(next_event(body, run=RUN, by=by, at=at, last=last))
    return events


def test_rows_of_the_first_release_are_read_as_they_were() -> None:
    kept = [(number, bytes.fromhex(row)) for number, row in enumerate(DEFLATED, start=1)]
    plain = plain_rows(RUN, kept)
    assert [(row.type, row.by, row.hash[:8], row.body) for row in plain] == list(PLAIN)
    assert {row.at for row in plain} == {"2026-01-02T03:04:05.678901Z"}
    packed = [packed_text(number, cells)[:7] for number, *cells in plain]
    assert rows.read_journal(RUN, packed, after=0) == story()


def test_rows_with_whole_hashes_and_times_are_read_as_they_were() -> None:
    """Those of schema version 11."""
    packed = [
        (number, kind, AT, by, bytes.fromhex(event.hash), body, None)
        for number, (event, (kind, by, _, body)) in enumerate(
            zip(story(), PACKED, strict=True), start=1
        )
    ]
    assert rows.read_journal(RUN, packed, after=0) == story()
    assert rows.read_journal(RUN, packed[3:], after=4) == story()[4:]


def test_rows_of_this_release_are_written_and_read_as_they_were() -> None:
    written = [cells[:7] for cells in rows.rows_of(story())[0]]
    told = [(kind, by, digest.hex()[:8], body) for _, kind, _, by, digest, body, _ in written]
    assert told == list(PACKED)
    assert [cells[2] for cells in written] == [AT, 1, 1, 1, 1, 1, 1]
    assert [len(cells[4]) for cells in written] == [4, 4, 4, 4, 4, 4, 32]
    assert {cells[6] for cells in written} == {None}
    assert rows.read_journal(RUN, written, after=0) == story()
    assert rows.read_journal(RUN, written, after=4) == story()[4:]


def test_values_inside_rows_of_this_release_are_written_and_read_as_they_were() -> None:
    at, system = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), Actor(kind="system")
    inputs, result = content_of({"x": 1}), content_of("金")
    key = f"{RUN}/a/{inputs.digest[:16]}"
    started = StepStarted(step="a", key=key, inputs=inputs.digest, callee="look", attempt=2)
    first = next_event(started, run=RUN, by=system, at=at)
    done = StepDone(step="a", result=result.digest, size=len(result.text), tokens=7)
    events = [first, next_event(done, run=RUN, by=system, at=at, last=first)]
    written, inside = rows.rows_of(events, [inputs, result])
    assert inside == {inputs.digest, result.digest}
    assert [cells[5:] for cells in written] == [
        ('{"attempt":2,"callee":"look","step":"a"}', '{"x":1}', 1346486047),
        ('{"step":"a","tokens":7}', '"金"', -1485807398),
    ]
    assert rows.read_journal(RUN, [cells[:7] for cells in written], after=0) == events
