"""Shows how planning goes on: lines with -v, else one moving line on a terminal."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal, TextIO

from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import safe
from plansmith_cli.ui.progress import Lines, is_stage
from plansmith_cli.ui.width import clip_width

Detail = Literal["quiet", "normal", "verbose"]
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_S: Final = 0.1
# Off a terminal: the first line comes after so long, the next ones at growing intervals.
_FIRST_LINE_S: Final = 5.0
_LAST_LINE_S: Final = 60.0


class PlanningProgress(Lines):
    """Tells what the planner does, as much of it as the person wants to read."""

    def __init__(
        self, locale: str, stream: TextIO | None = None, *, detail: Detail = "normal"
    ) -> None:
        super().__init__(locale, stream)
        self._detail: Detail = detail
        self._lock = threading.RLock()
        self._text = in_language(Sentence("planning"), locale)
        self._is_moving = False
        self._frame, self._begun = _FRAMES[0], 0.0

    def say(self, text: str) -> None:
        """Writes a line; a stage of planning only where it is wanted, else into the moving line."""
        if is_stage(text) and self._detail != "verbose":
            self._text = text
            # At once: loading a model may keep the drawing thread from its next turn for seconds.
            self._draw()
        elif self._detail != "quiet":
            with self.cleared():
                super().say(text)

    @contextmanager
    def cleared(self) -> Generator[None]:
        """Removes the moving line, so that another line can be written in its place."""
        with self._lock:
            self._erase()
            yield

    @contextmanager
    def moving(self) -> Generator[None]:
        """Shows on a terminal that work goes on, also while a model says nothing."""
        if self._detail != "normal" or self._is_moving:
            yield
            return
        terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        # A thread: the event loop may be busy with the very work that is shown.
        ended = threading.Event()
        work = self._draw_until if terminal else self._write_until
        drawing = threading.Thread(target=work, args=(ended,), daemon=True)
        self._is_moving, self._text = terminal, in_language(Sentence("planning"), self._locale)
        self._begun = time.monotonic()
        drawing.start()
        try:
            yield
        finally:
            ended.set()
            drawing.join()
            with self._lock:
                self._erase()
                self._is_moving = False

    def _draw_until(self, ended: threading.Event) -> None:
        for self._frame in itertools.cycle(_FRAMES):
            self._draw()
            if ended.wait(_TICK_S):
                return

    def _draw(self) -> None:
        """Draws the moving line, if there is one."""
        with self._lock:
            if not self._is_moving:
                return
            passed = int(time.monotonic() - self._begun)
            width = shutil.get_terminal_size().columns - 1
            line = f"{self._frame} {passed // 60:02d}:{passed % 60:02d} {safe(self._text)}"
            self._stream.write(f"\r\x1b[K{clip_width(line, width)}")
            self._stream.flush()

    def _write_until(self, ended: threading.Event) -> None:
        """Writes a line now and then if planning takes long, for who reads a pipe or a log."""
        pause = _FIRST_LINE_S
        while not ended.wait(pause):
            super().say(self._text)
            pause = min(2 * pause, _LAST_LINE_S)

    def _erase(self) -> None:
        if self._is_moving:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
