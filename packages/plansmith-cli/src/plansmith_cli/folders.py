"""Finds the user's folders: for data, for what may be lost, and for settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the user's data folder, which holds runs, approvals and agent cards."""
    return _own_folder(environment, "XDG_DATA_HOME", ".local/share")


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the user's folder for what may be lost, such as the lines typed in a chat."""
    return _own_folder(environment, "XDG_STATE_HOME", ".local/state")


def config_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of the user's own settings."""
    return _own_folder(environment, "XDG_CONFIG_HOME", ".config")


def _own_folder(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get(variable) or home / usual) / "plansmith"
