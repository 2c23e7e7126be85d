from __future__ import annotations

import io
import os
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pypdf
import pytest

from plansmith.errors import ToolFailed
from plansmith.ports import Call
from plansmith.testing.contracts import ToolSourceContract
from plansmith_desk.documents import DocumentLimits, DocumentTools
from plansmith_desk.documents.text import paper_head
from plansmith_desk.files.tools import FileTools

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


async def use(root: Path, tool: str, limits: DocumentLimits | None = None, **words: Any) -> Any:
    source = FileTools(root) if tool == "files.read" else DocumentTools(root, limits=limits)
    return await source.call(tool, words, Call(key="k"))


def maze(*, deep: int = 12) -> bytes:
    """Write a PDF whose page draws a form ten times, which draws a form ten times, and so on."""
    fonts = "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"

    def form(kind: str, contents: str, inner: str = "") -> str:
        about = f"{kind} /Resources << {fonts} {inner} >> /Length {len(contents)}"
        return f"<< {about} >>\nstream\n{contents}\nendstream"

    kind, text = "/Type /XObject /Subtype /Form /BBox [0 0 9 9]", "BT /F 12 Tf (x) Tj ET"
    page = f"/Parent 2 0 R /Contents 4 0 R /Resources << {fonts} /XObject << /X 5 0 R >> >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /MediaBox [0 0 200 200] {page} >>",
        form("", "/X Do " * 10),
    ]
    objects += [
        form(kind, "/X Do " * 10, f"/XObject << /X {number} 0 R >>")
        for number in range(6, 6 + deep)
    ]
    return pdf_of([*objects, form(kind, text)])


def pdf(*pages: str, packed: bool = False) -> bytes:
    """Write the smallest PDF that has these lines on its pages."""
    count = len(pages)
    kids = " ".join(f"{4 + at * 2} 0 R" for at in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        lines = "".join(f"({line}) Tj T* " for line in text.split("\n") if line)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {lines}ET"
        filters = ""
        if packed:
            stream, filters = (
                zlib.compress(stream.encode()).decode("latin-1"),
                "/Filter /FlateDecode ",
            )
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {fonts} /Contents {5 + at * 2} 0 R >>",
            f"<< {filters}/Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    return pdf_of(objects)


def pdf_of(objects: Sequence[str]) -> bytes:
    out = "%PDF-1.4\n"
    places: list[int] = []
    for number, each in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return f"{out}{end}startxref\n{len(out)}\n%%EOF\n".encode("latin-1")


def locked_pdf(password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("The secret is 7")))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def docx(
    body: str, *, head: str = "", part: str = "word/document.xml", encoding: str = "utf-8"
) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        xml = f'<?xml version="1.0"?>{head}<w:document xmlns:w="{WORD}"><w:body>{body}'
        archive.writestr(part, f"{xml}</w:body></w:document>".encode(encoding))
    return made.getvalue()


def paragraph(text: str, style: str = "") -> str:
    looks = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{looks}<w:r><w:t>{text}</w:t></w:r></w:p>"


def texts(found: Any) -> str:
    return "\n".join(each["text"] for each in found["passages"])


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_txt", ".txt").replace("_md", ".md")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")


class TestDocumentContract(ToolSourceContract):
    good_call = ("files.count", {"path": "test_documents.py"})

    def make_source(self) -> DocumentTools:
        return DocumentTools(Path(__file__).parent)


async def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(locked_pdf(""))  # which may be read, and not printed
    assert "The secret is 7" in (await use(tmp_path, "files.read", path="a.pdf"))["text"]
    (tmp_path / "Report.PDF").write_bytes(pdf("Annual report\nSales rose", "", "Page three"))
    read = await use(tmp_path, "files.read", path="Report.PDF")
    assert read["text"] == "Annual report\nSales rose\n\nPage three\n"
    assert read["notes"] == ["1 of 3 pages of Report.PDF have no text"]


