"""Names of tables and files that a draft copied badly are put right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith_desk.model.known_names import KnownNames
from plansmith_desk.model.signatures import Offered

FOLDER = """\
值班表.csv: 日期 (2027-02-06), 员工 (韩冰, 朱琳), 岗位 (厨房/吧台/前台), 小时 (9.7, 6.3)
shop.db/orders: id (1, 2), customer_id (7, 3), status (open/paid), total (33.9, 12)
class list.csv: Student (Ada, Tom), Average Grade (2.1, 3.0), 单价(元) (3), Remark, Seat
notes/meeting.md: Team meeting
"""


def mended(folder: str, name: str, *, reads: bool = True, **args: Any) -> Any:
    """The arguments of a call after its names were put right."""
    fields = {"properties": {key: {} for key in args}, "required": ["question"]}
    tool = Offered(name, "", fields, only_reads=reads)
    return KnownNames(folder).mended({"tool": name, "args": args}, tool)["args"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("SELECT * FROM 候位 WHERE 岗位 <> '吧台'", "SELECT * FROM 值班表 WHERE 岗位 <> '吧台'"),
        ("SELECT SUM(total) FROM order", "SELECT SUM(total) FROM orders"),
        ("SELECT o.total FROM sales o", "SELECT o.total FROM orders o"),
        ("SELECT Seat FROM lists", 'SELECT Seat FROM "class list.csv"'),
    ],
)
def test_a_query_gets_the_table_that_it_means(wrong: str, right: str) -> None:
    assert KnownNames(FOLDER).query(wrong) == right


@pytest.mark.parametrize(
    "query",
    [
        "SELECT status, COUNT(*) FROM orders GROUP BY status",
        "SELECT * FROM shop.db/orders",
        "WITH best AS (SELECT * FROM orders) SELECT total FROM best",
        "SELECT 1 FROM nowhere",
        "SELECT * FROM (SELECT total FROM orders)",
    ],
)
def test_a_query_with_known_names_or_none_that_could_be_meant_stays(query: str) -> None:
    assert KnownNames(FOLDER).query(query) == query


def test_a_table_that_is_not_there_is_found_by_its_columns() -> None:
    assert mended(FOLDER, "tables.group", table="排班.csv", by="岗位")["table"] == "值班表.csv"


def test_a_table_with_another_name_and_other_columns_is_not_meant() -> None:
    args: dict[str, Any] = {"table": "stock.csv", "column": "price"}
    assert mended("sales.csv: day (1), amount (2)", "tables.top", **args) == args


YEARS = """\
2024/data.csv: 3 rows: id (1), day (1), price (2)
data_2024.csv: 3 rows: id (1), day (1), amount (2)
data_2025.csv: 3 rows: id (1), day (1), amount (2)
report_v2.csv: 3 rows: id (1), staff (1)
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("data_2023", None),
        ("data_2023.csv", None),
        ("2023/data.csv", None),
        ("datas", None),
        ("data_2024_1", None),
        ("report_v1.csv", None),
        ("date_2024.csv", "data_2024.csv"),
        ("reports_v2", "report_v2.csv"),
        ("report", "report_v2.csv"),
    ],
)
def test_a_table_with_another_number_in_its_name_is_never_meant(
    wrong: str, right: str | None
) -> None:
    column = "staff" if "report" in wrong else "amount"
    found = mended(YEARS, "tables.top", table=wrong, column=column)
    assert found["table"] == (right or wrong)
    query = f'SELECT "{column}" FROM "{wrong}"'
    if right is None:
        assert KnownNames(YEARS).query(query) == query


@pytest.mark.parametrize(
    ("path", "kept"),
    [("notes/meeting.md", True), ("meeting.md", True), ("notes", True), ("README", False)],
)
def test_a_file_that_is_not_there_is_not_looked_up_in(path: str, kept: bool) -> None:
    assert ("path" in mended(FOLDER, "files.lookup", question="who?", path=path)) is kept


def test_a_file_of_a_listing_that_was_cut_may_be_there() -> None:
    args: dict[str, Any] = {"question": "who?", "path": "old/README"}
    assert mended(f"{FOLDER}old/: 14 files\n", "files.lookup", **args) == args


@given(st.text(max_size=60), st.text(max_size=80))
def test_no_query_and_no_folder_breaks_it(folder: str, query: str) -> None:
    KnownNames(folder).query(query)
    KnownNames(FOLDER).query(query)


def test_a_file_that_is_to_be_written_need_not_be_there() -> None:
    assert mended(FOLDER, "charts.draw", reads=False, path="new.svg") == {"path": "new.svg"}
