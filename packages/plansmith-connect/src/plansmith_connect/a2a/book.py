"""Stores the agents that a person added by address, one small file each."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from plansmith.errors import Misconfigured
from plansmith.files import replace_file
from plansmith.plan.sentence import Sentence
from plansmith_connect.a2a.settings import NAME, AgentSettings, check_name


class AgentBook:
    """A folder of agents that only its owner can read; sees changes by other processes at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def agents(self) -> dict[str, AgentSettings]:
        """Returns all stored agents by name."""
        found = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        return {path.stem: _read(path) for path in found if NAME.fullmatch(path.stem)}

    def put(self, name: str, settings: AgentSettings) -> None:
        """Stores an agent; replaces an older entry of the same name."""
        path = self._folder / f"{check_name(name)}.json"
        text = json.dumps(settings.to_json(), indent=2, sort_keys=True, ensure_ascii=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, text + "\n")
        except OSError as error:
            raise Misconfigured(
                Sentence("{path} cannot be written: {error}", path=path, error=error)
            ) from None

    def remove(self, name: str) -> None:
        """Removes an agent; does nothing if it is not stored."""
        (self._folder / f"{check_name(name)}.json").unlink(missing_ok=True)


def _read(path: Path) -> AgentSettings:
    try:
        return AgentSettings.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        why = str(error).splitlines()[0]
        raise Misconfigured(
            Sentence("{path} cannot be read: {error}", path=path, error=why),
            hint=Sentence("correct or remove it"),
        ) from None