async def test_a_docx_is_read_with_its_headings_and_tables(tmp_path: Path) -> None:
    cells = "".join(f"<w:tc>{paragraph(each)}</w:tc>" for each in ("Rent", "900"))
    body = paragraph("Offer", "Heading1") + paragraph("Tea &amp; cake")
    (tmp_path / "a.docx").write_bytes(docx(f"{body}<w:tbl><w:tr>{cells}</w:tr></w:tbl>"))
    read = await use(tmp_path, "files.read", path="a.docx")
    assert read == {"path": "a.docx", "text": "# Offer\nTea & cake\nRent | 900\n"}


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-8-sig"])
async def test_chinese_text_of_older_programs_is_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes("会议纪要：与会人员王芳、李明。".encode(encoding))
    assert (await use(tmp_path, "files.read", path="a.txt"))["text"].startswith("会议纪要")
    (tmp_path / "b.txt").write_bytes("Ein Café für Zoë, naïve Größe".encode("latin-1"))
    with pytest.raises(ToolFailed, match="not a text file in UTF-8"):
        await use(tmp_path, "files.read", path="b.txt")


def bomb() -> bytes:
    return docx(paragraph("A" * 1000) + "<w:p>" + " " * 45_000_000 + "</w:p>")


def trap() -> bytes:
    return pdf("a" * 6_000_000, packed=True)


ENTITY = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("locked.pdf", locked_pdf("open sesame"), "protected by a password"),
        ("broken.pdf", b"%PDF-1.4\nnothing here", "not a PDF that can be read"),
        ("scan.pdf", pdf("", ""), "has no text"),
        ("trap.pdf", trap, "not a PDF that can be read"),
        ("bomb.docx", bomb, "unpacks to more than 40,000,000 bytes"),
        ("entity.docx", docx(paragraph("&a;"), head=ENTITY), "declares a document type"),
        (
            "hidden.docx",
            docx(paragraph("&a;"), head=ENTITY, encoding="utf-16"),
            "declares a document type",
        ),
        ("other.docx", docx("", part="else.xml"), "not a DOCX file that can be read"),
        ("locked.docx", b"\xd0\xcf\x11\xe0" + bytes(900), "not a DOCX file that can be read"),
        ("broken.docx", docx("<w:p>"), "not a DOCX file that can be read"),
        ("empty.docx", docx(""), "has no text"),
    ],
)
async def test_a_hostile_document_fails_with_a_reason_and_hides_no_other(
    tmp_path: Path, name: str, data: bytes | Callable[[], bytes], why: str
) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data())
    (tmp_path / "good.txt").write_text("The code is 4711.", encoding="utf-8")
    with pytest.raises(ToolFailed, match=why) as failed:
        await use(tmp_path, "files.read", path=name)
    assert failed.value.message
    found = await use(tmp_path, "files.lookup", question="What is the code?")
    assert texts(found) == "The code is 4711."
    assert why in found["notes"][0]


def test_a_pdf_made_to_take_very_long_is_given_up() -> None:
    # Takes a second: the process that reads it has to be killed for real.
    with pytest.raises(ToolFailed, match=r"maze\.pdf takes too much time"):
        paper_head("maze.pdf", maze(), seconds=0.1)
    pages, text = paper_head("small.pdf", maze(deep=1), seconds=20)
    assert (pages, text.split()) == (1, ["x"] * 100)


async def test_a_line_without_an_end_is_counted_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("ERROR " + "x" * 30_000_000 + "\nok\nerror", encoding="utf-8")
    tracemalloc.start()
    found = await use(tmp_path, "files.count", path="a.log", text="error")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["count"] == 2
    assert most < 20_000_000


async def test_a_missing_pdf_library_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("text"))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ToolFailed) as failed:
        await use(tmp_path, "files.read", path="a.pdf")
    assert failed.value.hint == 'pip install packages/* "plansmith[documents]"'


