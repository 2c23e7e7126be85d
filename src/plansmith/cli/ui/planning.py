"""Shows how planning goes on: lines with -v, else one moving line on a terminal."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from plansmith.cli.ui.progress import Lines, is_stage
from plansmith.cli.ui.width import clip_width
from plansmith.text import safe

if TYPE_CHECKING:
    from plansmith.cli.options import Detail
    from plansmith.cli.ui.words import Words

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_S: Final = 0.1


class PlanningProgress(Lines):
    """Tells what the planner does, as much of it as the person wants to read."""

    def __init__(
        self, words: Words, stream: TextIO | None = None, *, detail: Detail = "normal"
    ) -> None:
        super().__init__(words, stream)
        self._detail: Detail = detail
        self._lock = threading.RLock()
        self._text = words["thinking"]
        self._is_moving = False

    def say(self, text: str) -> None:
        """Writes a line; a stage of planning only where it is wanted, else into the moving line."""
        if is_stage(text) and self._detail != "verbose":
            self._text = text
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
        terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        if self._detail != "normal" or not terminal or self._is_moving:
            yield
            return
        # A thread: the event loop may be busy with the very work that is shown.
        ended = threading.Event()
        drawing = threading.Thread(target=self._draw_until, args=(ended,), daemon=True)
        self._is_moving, self._text = True, self._words["thinking"]
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
        begun = time.monotonic()
        for frame in itertools.cycle(_FRAMES):
            passed = int(time.monotonic() - begun)
            width = shutil.get_terminal_size().columns - 1
            line = f"{frame} {passed // 60:02d}:{passed % 60:02d} {safe(self._text)}"
            with self._lock:
                self._stream.write(f"\r\x1b[K{clip_width(line, width)}")
                self._stream.flush()
            if ended.wait(_TICK_S):
                return

    def _erase(self) -> None:
        if self._is_moving:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
