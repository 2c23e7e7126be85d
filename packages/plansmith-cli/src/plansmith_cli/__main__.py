"""`python -m plansmith` is the command line."""

import os
import sys

from plansmith_cli.main import program

# `-m` would import whatever lies in the working folder, which may be a stranger's.
if sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - as Python put it there
    del sys.path[0]

if __name__ == "__main__":
    program()