LEASE = "\n\n".join(
    [
        "LEASE between Alder Ltd (the Landlord) and Birch Studio (the Tenant).",
        *(f"{at}. The Tenant keeps the windows clean and the door shut. " * 2 for at in range(9)),
        "10. Term. The lease begins on 1 May 2024 and expires on 30 April 2027.",
        *(
            f"{at}. The Tenant shall not paint the walls without consent. " * 2
            for at in range(11, 19)
        ),
        "20. A security deposit of 5,550 EUR is held by the Landlord.",
    ]
)
MARCH = "# Team meeting\n\nPresent: Anna Berg, Tom Okafor\n\n- The launch moves to 14 April.\n"
APRIL = "# Team meeting\n\nPresent: Sara Lind\n\n- The hall is booked.\n"
SERVICE = "服务合同\n\n服务期限至2026年12月31日止。\n服务费用每月12,000元。\n违约金为总额的10%。\n"
DIARY = "# Diary\n\n" + "Walked along the river, saw herons, wrote letters. " * 30


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    put(tmp_path, contracts__lease_txt=LEASE, contracts__服务合同_txt=SERVICE)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/2026-03-02-meeting.md").write_text(MARCH, encoding="utf-8")
    (tmp_path / "notes/2026-04-06-meeting.md").write_text(APRIL, encoding="utf-8")
    put(tmp_path, notes__diary_md=DIARY)
    (tmp_path / "faq.html").write_text(
        "<h1>Shop</h1><script>var refund = 1</script><p>Goods can be returned within 30 days.</p>",
        encoding="utf-8",
    )
    (tmp_path / "report.pdf").write_bytes(pdf("Annual report", "The profit in 2025 was 84,200 EUR"))
    (tmp_path / "sales.csv").write_text("lease,deposit\n1,2\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("question", "path", "fact"),
    [
        ("When does the lease end?", "contracts/lease.txt", "30 April 2027"),
        ("How much is the deposit?", "contracts/lease.txt", "5,550 EUR"),
        ("Who attended the meeting on 2 March?", "notes/2026-03-02-meeting.md", "Anna Berg"),
        ("who were the participants of the last meeting", "notes/2026-04-06-meeting.md", "Sara"),
        ("服务合同什么时候到期？", "contracts/服务合同.txt", "2026年12月31日"),
        ("租约的押金是多少钱？", "contracts/lease.txt", "5,550"),
        ("What was the profit in 2025?", "report.pdf", "84,200"),
        ("3月2日的会议谁参加了？", "notes/2026-03-02-meeting.md", "Tom Okafor"),
    ],
)
async def test_a_question_is_answered_by_the_first_passage(
    desk: Path, question: str, path: str, fact: str
) -> None:
    found = await use(desk, "files.lookup", question=question)
    assert found["passages"][0]["path"] == path
    assert fact in found["passages"][0]["text"]
    assert found["searched"] == 7
    assert sum(len(each["text"]) for each in found["passages"]) <= 1_800
    assert found == await use(desk, "files.lookup", question=question)


async def test_words_of_the_other_language_do_not_outweigh_the_words_themselves(
    tmp_path: Path,
) -> None:
    lease = "房屋租赁合同\n\n出租方：陈建国\n承租方：林小雨\n\n" + "双方友好协商处理争议。" * 150
    put(tmp_path, 租房合同_txt=lease, manual_txt="Every owner of a device pays. " * 200)
    found = await use(tmp_path, "files.lookup", question="房东是谁")
    assert "陈建国" in found["passages"][0]["text"]


async def test_a_changed_pdf_is_read_again_by_the_same_tools(tmp_path: Path) -> None:
    tools = DocumentTools(tmp_path)
    for text in ("The code is 1", "The code is 22"):
        (tmp_path / "a.pdf").write_bytes(pdf(text))
        found = await tools.call("files.lookup", {"question": "the code"}, Call(key="k"))
        assert text in texts(found)


async def test_each_passage_stands_at_the_line_that_it_names(desk: Path) -> None:
    found = await use(desk, "files.lookup", question="deposit of the landlord", path="contracts")
    for each in found["passages"]:
        lines = (desk / each["path"]).read_text(encoding="utf-8").split("\n")
        taken = each["text"].split("\n")
        assert lines[each["line"] - 1 : each["line"] - 1 + len(taken)] == taken


async def test_a_lookup_keeps_to_its_path_and_few_short_documents_come_whole(desk: Path) -> None:
    question = "When does the lease end?"
    for path in ("notes/2026*", "2026-03-02-meeting.md"):
        found = await use(desk, "files.lookup", question=question, path=path)
        assert all("meeting" in each["path"] for each in found["passages"])
        assert MARCH.strip() in [each["text"] for each in found["passages"]]
    # A table is no document, but one that is named is read.
    found = await use(desk, "files.lookup", question=question, path="sales.csv")
    assert texts(found) == "lease,deposit\n1,2"


async def test_a_lookup_without_any_word_in_common_says_so(desk: Path) -> None:
    found = await use(desk, "files.lookup", question="Qual é a capital da França?")
    assert found["passages"] == []
    assert found["notes"] == ["no document has the words of the question"]
    # In the one document that is meant, other words may say it: its beginning is shown.
    found = await use(desk, "files.lookup", question="Qual?", path="contracts/lease.txt")
    assert found["passages"][0]["line"] == 1


