"""Ctrl-C at a prompt, pressed the moment the prompt is seen."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.terminal import Terminal

PROMPTS = 40
PROGRAM = f"""
import readline
from plansmith_cli.keyboard import interruptible
for number in range({PROMPTS}):
    try:
        with interruptible():
            input(f"prompt {{number}}> ")
    except KeyboardInterrupt:
        print(f"stopped {{number}}", flush=True)
"""


def test_no_ctrl_c_at_a_prompt_is_lost_however_soon_it_comes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with Terminal(command, folder=tmp_path, environment={}, rows=4 * PROMPTS) as terminal:
        for number in range(PROMPTS):
            terminal.until(f"prompt {number}>")
            terminal.ctrl_c()
            terminal.until(f"stopped {number}")
        assert terminal.ended() == 0
