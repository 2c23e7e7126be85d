"""Requests that do several things with files in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import Call, call
from lab.training.rows.voice import Voice
from lab.training.rows.world import World

_FOLDERS_EN: Final = ("archive", "old", "backup", "done", "reports", "2025", "to check", "safe")
_FOLDERS_ZH: Final = ("归档", "旧文件", "备份", "已完成", "报告", "2025", "待查")
_LOOSE: Final = (".png", ".jpg", ".zip", ".mp3", ".mp4", ".svg", ".xlsx", ".pptx")


class FileSetAsker:
    """Asks for the same deed with two or three files, or for two deeds with one."""

    def __init__(self, world: World, voice: Voice) -> None:
        self._voice, self._rng = voice, voice.rng
        files = [each for each in world.paths if ".db/" not in each and ".sqlite/" not in each]
        self._files = [each for each in files if "IGNORE" not in each and "urgent" not in each]

    def _some(self, *, texts_only: bool = False) -> list[str]:
        """Returns two or three files whose last names differ."""
        known = [each for each in self._files if not (texts_only and each.endswith(_LOOSE))]
        last = {each.rpartition("/")[2]: each for each in known}
        count = self._rng.choice((2, 2, 3))
        if len(last) < count:
            raise Unfit
        return self._rng.sample(sorted(last.values()), count)

    def _said(self, paths: list[str]) -> str:
        """Returns files as a list in words."""
        short = self._rng.random() < 0.4
        names = [each.rpartition("/")[2] if short else each for each in paths]
        self._voice.kept += names
        if self._voice.is_zh:
            return "、".join(names[:-1]) + self._rng.choice(("和", "、", "以及")) + names[-1]
        return ", ".join(names[:-1]) + self._rng.choice((" and ", " and ", ", ")) + names[-1]

    def _folder(self) -> str:
        return self._voice.exact(self._voice.either(_FOLDERS_EN, _FOLDERS_ZH))

    def _ask(self, kind: str, text: str, calls: list[Call]) -> Ask:
        return Ask(kind, text, tuple(calls), names_file=True)

    def moved(self) -> Ask:
        paths, folder = self._some(), self._folder()
        said = self._said(paths)
        copied = self._rng.random() < 0.35
        text = self._voice.either(
            (f"Copy {said} to {folder}", f"Put copies of {said} into {folder}")
            if copied
            else (f"Move {said} to {folder}", f"Put {said} into the folder {folder}"),
            (f"把{said}复制到{folder}", f"在{folder}里备份{said}")
            if copied
            else (f"把{said}移到{folder}", f"将{said}都放进{folder}文件夹"),
        )
        tool = "files.copy" if copied else "files.move"
        calls = [call(tool, path=each, to=f"{folder}/{each.rpartition('/')[2]}") for each in paths]
        return self._ask("several files", text, calls)

    def deleted(self) -> Ask:
        paths = self._some()
        said = self._said(paths)
        text = self._voice.either(
            (f"Delete {said}", f"Remove the files {said}", f"Get rid of {said}"),
            (f"删除{said}", f"把{said}都删掉", f"{said}不要了，删掉"),
        )
        return self._ask("several files", text, [call("files.delete", path=each) for each in paths])

    def counted(self) -> Ask:
        paths = self._some(texts_only=True)
        if any(each.endswith((".csv", ".tsv", ".json", ".jsonl")) for each in paths):
            raise Unfit
        said = self._said(paths)
        text = self._voice.either(
            (f"How many lines do {said} have?", f"Count the lines of {said}"),
            (f"{said}各有多少行？", f"数一下{said}的行数"),
        )
        return self._ask("several files", text, [call("files.count", path=each) for each in paths])

    def kept(self) -> Ask:
        """Makes a copy, then changes the file itself."""
        path = self._rng.choice(self._some())
        base, _, name = path.rpartition("/")
        folder, said = self._folder(), self._said_one(path)
        stem, _, ending = name.rpartition(".")
        if not stem:
            raise Unfit
        new = self._voice.exact(f"{stem}{self._rng.choice(('_old', '-2', '_v2'))}.{ending}")
        copy = call("files.copy", path=path, to=f"{folder}/{name}")
        roll = self._rng.random()
        if roll < 0.5:
            text = self._voice.either(
                (f"Copy {said} to {folder}, then delete the original {said}",)
                if roll < 0.25
                else (f"Back up {said} in {folder} and delete it here",),
                (f"把{said}复制到{folder}，然后删除原来的{said}",)
                if roll < 0.25
                else (f"先把{said}备份到{folder}，再删掉它",),
            )
            return self._ask("several files", text, [copy, call("files.delete", path=path)])
        target = f"{base}/{new}" if base else new
        text = self._voice.either(
            (f"Copy {said} to {folder} and rename the original to {new}",),
            (f"把{said}复制到{folder}，原文件改名为{new}",),
        )
        return self._ask("several files", text, [copy, call("files.move", path=path, to=target)])

    def _said_one(self, path: str) -> str:
        said = path if self._rng.random() < 0.6 else path.rpartition("/")[2]
        self._voice.kept.append(said)
        return said

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [(self.moved, 6), (self.deleted, 4), (self.counted, 3), (self.kept, 3)]