@pytest.mark.parametrize(
    ("tool", "words", "why"),
    [
        ("files.lookup", {"question": "x", "path": ".secret"}, "hidden"),
        ("files.lookup", {"question": "x", "path": "link.txt"}, "is not a file"),
        ("files.lookup", {"question": "x", "path": "leese.txt"}, "did you mean .lease.txt"),
        ("files.read_all", {"pattern": "*.doc"}, "no file fits"),
        ("files.count", {"path": "a.bin"}, "not a text file"),
        ("files.compare", {"first": "lease.txt", "second": "../outside.txt"}, "leads out"),
        ("files.compare", {"first": "lease.txt", "second": "sub"}, "a file and the other a folder"),
        ("files.duplicates", {"folder": "away"}, "not a folder"),
    ],
)
async def test_a_document_tool_stays_inside_and_says_why(
    tmp_path: Path, tool: str, words: Any, why: str
) -> None:
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    put(tmp_path, outside_txt="canary")
    put(root, lease_txt="The lease.")
    (root / ".secret").write_text("canary", encoding="utf-8")
    (root / "a.bin").write_bytes(b"\0\1")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "away").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolFailed, match=why):
        await use(root, tool, **words)
    everything = [
        await use(root, "files.lookup", question="canary"),
        await use(root, "files.read_all", pattern="*"),
        await use(root, "files.count", path=".", text="canary"),
        await use(root, "files.duplicates"),
    ]
    assert "outside" not in str(everything)
    assert everything[2]["count"] == 0


async def test_a_name_alone_stands_for_the_one_file_in_a_subfolder(desk: Path) -> None:
    read = await use(desk, "files.read", path="Lease.txt")
    assert read["path"] == "contracts/lease.txt"
    assert read["notes"] == ["there is no Lease.txt here; contracts/lease.txt was read"]
    put(desk, notes__lease_txt="another")
    with pytest.raises(ToolFailed, match=r"there is no file Lease\.txt"):
        await use(desk, "files.read", path="Lease.txt")
    (desk / "diary.md").symlink_to("/etc/passwd")
    with pytest.raises(ToolFailed, match="links, folders and devices are refused"):
        await use(desk, "files.read", path="diary.md")
    counted = await use(desk, "files.count", path="CONTRACTS", text="lease")
    assert [each["path"] for each in counted["files"]] == ["contracts/lease.txt"]


async def test_several_files_are_read_at_once_and_long_ones_are_cut_fairly(tmp_path: Path) -> None:
    put(tmp_path, a_txt="short", b_txt="b" * 900, c_txt="c" * 700, d_md="other")
    (tmp_path / "e.txt").write_bytes(b"\0")
    found = await use(tmp_path, "files.read_all", DocumentLimits(letters=1_005), pattern="*.txt")
    assert [(each["path"], len(each["text"])) for each in found["files"]] == [
        *(("a.txt", 5), ("b.txt", 500), ("c.txt", 500))
    ]
    assert found["left_out"] == 1
    assert found["notes"] == [
        "left out: e.txt is not a text file",
        "b.txt: the first 500 of 900 characters",
        "c.txt: the first 500 of 700 characters",
    ]
    listed = await use(tmp_path, "files.read_all", pattern="a.txt, d.md")
    assert [each["path"] for each in listed["files"]] == ["a.txt", "d.md"]


async def test_more_files_than_a_lookup_reads_are_told(tmp_path: Path) -> None:
    put(tmp_path, a_txt="one", b_txt="two", c_txt="three")
    found = await use(tmp_path, "files.lookup", DocumentLimits(files=2), question="three")
    assert found["searched"] == 2
    assert found["notes"][0] == "1 files were not looked at, from c.txt on"
    late = await use(tmp_path, "files.lookup", DocumentLimits(seconds=0), question="three")
    assert (late["searched"], len(late["notes"])) == (1, 1)
    put(tmp_path, a_txt="one\n" * 1_000)
    found = await use(tmp_path, "files.lookup", DocumentLimits(bytes_each=40), question="one")
    assert found["notes"] == ["only the first 39 bytes of a.txt were read"]


