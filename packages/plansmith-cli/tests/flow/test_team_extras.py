"""A team whose parts are not installed: the error says what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from plansmith import Plansmith, Run
from plansmith.errors import OtherTeam
from plansmith.plan.run_options import RunOptions, Team
from plansmith_cli.config import Settings
from plansmith_cli.team_smiths import TeamSmiths


async def test_a_missing_extra_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plansmith_cli.teams", None)
    async with Plansmith() as smith:
        teams = TeamSmiths(smith, Settings())
        team = Team(name="research", documents=(str(tmp_path),))
        with pytest.raises(OtherTeam, match="research team, which cannot be made") as caught:
            teams.of(Run(id="r", options=RunOptions(team=team)))
        assert "pip install" in caught.value.hint
        assert teams.of(Run(id="plain")) is smith
