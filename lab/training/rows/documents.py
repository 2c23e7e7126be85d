"""Requests about what documents and logs say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import call
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import Document, World

FILE: Final = "file_phrases"
# What is counted in logs: English words, Chinese words, and the text that lines hold.
_COUNTED: Final = (
    (("errors", "error messages", "error lines"), ("错误", "报错"), "error"),
    (("warnings",), ("警告", "告警"), "warn"),
    (("timeouts",), ("超时",), "timeout"),
    (("TODOs", "to-dos"), ("TODO", "待办"), "TODO"),
    (("failed logins", "login failures"), ("登录失败",), "login failed"),
    (("exceptions",), ("异常",), "exception"),
    (("restarts",), ("重启",), "restart"),
    (("404 responses", "404s"), ("404",), "404"),
    (("lines with INFO", "info messages"), ("INFO 信息", "INFO"), "INFO"),
    (("retries",), ("重试",), "retry"),
    (("fatal errors",), ("致命错误",), "fatal"),
    (("500 errors", "500s"), ("500 错误",), "500"),
)
_SEARCHED_EN: Final = (
    *(
        "budget",
        "deadline",
        "invoice",
        "Berlin",
        "password",
        "holiday",
        "warranty",
        "heating",
        "Q3",
    ),
    *("refund", "parking", "server", "coffee", "contract", "TODO", "trade fair", "password reset"),
)
_SEARCHED_ZH: Final = (
    *("预算", "截止日期", "发票", "北京", "密码", "假期", "保修", "暖气", "三季度", "退款", "停车"),
    *("服务器", "咖啡", "合同", "展会", "TODO", "供应商"),
)


class DocumentAsker:
    """Asks about the documents and logs of a world."""

    def __init__(self, world: World, voice: Voice) -> None:
        self._world, self._voice, self._rng = world, voice, voice.rng

    def _say(self, kind: str, /, **slots: str) -> str:
        return self._voice.say(FILE, kind, **slots)

    def _looked_up(self, text: str, question: str, path: str | None) -> Ask:
        """Returns a look-up with the question in the request's own words."""
        self._voice.kept.append(question)
        bare = question.rstrip("?？.。 ")
        made = call("files.lookup", question=bare.lower() if self._voice.lower else bare, path=path)
        return Ask("lookup", text, (made,), names_file=True)

    def _document(self) -> Document:
        if not self._world.documents:
            raise Unfit
        return self._rng.choice(self._world.documents)

    def lookup(self) -> Ask:
        """Asks a question that documents answer; with a path only if the request points there."""
        document, voice = self._document(), self._voice
        question = voice.pick(document.kind.questions[voice.lang])
        slots = dict(document.slots)
        if document.lang != voice.lang:
            slots["person"] = self._rng.choice(texts("people")["people", voice.lang])
            slots["day"] = slots["iso"]
        path: str | None = None
        if "{ref}" in question:
            ref = voice.rng.choice(document.kind.refs[voice.lang])
            path = document.path
            if self._rng.random() < 0.35:
                ref = (
                    document.path if self._rng.random() < 0.5 else document.path.rpartition("/")[2]
                )
                voice.kept.append(ref)
            slots["ref"] = ref
        voice.kept.append(slots["person"])
        text = voice.fill(question, **slots)
        return self._looked_up(text, text, path)

    def lookup_in_file(self) -> Ask:
        """Asks a question with the file named beside it."""
        document, voice = self._document(), self._voice
        plain = [q for q in document.kind.questions[voice.lang] if "{ref}" not in q]
        slots = dict(document.slots)
        if document.lang != voice.lang:
            slots["person"] = self._rng.choice(texts("people")["people", voice.lang])
        voice.kept.append(slots["person"])
        question = voice.fill(self._rng.choice(plain), **slots)
        text = voice.mention(question, document.path)
        return self._looked_up(text, question, document.path)

    def lookup_in_folder(self) -> Ask:
        """Asks a question about the documents of one folder."""
        document, voice = self._document(), self._voice
        folder = document.path.rpartition("/")[0]
        plain = [q for q in document.kind.questions[voice.lang] if "{ref}" not in q]
        if not folder:
            raise Unfit
        slots = dict(document.slots)
        if document.lang != voice.lang:
            slots["person"] = self._rng.choice(texts("people")["people", voice.lang])
        voice.kept.append(slots["person"])
        question = voice.fill(self._rng.choice(plain), **slots)
        way = voice.either(
            (
                "In my {f}: {}",
                "Look in {f}: {}",
                "{} (see {f})",
                "{} It should be in {f}.",
                "Search {f}: {}",
            ),
            ("在{f}里找：{}", "{f}里有没有说：{}", "{}（看{f}）", "看{f}：{}", "查{f}：{}"),
        )
        voice.kept.append(folder)
        text = way.replace("{f}", folder).replace("{}", question)
        return self._looked_up(text, question, folder)

    def summary(self) -> Ask:
        document, voice = self._document(), self._voice
        ref = voice.rng.choice(document.kind.refs[voice.lang])
        named = document.path if self._rng.random() < 0.4 else document.path.rpartition("/")[2]
        said = named if self._rng.random() < 0.6 else ref
        voice.kept.append(said)
        kind = "summary" if self._rng.random() < 0.65 else "read"
        return Ask(
            "read",
            self._say(kind, file=said),
            (call("files.read", path=document.path),),
            names_file=True,
        )

    def summary_all(self) -> Ask:
        """Asks for the gist of several files."""
        document, voice = self._document(), self._voice
        folder, _, name = document.path.rpartition("/")
        ending = name.rpartition(".")[2]
        ways = [
            (
                f"*.{ending}",
                voice.either(
                    (f"{ending} files", f".{ending} files"), (f"{ending}文件", f".{ending}文件")
                ),
            )
        ]
        if ending == "md":
            ways.append(("*.md", voice.either(("Markdown files",), ("Markdown文件",))))
        if ending == "pdf":
            ways.append(("*.pdf", voice.either(("PDFs",), ("PDF",))))
        if folder:
            said = voice.either(
                (f"files in {folder}", f"documents in {folder}", f"{folder}"),
                (f"{folder}里的文件", f"{folder}文件夹里的文档", f"{folder}"),
            )
            ways += [(f"{folder}/*", said)] * 3
        pattern, kind = self._rng.choice(ways)
        voice.kept += [folder, kind]
        return Ask(
            "read all",
            self._say("summaryall", kind=kind),
            (call("files.read_all", pattern=pattern),),
            names_file=True,
        )

    def search(self) -> Ask:
        voice = self._voice
        people = texts("people")["people", voice.lang]
        word = voice.either((*_SEARCHED_EN, *people[::4]), (*_SEARCHED_ZH, *people[::4]))
        voice.kept.append(word)
        folders = {path.rpartition("/")[0] for path in self._world.paths} - {""}
        text = self._say("search", x=word)
        folder = self._rng.choice(sorted(folders)) if folders and self._rng.random() < 0.2 else None
        if folder and ".db" not in folder and ".sqlite" not in folder:
            text = text.rstrip("?？")
            text = voice.either(
                (f"{text} in {folder}?", f"{text} (only in {folder})"),
                (f"在{folder}里，{text}", f"{text}（只看{folder}）"),
            )
            voice.kept.append(folder)
        else:
            folder = None
        said = word.lower() if voice.lower else word
        return Ask(
            "search", text, (call("files.search", text=said, folder=folder),), names_file=True
        )

    def log_count(self) -> Ask:
        """Asks for the lines of a log, all or some."""
        world, voice = self._world, self._voice
        if not world.logs:
            raise Unfit
        log = self._rng.choice(world.logs)
        shown = log if self._rng.random() < 0.6 else log.rpartition("/")[2]
        if len(world.logs) == 1 and self._rng.random() < 0.3:
            shown = voice.either(("the log", "the log file"), ("日志", "日志文件"))
        voice.kept.append(shown)
        if self._rng.random() < 0.25:
            return Ask(
                "count lines",
                self._say("lines", file=shown),
                (call("files.count", path=log),),
                names_file=True,
            )
        en, zh, text = voice.pick(_COUNTED)
        word = voice.either(en, zh)
        if self._rng.random() < 0.15:
            return Ask(
                "count lines",
                self._say("errorsall", x=word),
                (call("files.count", path="*.log", text=text),),
                names_file=True,
            )
        made = call("files.count", path=log, text=text)
        return Ask("count lines", self._say("errors", file=shown, x=word), (made,), names_file=True)

    def quoted_count(self) -> Ask:
        """Asks how many lines of some text file hold a quoted text."""
        voice, paths = self._voice, [*self._world.logs, *(d.path for d in self._world.documents)]
        if not paths:
            raise Unfit
        path = self._rng.choice(paths)
        word = voice.either(_SEARCHED_EN, _SEARCHED_ZH)
        voice.kept += [word, path]
        said = word.lower() if voice.lower else word
        text = voice.either(
            (
                f'How many lines of {path} contain "{word}"?',
                f'How often does "{word}" occur in {path}?',
                f'Count "{word}" in {path}',
            ),
            (
                f"{path}里有多少行包含“{word}”？",
                f"“{word}”在{path}里出现几次？",
                f"数一下{path}中的“{word}”",
            ),
        )
        return Ask(
            "count lines", text, (call("files.count", path=path, text=said),), names_file=True
        )

    def log_ask(self) -> Ask:
        if not self._world.logs:
            raise Unfit
        log = self._rng.choice(self._world.logs)
        shown = log if self._rng.random() < 0.5 else log.rpartition("/")[2]
        self._voice.kept.append(shown)
        text = self._say("logask", file=shown)
        return self._looked_up(text, text, log)

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.lookup, 40), (self.lookup_in_file, 10), (self.lookup_in_folder, 6)),
            *((self.summary, 14), (self.summary_all, 6), (self.search, 10)),
            *((self.log_count, 12), (self.quoted_count, 4), (self.log_ask, 6)),
        ]