async def test_lines_of_a_log_are_counted_with_or_without_a_text(tmp_path: Path) -> None:
    put(tmp_path, app_txt="INFO ok\nERROR disk full\nerror again", sub__b_txt="an Error\r\n\r\n")
    whole = await use(tmp_path, "files.count", path="app.txt")
    assert whole == {
        "count": 3,
        "unit": "lines",
        "files": [{"path": "app.txt", "count": 3}],
        "words": 7,
        "characters": 33,
    }
    assert (await use(tmp_path, "files.count", path="app.txt", text="Error"))["count"] == 2
    everywhere = await use(tmp_path, "files.count", path="*.txt", text="errors")
    assert everywhere["count"] == 3
    assert everywhere["files"][1] == {"path": "sub/b.txt", "count": 1}
    assert everywhere["notes"] == ["lines with 'error' count too"]
    assert (await use(tmp_path, "files.count", path="sub"))["count"] == 2
    (tmp_path / "c.txt").write_text("你好，world\n", encoding="utf-8")
    assert (await use(tmp_path, "files.count", path="c.txt"))["words"] == 3


async def test_two_files_are_compared_by_their_lines(tmp_path: Path) -> None:
    put(tmp_path, a_txt="price: 10\nAnna\nBen\n", b_txt="Ben\nprice: 12\nCarla\n")
    found = await use(tmp_path, "files.compare", first="a.txt", second="b.txt")
    assert found == {
        "same": False,
        "added": ["Carla"],
        "removed": ["Anna"],
        "changed": [{"before": "price: 10", "after": "price: 12"}],
        "summary": "1 line only in b.txt, 1 line only in a.txt, 1 line changed.",
    }
    put(tmp_path, c_txt="Anna\nBen\nprice: 10\n")
    moved = await use(tmp_path, "files.compare", first="a.txt", second="c.txt")
    assert (moved["same"], moved["added"], moved["removed"]) == (False, [], [])
    assert moved["summary"] == "a.txt and c.txt have the same lines, in another order."
    assert (await use(tmp_path, "files.compare", first="a.txt", second="a.txt"))["same"]
    (tmp_path / "a.png").write_bytes(b"\0a")
    (tmp_path / "b.png").write_bytes(b"\0b")
    found = await use(tmp_path, "files.compare", first="a.png", second="b.png")
    assert not found["same"]
    assert found["summary"] == "a.png and b.png have different contents; they are not text."


async def test_two_folders_are_compared_by_names_and_contents(tmp_path: Path) -> None:
    put(tmp_path, old__a_txt="1", old__b_txt="2", old__s__c_txt="3")
    put(tmp_path, new__a_txt="1", new__b_txt="two", new__d_txt="4")
    found = await use(tmp_path, "files.compare", first="old", second="new")
    assert (found["added"], found["removed"]) == (["d.txt"], ["s/c.txt"])
    assert found["changed"] == [{"before": "b.txt", "after": "b.txt"}]
    assert found["summary"] == "1 file only in new, 1 file only in old, 1 file changed."
    assert (await use(tmp_path, "files.compare", first="old", second="old/"))["same"]


async def test_duplicates_are_files_with_the_same_content(tmp_path: Path) -> None:
    put(tmp_path, a_txt="same", s__b_txt="same", c_txt="else", d_txt="x" * 90, e_txt="x" * 90)
    put(tmp_path, f_txt="", g_txt="")
    found = await use(tmp_path, "files.duplicates")
    assert found == {
        "groups": [
            {"size": 90, "paths": ["d.txt", "e.txt"]},
            {"size": 4, "paths": ["a.txt", "s/b.txt"]},
        ],
        "count": 2,
        "notes": ["2 empty files do not count"],
    }
    assert (await use(tmp_path, "files.duplicates", folder="s"))["count"] == 0
    some = await use(tmp_path, "files.duplicates", DocumentLimits(compared_bytes=100))
    assert some["count"] == 1
    assert some["notes"][-1] == "files of 90 bytes and more were too many to compare"


async def test_a_file_that_changes_while_it_is_compared_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, a_txt="same", b_txt="same")
    real = os.fstat
    seen: list[int] = []

    def busy(handle: int) -> os.stat_result:
        # Somebody writes between the first look and the second.
        if os.path.samestat(real(handle), (tmp_path / "b.txt").stat()):
            seen.append(handle)
            with (tmp_path / "b.txt").open("a", encoding="utf-8") as file:
                file.write("more")
        return real(handle)

    monkeypatch.setattr(os, "fstat", busy)
    found = await use(tmp_path, "files.duplicates")
    assert seen
    assert found["count"] == 0
    assert found["notes"] == ["left out: b.txt changed while it was read"]
