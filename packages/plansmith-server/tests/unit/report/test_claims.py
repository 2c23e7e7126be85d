"""Claims: what counts as one passage of an answer, and which steps it rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plansmith.plan.run import Run, RunStatus, Steps, StepState, StepStatus
from plansmith.report.build import make_report
from plansmith.report.data import Answer
from plansmith.report.history import check_claims
from plansmith.report.markdown import to_markdown
from plansmith_server.report_page import to_html
from plansmith_server.views import clip

RUN = Run(id="r", steps=Steps({"a": StepState(status=StepStatus.DONE)}))


@pytest.mark.parametrize(
    ("text", "passages", "uncited"),
    [
        ("One [step:a]\nTwo", 2, 1),
        ("| region | total [step:a] |\n|---|---|\n| North | 1 |\n| South | 2 |", 1, 0),
        ("| region [step:a] |\n|---|\n| North |\n\n| other |\n|---|", 2, 1),
        ("- todo.md [step:a]\n  - 2: call Bob\n  - 3: call Ann\n- other", 2, 1),
        ("Text [step:a]\n  more text", 2, 1),
    ],
)
def test_a_table_is_one_passage_and_what_is_below_a_bullet_is_of_it(
    text: str, passages: int, uncited: int
) -> None:
    found = check_claims(text, RUN, {"a"})
    assert (len(found.claims), found.uncited) == (passages, uncited)
    assert found.text == text


def test_the_source_of_a_table_is_never_part_of_the_head_of_a_column() -> None:
    text = "| region | total [step:a] |\n|---|---|\n| North | 1 |\n\nSee. [step:a]"
    report = replace(make_report(RUN.replace(phase=RunStatus.DONE), {}), answer=Answer(text))
    assert "| region | total |" in to_markdown(report)
    assert "<th>total</th>" in to_html(report)
    assert "See. [`a`]" in to_markdown(report)
    assert "[step:" not in str(report.to_json())
    assert clip("total [step:a]", 100) == "total"
