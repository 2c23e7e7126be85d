from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import Misconfigured
from plansmith.ports import ContextBlock
from plansmith_planner.context.documents import DocumentSource, chunks
from plansmith_planner.context.files import FileLimits, Found, page_text, read_document
from plansmith_planner.models.tokens import count_tokens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    filler = "\n\n".join(f"Paragraph {at} speaks of gardens and rain." for at in range(120))
    (root / "guide.md").write_text(f"# Garden\n{filler}\n\n# Bolts\nA bolt costs 12 kr.\n")
    (root / "sub" / "退款.txt").write_text(
        f"退款政策：七天之内可以退款。\n{filler}", encoding="utf-8"
    )
    (root / "prices.csv").write_text(
        "item,price\n" + "\n".join(f"thing{at},{at}" for at in range(400)) + "\nsprocket,77"
    )
    return root


async def gather(source: DocumentSource, query: str, tokens: int = 600) -> Sequence[ContextBlock]:
    return await source.gather(query, token_limit=tokens)


async def test_the_pieces_that_fit_come_first_with_file_and_lines(folder: Path) -> None:
    source = DocumentSource([folder])
    blocks = await gather(source, "What does a bolt cost?")
    assert blocks[0] == ContextBlock(
        "document: Bolts", "# Bolts\nA bolt costs 12 kr.", "docs/guide.md:242-243"
    )
    [refund, *_] = await gather(source, "怎么退款")
    assert refund.source.startswith("docs/sub/退款.txt:1-")
    [row, *_] = await gather(source, "sprocket")
    assert row.title == "document: item,price"
    assert "sprocket,77" in row.text
    assert await gather(source, "火星") == []


@pytest.mark.parametrize("tokens", [0, 5, 20, 100, 1000])
async def test_the_limit_is_kept(folder: Path, tokens: int) -> None:
    blocks = await gather(DocumentSource([folder]), "paragraph gardens rain", tokens)
    assert sum(count_tokens(block.text) for block in blocks) <= tokens
    assert bool(blocks) == (tokens >= 100)


async def test_a_piece_that_is_too_long_is_clipped(folder: Path) -> None:
    [block] = await gather(DocumentSource([folder / "sub"]), "退款", 80)
    assert "characters left out]" in block.text


async def test_few_documents_come_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.py").write_text("def f(): ...\n")
    blocks = await gather(DocumentSource([tmp_path / "b.py", tmp_path / "a.txt"]), "unrelated")
    assert [(block.source, block.text) for block in blocks] == [
        ("b.py:1-1", "def f(): ..."),
        ("a.txt:1-2", "one\ntwo"),
    ]


