"""Reads the folders that `lab.training.pack` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def read_index(folder: Path) -> dict[str, Any]:
    """Returns the sizes of the network, the names of the pieces and where each tensor lies."""
    found: dict[str, Any] = json.loads((folder / "index" / "index.json").read_text("utf-8"))
    return found


def read_raw(folder: Path) -> npt.NDArray[np.uint8]:
    """Returns all pieces as one run of bytes."""
    files = [folder / name / "weights" for name in read_index(folder)["pieces"]]
    missing = [str(each) for each in files if not each.exists()]
    if missing:
        raise FileNotFoundError(f"pieces are missing, bring them first: {', '.join(missing)}")
    return np.concatenate([np.fromfile(each, dtype=np.uint8) for each in files])
