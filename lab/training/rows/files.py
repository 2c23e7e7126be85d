"""Requests that find, compare, move, write and change files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import World

FILE: Final = "file_phrases"
# Kinds of files: ending, English words, Chinese words.
_KINDS: Final = (
    ("png", ("PNG files", "PNG images"), ("PNG图片", "png文件")),
    ("jpg", ("JPG files", "jpg photos", "JPEGs"), ("JPG照片", "jpg文件")),
    ("csv", ("CSV files", "csv tables"), ("CSV文件", "CSV表格")),
    ("pdf", ("PDFs", "PDF files", "PDF documents"), ("PDF文件", "PDF文档")),
    ("md", ("Markdown files", ".md files"), ("Markdown文件", "md文件")),
    ("txt", ("text files", "txt files"), ("文本文件", "txt文件")),
    ("log", ("log files", "logs"), ("日志文件", "日志")),
    ("json", ("JSON files", ".json files"), ("JSON文件", "json文件")),
    ("docx", ("Word documents", "docx files", "Word files"), ("Word文档", "docx文件")),
    ("py", ("Python files", "Python scripts"), ("Python脚本", "py文件")),
    ("zip", ("zip archives", "zip files"), ("压缩包", "zip文件")),
    ("mp3", ("MP3 files",), ("MP3文件",)),
    ("xlsx", ("Excel files", "xlsx files"), ("Excel文件", "xlsx文件")),
    ("db", ("database files", ".db files"), ("数据库文件", "db文件")),
    ("svg", ("SVG files",), ("SVG文件",)),
)
_FOLDERS_EN: Final = (
    "archive",
    "old",
    "done",
    "backup",
    "reports",
    "2025",
    "sorted",
    "drafts",
    "to check",
)
_FOLDERS_ZH: Final = ("归档", "旧文件", "已完成", "备份", "报告", "2025", "草稿", "待查")
_NEW_EN: Final = ("note", "todo", "reminder", "info", "hello", "memo", "ideas", "shopping", "draft")
_NEW_ZH: Final = ("备忘", "待办", "提醒", "说明", "你好", "想法", "购物清单", "草稿")


class FileAsker:
    """Asks for things to be done with the files of a world."""

    def __init__(self, world: World, voice: Voice) -> None:
        self._world, self._voice, self._rng = world, voice, voice.rng
        files = [p for p in world.paths if ".db/" not in p and ".sqlite/" not in p]
        self._files = [p for p in files if "IGNORE" not in p and "urgent" not in p]

    def _say(self, kind: str, /, **slots: str) -> str:
        return self._voice.say(FILE, kind, **slots)

    def _some(self) -> tuple[str, str]:
        """Returns a file and what the request calls it."""
        if not self._files:
            raise Unfit
        path = self._rng.choice(self._files)
        same = [p for p in self._files if p.rpartition("/")[2] == path.rpartition("/")[2]]
        short = self._rng.random() < 0.4 and len(same) == 1
        return path, self._kept(path.rpartition("/")[2] if short else path)

    def _kept(self, text: str) -> str:
        self._voice.kept.append(text)
        return text

    def _said(self, text: str) -> str:
        """Returns a text as the request will show it."""
        self._kept(text)
        return text.lower() if self._voice.lower else text

    def _folders(self) -> list[str]:
        found = {path.rpartition("/")[0] for path in self._files} - {""}
        found |= {e.path.rstrip("/") for e in self._world.entries if e.path.endswith("/")}
        return sorted(found)

    def listing(self) -> Ask:
        folders = self._folders()
        if folders and self._rng.random() < 0.45:
            folder = self._rng.choice(folders)
            return Ask(
                "list",
                self._say("listin", folder=self._kept(folder)),
                (call("files.list", folder=folder),),
                names_file=True,
            )
        return Ask("list", self._say("list"), (call("files.list"),), names_file=True)

    def find(self) -> Ask:
        ending, en, zh = self._voice.pick(_KINDS)
        word = self._kept(self._voice.either(en, zh))
        text = self._say("find", kind=word, kind1=word.removesuffix("s"))
        folders = self._folders()
        if folders and self._rng.random() < 0.15:
            folder = self._rng.choice(folders)
            text = self._voice.either(
                (f"{text.rstrip('?')} in {folder}",), (f"在{folder}里，{text}",)
            )
            return Ask(
                "find",
                text,
                (call("files.find", pattern=f"*.{ending}", folder=folder),),
                names_file=True,
            )
        return Ask("find", text, (call("files.find", pattern=f"*.{ending}"),), names_file=True)

    def find_pictures(self) -> Ask:
        """Asks for pictures: the endings that the folder shows."""
        endings = sorted({p.rpartition(".")[2] for p in self._world.pictures})
        if not endings:
            raise Unfit
        word = self._voice.either(("pictures", "photos", "images"), ("图片", "照片"))
        text = self._say("find", kind=word, kind1=word[:-1])
        return Ask(
            "find",
            text,
            tuple(call("files.find", pattern=f"*.{e}") for e in endings),
            names_file=True,
        )

    def find_name(self) -> Ask:
        word = self._said(
            self._voice.either(
                ("report", "invoice", "2025", "old", "draft", "photo", "notes", "final"),
                ("报告", "发票", "2025", "旧", "草稿", "照片", "笔记"),
            )
        )
        return Ask(
            "find",
            self._say("findname", x=word),
            (call("files.find", pattern=f"*{word}*"),),
            names_file=True,
        )

    def biggest(self) -> Ask:
        return Ask(
            "find", self._say("biggest"), (call("files.find", pattern="*"),), names_file=True
        )

    def lines(self) -> Ask:
        path, said = self._some()
        if path.endswith(
            (".png", ".jpg", ".zip", ".mp3", ".mp4", ".svg", ".csv", ".xlsx", ".json")
        ):
            raise Unfit
        return Ask(
            "count lines",
            self._say("lines", file=said),
            (call("files.count", path=path),),
            names_file=True,
        )

    def read(self) -> Ask:
        path, said = self._some()
        if not path.endswith(
            (".txt", ".md", ".pdf", ".docx", ".py", ".yaml", ".html", ".json", ".js", "Makefile")
        ):
            raise Unfit
        return Ask(
            "read", self._say("read", file=said), (call("files.read", path=path),), names_file=True
        )

    def compare(self) -> Ask:
        (a, said_a), (b, said_b) = self._some(), self._some()
        folders = self._folders()
        if len(folders) > 1 and self._rng.random() < 0.25:
            a, b = said_a, said_b = tuple(self._rng.sample(folders, 2))
        if a == b:
            raise Unfit
        text = self._say("compare", file=self._kept(said_a), other=self._kept(said_b))
        return Ask("compare", text, (call("files.compare", first=a, second=b),), names_file=True)

    def duplicates(self) -> Ask:
        folders = self._folders()
        if folders and self._rng.random() < 0.35:
            folder = self._rng.choice(folders)
            return Ask(
                "duplicates",
                self._say("duplicatesin", folder=self._kept(folder)),
                (call("files.duplicates", folder=folder),),
                names_file=True,
            )
        return Ask(
            "duplicates", self._say("duplicates"), (call("files.duplicates"),), names_file=True
        )

    def move(self) -> Ask:
        path, said = self._some()
        folder = self._said(self._voice.either(_FOLDERS_EN, _FOLDERS_ZH))
        name = path.rpartition("/")[2]
        text = self._say("move", file=said, folder=folder)
        return Ask(
            "move", text, (call("files.move", path=path, to=f"{folder}/{name}"),), names_file=True
        )

    def rename(self) -> Ask:
        path, said = self._some()
        base, _, name = path.rpartition("/")
        new = self._new_name(name.rpartition(".")[2])
        target = f"{base}/{new}" if base else new
        kind, tool = self._rng.choice(
            (("rename", "files.move"), ("rename", "files.move"), ("copy", "files.copy"))
        )
        return Ask(
            "move",
            self._say(kind, file=said, other=new),
            (call(tool, path=path, to=target),),
            names_file=True,
        )

    def _new_name(self, ending: str) -> str:
        word = self._voice.either(
            (*_NEW_EN, "final", "report_new", "stock_old"), (*_NEW_ZH, "最终版", "新报告")
        )
        number = self._rng.choice(("", "", "_2026", "-2", "_v2"))
        return self._said(f"{word}{number}.{ending}")

    def delete(self) -> Ask:
        path, said = self._some()
        return Ask(
            "delete",
            self._say("delete", file=said),
            (call("files.delete", path=path),),
            names_file=True,
        )

    def _text(self) -> str:
        voice = self._voice
        person = self._rng.choice(texts("people")["people", voice.lang])
        return self._said(voice.pick(texts(FILE)["texts", voice.lang]).replace("{person}", person))

    def write(self) -> Ask:
        path = self._new_name(self._rng.choice(("txt", "md", "txt")))
        if self._rng.random() < 0.2:
            folder = self._said(self._voice.either(_FOLDERS_EN, _FOLDERS_ZH))
            path = f"{folder}/{path}"
        content = self._text()
        text = self._say("write", file=path, x=content)
        return Ask("write", text, (call("files.write", path=path, text=content),), names_file=True)

    def append(self) -> Ask:
        known = [p for p in self._files if p.endswith((".txt", ".md"))]
        path = (
            self._rng.choice(known) if known and self._rng.random() < 0.8 else self._new_name("txt")
        )
        said = self._kept(path if self._rng.random() < 0.6 else path.rpartition("/")[2])
        content = self._text()
        text = self._say("append", file=said, x=content)
        return Ask("write", text, (call("files.append", path=path, text=content),), names_file=True)

    def replace(self) -> Ask:
        path, said = self._some()
        if not path.endswith((".txt", ".md", ".yaml", ".json", ".html", ".py", ".csv")):
            raise Unfit
        olds = texts(FILE)["olds", self._voice.lang]
        old, new = (self._said(each) for each in self._rng.sample(olds, 2))
        text = self._say("replace", file=said, x=old, y=new)
        return Ask(
            "write", text, (call("files.replace", path=path, old=old, new=new),), names_file=True
        )

    def missing(self) -> Ask:
        """Asks for something with a value left out that nothing tells."""
        voice = self._voice
        path, said = self._some()
        content = self._text()
        ways: list[tuple[str, str, dict[str, str], str]] = [
            (f"Rename {said}", f"把{said}改个名字", {"path": path, "to": "?"}, "files.move"),
            (
                f"Move {said} somewhere else",
                f"把{said}移到别处",
                {"path": path, "to": "?"},
                "files.move",
            ),
            (
                f'Write "{content}" into a file',
                f"把“{content}”写进一个文件",
                {"path": "?", "text": content},
                "files.write",
            ),
            (
                f"Add a line to {said}",
                f"在{said}里加一行",
                {"path": path, "text": "?"},
                "files.append",
            ),
            (
                f"Create the file {voice.either(_NEW_EN, _NEW_ZH)}.txt",
                "",
                {"path": "", "text": "?"},
                "files.write",
            ),
            ("Delete the file", "删除那个文件", {"path": "?"}, "files.delete"),
            (
                f"Replace a word in {said}",
                f"替换{said}里的一个词",
                {"path": path, "old": "?", "new": "?"},
                "files.replace",
            ),
            (
                f"Compare {said} with the other one",
                f"把{said}和另一个比较一下",
                {"first": path, "second": "?"},
                "files.compare",
            ),
            (f"Copy {said}", f"复制{said}", {"path": path, "to": "?"}, "files.copy"),
        ]
        en, zh, args, tool = self._rng.choice(ways)
        if args.get("path") == "":
            name = self._new_name("txt")
            en, zh, args = f"Create the file {name}", f"新建文件{name}", {"path": name, "text": "?"}
        return Ask("missing", zh if voice.is_zh else en, (call(tool, **args),), names_file=True)

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests that only read, with their weights."""
        return [
            *((self.listing, 8), (self.find, 10), (self.find_pictures, 5), (self.find_name, 4)),
            *((self.biggest, 3), (self.lines, 4), (self.read, 5), (self.compare, 7)),
            (self.duplicates, 5),
        ]

    def changes(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests that change files, with their weights."""
        return [
            *((self.move, 5), (self.rename, 6), (self.delete, 4), (self.write, 7)),
            *((self.append, 6), (self.replace, 4)),
        ]