async def test_what_is_left_out_is_told_once(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    (root / "photo.png").write_bytes(b"\x89PNG")
    (root / "binary.txt").write_bytes(b"abc\0def")
    (root / "large.txt").write_text("x" * 200)
    (root / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (root / ".env").write_text("SECRET=1")
    (root / ".git").mkdir()
    (root / ".git" / "config.txt").write_text("hidden")
    (root / "wide.txt").write_text("breit", encoding="utf-16")
    notes: list[str] = []
    source = DocumentSource(
        [root, tmp_path / "none"], limits=FileLimits(bytes_each=100), tell=notes.append
    )
    blocks = await gather(source, "x")
    assert [(block.source, block.text) for block in blocks] == [
        ("docs/latin.txt:1-1", "Gr\ufffd\ufffde"),
        ("docs/wide.txt:1-1", "breit"),
    ]
    output = "\n".join(notes)
    for reason in ("no such file", "not a kind of text: docs/photo.png", "binary: docs/binary"):
        assert reason in output
    assert "larger than 100 bytes: docs/large" in output
    assert "not valid UTF-8" in output
    assert "SECRET" not in output
    await gather(source, "x")
    assert len(notes) == 5


async def test_links_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    root, outside = tmp_path / "docs", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret")
    (root / "real.txt").write_text("the real one")
    (root / "out.txt").symlink_to(outside / "secret.txt")
    (root / "in.txt").symlink_to(root / "real.txt")
    (root / "folder").symlink_to(outside)
    (root / "ring").symlink_to(root)
    (root / "dead.txt").symlink_to(root / "nothing")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "key.txt").write_text("the key")
    (root / "key.txt").symlink_to(root / ".hidden" / "key.txt")
    notes: list[str] = []
    blocks = await gather(DocumentSource([root], tell=notes.append), "secret")
    assert [block.text for block in blocks] == ["the real one"]
    assert [note.rpartition(": ")[2] for note in notes] == [
        "docs/folder",
        "docs/ring",
        "docs/dead.txt",
        "docs/key.txt",
        "docs/out.txt",
    ]


async def test_too_many_files_are_told(tmp_path: Path) -> None:
    for at in range(5):
        (tmp_path / f"{at}.txt").write_text(f"text {at}")
    for limits in (FileLimits(files=3), FileLimits(bytes_all=20)):
        notes: list[str] = []
        source = DocumentSource([tmp_path], limits=limits, tell=notes.append)
        assert len(await gather(source, "x")) == 3
        assert "3.txt and what follows" in notes[0]


async def test_no_document_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="give existing paths"):
        await gather(DocumentSource([tmp_path / "none"]), "x")


async def test_a_file_is_read_again_only_when_it_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def watch(found: Found, limits: FileLimits) -> tuple[str, str]:
        read.append(found.name)
        return read_document(found, limits)

    monkeypatch.setattr("plansmith_planner.context.documents.read_document", watch)
    source = DocumentSource([folder])
    await gather(source, "bolt")
    await gather(source, "rain")
    assert len(read) == 3
    (folder / "guide.md").write_text("# Bolts\nA bolt costs 13 kr.\n" + "more\n\n" * 900)
    (folder / "prices.csv").unlink()
    blocks = await gather(source, "bolt cost")
    assert read[3:] == ["docs/guide.md"]
    assert "13 kr" in blocks[0].text


def test_a_file_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    text, note = read_document(Found(tmp_path, "docs/a.txt", (0, 0)), FileLimits())
    assert text == ""
    assert "cannot be read: docs/a.txt" in note


async def test_a_folder_that_cannot_be_read_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("sub"):
            raise PermissionError(13, "no", path)
        return really(path)

    monkeypatch.setattr(os, "scandir", scandir)
    notes: list[str] = []
    await gather(DocumentSource([folder], tell=notes.append), "x")
    assert notes == ["folder left out, it cannot be read: docs/sub"]


def test_a_page_is_read_as_it_is_seen_line_for_line() -> None:
    page = (
        "<html><head><style>x {}</style>\n<script>\nevil()\n</script></head>\n"
        "<h2>Prices &amp;\nmore</h2>\n<!-- hidden\norder --><p>A <b>bo</b>lt</p><p>12 kr</p>\n"
        "<template>unseen</template><svg><text>drawn</text></svg>end"
    )
    lines = [line.strip() for line in page_text(page).split("\n")]
    assert lines == ["", "", "", "", "## Prices &", "more", "", "A bolt  12 kr", "end"]


@pytest.mark.parametrize(
    "page",
    [
        *("<![x[y]]>a", "<p>b</p><![x[y]]>", "<![if x]>a", "<!x", "<![", "<a href='", "</"),
        "<!DOCTYPE [<!E",
    ],
)
def test_a_broken_page_is_read_as_far_as_it_goes(page: str) -> None:
    assert isinstance(page_text(page), str)


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
    found = chunks("\n".join(lines), size=size, overlap=overlap)
    covered = {number for chunk in found for number in range(chunk.first, chunk.last + 1)}
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= covered
    for chunk in found:
        assert "".join(chunk.text.split("\n")) in "".join(lines[chunk.first - 1 : chunk.last])
        assert len(chunk.text) <= max(size, 90)
