"""What a module of `cli.commands` offers: a command made of two functions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple


class FileCommand(NamedTuple):
    """A command made of two functions."""

    configure: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int]
