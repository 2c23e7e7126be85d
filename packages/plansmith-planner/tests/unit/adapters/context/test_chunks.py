from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plansmith_planner.context.documents import chunks


def test_a_text_is_cut_at_headings_which_are_remembered() -> None:
    text = "intro\n\n# Prices\nbolts\n## Oslo\n12 kr\n# Other\n```\n# no heading\n```\nend"
    found = [(chunk.heading, chunk.first, chunk.last) for chunk in chunks(text)]
    assert found == [("", 1, 1), ("Prices", 3, 4), ("Prices > Oslo", 5, 6), ("Other", 7, 11)]


def test_a_comment_in_source_code_is_no_heading() -> None:
    [chunk] = chunks("x = 1\n# Prices\ny = 2", headings=False)
    assert (chunk.heading, chunk.first, chunk.last) == ("", 1, 3)


@given(
    st.lists(
        st.sampled_from(["", "# h", "## i", "a b c", "x" * 90, "```", "词" * 30]), max_size=40
    ),
    st.integers(20, 200),
    st.integers(0, 60),
)
def test_no_line_is_lost_and_every_range_is_right(
    lines: list[str], size: int, overlap: int
) -> None:
    text = "\n".join(lines)
    found = chunks(text, size=size, overlap=overlap)
    covered = {number for chunk in found for number in range(chunk.first, chunk.last + 1)}
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= covered
    for chunk in found:
        assert "".join(chunk.text.split("\n")) in "".join(lines[chunk.first - 1 : chunk.last])
        assert len(chunk.text) <= max(size, 90)
