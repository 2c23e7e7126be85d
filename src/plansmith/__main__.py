"""`python -m plansmith` is the command line."""

import sys

from plansmith.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
