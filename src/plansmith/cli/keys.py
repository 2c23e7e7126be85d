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


def read_key() -> str:
    """Waits for a key and returns it, without showing it; Ctrl-C raises.

    Drops what was typed before. The end of input counts as `q`.
    """
    if sys.platform == "win32":
        key = msvcrt.getwch()
        if key == "\x03":
            raise KeyboardInterrupt
        return key
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSAFLUSH)
        with interruptible():
            typed = os.read(handle, 16)  # the rest of an arrow key's sequence goes with it
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
    return typed.decode("utf-8", "replace") if typed not in (b"", b"\x04") else "q"
