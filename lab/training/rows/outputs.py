"""Requests that keep a result: charts, saved rows, exports, and texts made of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.training.rows.grouping import ALIAS, SQL_OF, GroupAsker
from lab.training.rows.queries import Ask, Unfit, some
from lab.training.rows.row import Call, call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import Document, World

FILE: Final = "output_phrases"
_CHARTS: Final = (
    ("", ("chart", "graph", "diagram", "plot"), ("图", "图表", "统计图")),
    ("", ("chart", "graph"), ("图表", "图")),
    ("bar", ("bar chart", "bar graph"), ("柱状图", "条形图")),
    ("bar", ("bar chart", "column chart"), ("柱状图", "柱形图")),
    ("pie", ("pie chart", "pie"), ("饼图",)),
    ("line", ("line chart", "line graph"), ("折线图", "曲线图")),
    ("donut", ("donut chart",), ("环形图",)),
)
_NAMES_EN: Final = (
    "chart",
    "overview",
    "result",
    "plot",
    "by_group",
    "figure1",
    "summary",
    "out/chart",
)
_NAMES_ZH: Final = ("图表", "概览", "结果", "统计", "图1", "汇总", "输出/图表")


class OutputAsker:
    """Asks for results to be drawn, saved or worded."""

    def __init__(self, world: World, asker: GroupAsker | None, voice: Voice) -> None:
        self._world, self._asker, self._voice, self._rng = world, asker, voice, voice.rng

    def _say(self, kind: str, core: str = "", /, **slots: str) -> str:
        way = self._voice.pick(texts(FILE)[kind, self._voice.lang])
        text = way.replace("{}", core)
        return self._voice.fill(text, **slots)

    def _table(self) -> GroupAsker:
        if self._asker is None:
            raise Unfit
        return self._asker

    def _document(self) -> Document:
        if not self._world.documents:
            raise Unfit
        return self._rng.choice(self._world.documents)

    def _path(self, *endings: str) -> str:
        name = self._voice.either(_NAMES_EN, _NAMES_ZH) + self._rng.choice(("", "", "_2026", "-1"))
        path = f"{name}.{self._rng.choice(endings)}"
        self._voice.kept.append(path)
        return path.lower() if self._voice.lower else path

    def _grouped(self) -> tuple[str, Call]:
        """Returns what is drawn, in words, and the call that gets it."""
        asker = self._table()
        zh, roll = self._voice.is_zh, self._rng.random()
        times = asker.table.of_kind("date", "datetime", "month")
        if times and roll < 0.35:
            time = times[0]
            column, how, word = asker.measure()
            said = asker.word(column)
            text = (
                f"每月{word}{said}"
                if zh
                else self._rng.choice(
                    (
                        f"the {word} {said} per month",
                        f"{word} {said} by month",
                        f"monthly {word} {said}",
                    )
                )
            )
            if time.of.kind == "month" or (len(times) == 1 and asker.table.dates == "-"):
                part = time.name if time.of.kind == "month" else "month"
                path = asker.table.path
                return text, call("tables.group", table=path, by=part, value=column.name, how=how)
            made = f"{SQL_OF[how]}({column.sql}) AS {ALIAS[how]}"
            return text, asker.sql(
                f"{asker.month_of(time)} AS month, {made}", rest="GROUP BY month"
            )
        by = self._rng.choice(some(asker.table.groups))
        group = asker.word(by)
        if roll < 0.55:
            rows = asker.slots()["rows"]
            text = (
                f"各{group}的{rows}数量"
                if zh
                else self._rng.choice(
                    (
                        f"the number of {rows} per {group}",
                        f"{rows} per {group}",
                        f"how many {rows} each {group} has",
                    )
                )
            )
            return text, call("tables.group", table=asker.table.path, by=by.name)
        column, how, word = asker.measure()
        if how == "sum" and self._rng.random() < 0.5:
            word = ""
        said = asker.word(column)
        text = (
            self._rng.choice((f"各{group}{word}{said}", f"每个{group}的{word}{said}"))
            if zh
            else self._rng.choice(
                (
                    f"the {word} {said} per {group}",
                    f"{word} {said} by {group}",
                    f"{word} {said} for each {group}",
                )
            )
        )
        return text, call(
            "tables.group", table=asker.table.path, by=by.name, value=column.name, how=how
        )

    def _scatter(self) -> Ask:
        asker = self._table()
        if len(asker.table.numbers) < 2:
            raise Unfit
        a, b = self._rng.sample(asker.table.numbers, 2)
        x, y = asker.word(a), asker.word(b)
        text = self._voice.either(
            (
                f"Scatter plot of {x} against {y}",
                f"Draw {y} over {x} as a scatter plot",
                f"Plot {x} versus {y} as scatter chart",
            ),
            (f"画{x}和{y}的散点图", f"用散点图表示{x}与{y}", f"{x}和{y}的散点图"),
        )
        made = asker.sql(f"{a.sql}, {b.sql}")
        return Ask("chart", text, (made, call("charts.draw", rows="$1", kind="scatter")))

    def chart(self) -> Ask:
        """Asks for a chart of groups."""
        if self._rng.random() < 0.08:
            return self._scatter()
        core, made = self._grouped()
        kind, en, zh = self._rng.choice(_CHARTS)
        word = self._voice.either(en, zh)
        path = self._path("svg", "svg", "png") if self._rng.random() < 0.35 else None
        drawn = call("charts.draw", rows="$1", path=path, kind=kind or None)
        text = self._say("chartto" if path else "chart", core, kind=word, path=path or "")
        return Ask("chart", text, (made, drawn))

    def chart_and_save(self) -> Ask:
        """Asks for a chart and a file of one result."""
        core, made = self._grouped()
        path = self._path("csv", "csv", "json", "md")
        kind, en, zh = self._rng.choice(_CHARTS)
        word = self._voice.either(en, zh)
        text = self._voice.either(
            (
                f"Get {core}, save it as {path} and draw a {word}",
                f"Write {core} to {path} and show it as a {word} too",
                f"{word} of {core}, and save the numbers as {path}",
            ),
            (
                f"统计{core}，保存到{path}并画{word}",
                f"把{core}写入{path}，再画个{word}",
                f"画{core}的{word}，数据存成{path}",
            ),
        )
        saved, drawn = (
            call("tables.write", path=path, rows="$1"),
            call("charts.draw", rows="$1", kind=kind or None),
        )
        later = text.startswith((word, word.capitalize(), "画"))
        return Ask(
            "chart", self._voice.tidy(text), (made, drawn, saved) if later else (made, saved, drawn)
        )

    def save(self) -> Ask:
        """Asks for rows and their file."""
        asker = self._table()
        ways = (
            asker.listing,
            asker.group,
            asker.top,
            asker.months,
            asker.group_where,
            asker.pair,
            asker.top_where,
            asker.sort,
        )
        asked = self._rng.choice(ways)()
        path = self._path("csv", "csv", "json", "md")
        core = asked.text.rstrip("?？.。")
        if not self._voice.is_zh and self._voice.rng.random() < 0.6:
            core += "."
        text = self._say("save", core, path=path).replace(". and", " and")
        return Ask("save", text, (*asked.calls, call("tables.write", path=path, rows="$1")))

    def export(self) -> Ask:
        asker = self._table()
        path = self._path("csv", "json", "md", "md")
        said = self._voice.file(asker.table.path)
        text = self._say("export", file=said, path=path)
        return Ask(
            "export",
            text,
            (call("tables.export", table=asker.table.path, path=path),),
            names_file=True,
        )

    def export_format(self) -> Ask:
        """Asks for another format; the name follows from the file's own."""
        asker = self._table()
        name = (
            asker.table.path.rpartition("/")[2].rpartition(".")[0]
            or asker.table.path.rpartition("/")[2]
        )
        ending, word = self._rng.choice((("json", "JSON"), ("md", "Markdown"), ("csv", "CSV")))
        said = self._voice.file(asker.table.path)
        if asker.table.path.endswith(ending):
            raise Unfit
        text = self._voice.either(
            (
                f"Convert {said} to {word}",
                f"Save {said} as {word}",
                f"I need {said} as a {word} file",
            ),
            (f"把{said}转换成{word}", f"将{said}另存为{word}格式", f"{said}导出{word}"),
        )
        made = call("tables.export", table=asker.table.path, path=f"{name}.{ending}")
        return Ask("export", text, (made,), names_file=True)

    def text_of_file(self) -> Ask:
        """Asks for a new text made of a document, in a file."""
        document, voice = self._document(), self._voice
        path, refs = self._path("md", "txt"), document.kind.refs[voice.lang]
        said = self._rng.choice(
            (document.path, document.path.rpartition("/")[2], self._rng.choice(refs))
        )
        voice.kept.append(said)
        if self._rng.random() < 0.5:
            text = self._say("sumto", file=said, path=path)
            told = voice.either(
                ("Summarise the text", "Write a short summary"),
                ("总结这段文字", "写一段简短的摘要"),
            )
        else:
            what = voice.pick(texts(FILE)["what", voice.lang])
            text = self._say("make", file=said, path=path, what=what)
            told = f"写{what}" if voice.is_zh else f"Write {what}"
        calls = (
            call("files.read", path=document.path),
            call("words.make", instruction=told, from_="$1"),
            call("files.write", path=path, text="$2"),
        )
        return Ask("words", text, calls, names_file=True)

    def text_of_folder(self) -> Ask:
        """Asks for a text made of several files."""
        document, voice = self._document(), self._voice
        folder = document.path.rpartition("/")[0]
        if not folder:
            raise Unfit
        path = self._path("md", "txt")
        voice.kept += [folder, path]
        text = voice.either(
            (
                f"Summarise all files in {folder} and save the summary as {path}",
                f"Write a summary of everything in {folder} to {path}",
                f"Read the documents in {folder} and write an overview into {path}",
            ),
            (
                f"总结{folder}里的所有文件，保存为{path}",
                f"把{folder}里全部文档的摘要写入{path}",
                f"阅读{folder}的文件并写一份概述到{path}",
            ),
        )
        told = voice.either(("Write a summary of all texts",), ("写一份所有文件的摘要",))
        calls = (
            call("files.read_all", pattern=f"{folder}/*"),
            call("words.make", instruction=told, from_="$1"),
            call("files.write", path=path, text="$2"),
        )
        return Ask("words", text, calls, names_file=True)

    def text_of_rows(self) -> Ask:
        """Asks for a text about numbers, in a file."""
        core, made = self._grouped()
        what = self._voice.pick(texts(FILE)["report", self._voice.lang])
        path = self._path("md", "txt")
        text = self._say("letter", core, what=what, path=path)
        told = f"写{what}：{core}" if self._voice.is_zh else f"Write {what} about {core}"
        told = " ".join(told.split())
        calls = (
            made,
            call("words.make", instruction=told, from_="$1"),
            call("files.write", path=path, text="$2"),
        )
        return Ask("words", text, calls)

    def report(self) -> Ask:
        """Asks for numbers, a chart of them, and a text about them in a file."""
        core, made = self._grouped()
        path, voice = self._path("md", "txt"), self._voice
        kind, en, zh = self._rng.choice(_CHARTS)
        word, rows = voice.either(en, zh), self._path("csv", "json")
        saves = self._rng.random() < 0.4
        also_en, also_zh = (
            (f", save the numbers as {rows}", f"，数据存到{rows}") if saves else ("", "")
        )
        text = voice.either(
            (
                f"Work out {core}, draw a {word}{also_en} and write a short report to {path}",
                f"Make a {word} of {core}{also_en}, then write a few sentences into {path}",
                f"I need a report on {core}: a {word}{also_en} and a text in {path}",
            ),
            (
                f"统计{core}，画{word}{also_zh}，再写一份简短报告到{path}",
                f"做一份{core}的报告：{word}{also_zh}，文字写入{path}",
                f"把{core}画成{word}{also_zh}，并写几句说明保存为{path}",
            ),
        )
        told = f"写一份简短报告：{core}" if voice.is_zh else f"Write a short report about {core}"
        calls = [made, call("charts.draw", rows="$1", kind=kind or None)]
        calls += [call("tables.write", path=rows, rows="$1")] if saves else []
        calls.append(call("words.make", instruction=" ".join(told.split()), from_="$1"))
        calls.append(call("files.write", path=path, text=f"${len(calls)}"))
        return Ask("report", voice.tidy(text), tuple(calls))

    def two_charts(self) -> Ask:
        """Asks for two charts at once."""
        (a, first), (b, second) = self._grouped(), self._grouped()
        if first == second:
            raise Unfit
        kinds = [self._rng.choice(_CHARTS) for _ in range(2)]
        x, y = (self._voice.either(en, zh) for _, en, zh in kinds)
        text = self._voice.either(
            (
                f"Draw a {x} of {a} and a {y} of {b}",
                f"Two charts please: {a} as a {x}, {b} as a {y}",
            ),
            (f"画{a}的{x}和{b}的{y}", f"画两张图：{a}用{x}，{b}用{y}"),
        )
        drawn = [
            call("charts.draw", rows=f"${place}", kind=kind or None)
            for place, (kind, _, _) in zip((1, 3), kinds, strict=True)
        ]
        return Ask("chart", self._voice.tidy(text), (first, drawn[0], second, drawn[1]))

    def top_chart(self) -> Ask:
        """Asks for a chart of the first rows."""
        asker = self._table()
        column = self._rng.choice(some(asker.table.numbers))
        count, rows, word = self._rng.randint(3, 10), asker.slots()["rows"], asker.word(column)
        text = self._voice.either(
            (
                f"Bar chart of the top {count} {rows} by {word}",
                f"Draw the {count} {rows} with the highest {word} as a bar chart",
            ),
            (f"画{word}最高的{count}个{rows}的柱状图", f"用柱状图展示{word}前{count}的{rows}"),
        )
        made = call("tables.top", table=asker.table.path, column=column.name, count=count)
        return Ask("chart", text, (made, call("charts.draw", rows="$1", kind="bar")))

    def found_to_file(self) -> Ask:
        """Asks for an answer of the documents, in a file."""
        document, voice = self._document(), self._voice
        plain = [q for q in document.kind.questions[voice.lang] if "{ref}" in q]
        slots = dict(document.slots) | {"ref": self._rng.choice(document.kind.refs[voice.lang])}
        if document.lang != voice.lang:
            raise Unfit
        question = voice.fill(self._rng.choice(plain), **slots).rstrip("?？")
        voice.kept.append(question)
        path = self._path("md", "txt")
        text = self._say("save", question + ("" if voice.is_zh else "?"), path=path).replace(
            "? and", " and"
        )
        asked = question.lower() if voice.lower else question
        told = f"回答：{asked}" if voice.is_zh else f"Answer: {asked}"
        calls = (
            call("files.lookup", question=asked, path=document.path),
            call("words.make", instruction=told, from_="$1"),
            call("files.write", path=path, text="$2"),
        )
        return Ask("words", text, calls, names_file=True)

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.chart, 30), (self.chart_and_save, 6), (self.save, 18), (self.export, 5)),
            *((self.export_format, 5), (self.text_of_file, 12), (self.text_of_folder, 4)),
            *((self.text_of_rows, 5), (self.found_to_file, 4), (self.report, 8)),
            *((self.two_charts, 3), (self.top_chart, 4)),
        ]
