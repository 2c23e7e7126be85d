"""What a written program does not use is left out of it."""

from __future__ import annotations

from plansmith.programs.pruning import pruned

PROGRAM = '''
from __future__ import annotations

import json
import re
from os import getcwd, getpid

# How often.
TIMES = 3
# Never used.
OTHER = re.compile("x")


def main() -> None:
    """Begins."""
    Engine().start()


class Engine:
    """Runs."""

    def __init__(self) -> None:
        self.times = TIMES

    # Said at the start.
    def start(self) -> None:
        self._tell(getpid())

    def _tell(self, what: object) -> None:
        print(json.dumps(what))

    @property
    def unused(self) -> str:
        return unused()


def unused() -> str:
    return getcwd()


class Lonely:
    """Nobody makes one."""


SETTINGS = {}
SETTINGS["a"] = 1
main()
'''


def test_a_program_keeps_what_it_uses_and_nothing_else() -> None:
    found = pruned(PROGRAM)
    kept = ("import json", "from os import getpid", "# How often.\nTIMES", "# Said at the start.")
    for text in (*kept, "def main", "def _tell", "SETTINGS = {}", 'SETTINGS["a"]', "__init__"):
        assert text in found
    for text in ("getcwd", "import re", "OTHER", "Never", "unused", "@property", "Lonely"):
        assert text not in found


def test_a_pruned_program_does_what_it_did() -> None:
    said: list[object] = []
    for source in (PROGRAM, pruned(PROGRAM)):
        exec(compile(source, "program", "exec"), {"print": said.append})
    assert len(said) == 2
    assert said[0] == said[1]


def test_a_pruned_program_has_nothing_more_to_leave_out() -> None:
    assert pruned(pruned(PROGRAM)) == pruned(PROGRAM)
