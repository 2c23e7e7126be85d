"""Makes the files of the folder bench: tables, databases, texts, small PDFs and pictures."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import struct
import zlib
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

Row = dict[str, Any]


def table(rows: Sequence[Row]) -> bytes:
    """A CSV file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def listing(value: object) -> bytes:
    """A JSON file."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def text(*paragraphs: str) -> bytes:
    """A text of paragraphs."""
    return ("\n\n".join(each.strip() for each in paragraphs) + "\n").encode()


def database(tables: Mapping[str, Sequence[Row]]) -> bytes:
    """A SQLite file."""
    base = sqlite3.connect(":memory:")
    for name, rows in tables.items():
        columns = ", ".join(f'"{key}" {_type(each)}' for key, each in rows[0].items())
        base.execute(f'CREATE TABLE "{name}" ({columns})')
        marks = ", ".join("?" * len(rows[0]))
        base.executemany(
            f'INSERT INTO "{name}" VALUES ({marks})', [[*row.values()] for row in rows]
        )
    base.commit()
    content = base.serialize()
    base.close()
    return content


def _type(value: object) -> str:
    return {int: "INTEGER", float: "REAL"}.get(type(value), "TEXT")


def pdf(*pages: str) -> bytes:
    """A PDF of plain text pages."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, page in enumerate(pages):
        stream = _page(page)
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources "
            b"<< /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * number),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        ]
    content, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    total = len(objects) + 1
    return content + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (total, rows, total, len(content))
    )


def _page(page: str) -> bytes:
    lines = [part for line in page.splitlines() for part in wrap(line, 84) or [""]]
    escaped = (line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in lines)
    shown = " T*\n".join(f"({line}) Tj" for line in escaped)
    return f"BT /F1 11 Tf 60 790 Td 15 TL\n{shown}\nET".encode("cp1252")


def picture(red: int, green: int, blue: int, size: int = 8) -> bytes:
    """A PNG file of one colour."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    line = b"\0" + bytes((red, green, blue)) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(line * size))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body + chunk(b"IEND", b"")
