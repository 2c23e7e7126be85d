"""Reads a single key from the terminal."""

from __future__ import annotations

import os
import sys

from plansmith.cli.questions import interruptible

if sys.platform == "win32":
    import msvcrt
else:
    import termios
    import tty


def read_key(prompt: str) -> str:
    """Shows a prompt, waits for a key and returns it, without showing it; Ctrl-C raises.

    Drops what was typed before. The end of input counts as `q`.
    """
    if sys.platform == "win32":
        _show(prompt)
        key = msvcrt.getwch()
        if key == "\x03":
            raise KeyboardInterrupt
        return key
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        # Before the prompt is shown: whoever sees it may press a key or Ctrl-C at once.
        with interruptible():
            tty.setcbreak(handle, termios.TCSAFLUSH)
            _show(prompt)
            typed = os.read(handle, 16)  # the rest of an arrow key's sequence goes with it
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
    return typed.decode("utf-8", "replace") if typed not in (b"", b"\x04") else "q"


def _show(prompt: str) -> None:
    sys.stdout.write(prompt)
    sys.stdout.flush()
