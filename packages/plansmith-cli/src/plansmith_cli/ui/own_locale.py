"""The person's language, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping


def own_locale(environment: Mapping[str, str] | None = None) -> str:
    """Returns the person's language from the environment, such as `zh-CN`."""
    given = os.environ if environment is None else environment
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    found = next((given[name] for name in names if given.get(name)), "en")
    return found.partition(".")[0].replace("_", "-")
