"""Finds the Plansmith that continues a run; makes the teams of runs when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from plansmith.errors import OtherTeam, PlansmithError
from plansmith.lazy import lazy_modules
from plansmith.plan.run_options import Team, TeamName
from plansmith.plan.sentence import Sentence
from plansmith_cli.ui.output import wrong

if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.plan.run import Run
    from plansmith.ports import ChatModel
    from plansmith_cli import extras, teams
    from plansmith_cli.config import Settings
else:
    lazy_modules(globals(), extras="plansmith_cli.extras", teams="plansmith_cli.teams")


def _cannot(what: str, team: Team, why: str) -> Sentence:
    return Sentence(
        "{what} needs the {team} team, which cannot be made here: {why}",
        what=what,
        team=team.name,
        why=why,
    )


class TeamSmiths:
    """Finds the Plansmith that continues a run: ours, or that of the run's team.

    Makes a team on the same store when its first run comes, and keeps it.
    """

    def __init__(
        self,
        smith: Plansmith,
        settings: Settings,
        *,
        tell: Callable[[str], None] = lambda _: None,
        model: ChatModel | None = None,
    ) -> None:
        self._smith, self._settings, self._tell, self._model = smith, settings, tell, model
        self._made: dict[Team, Plansmith] = {}
        self._without_team: set[str] = set()

    async def of_id(self, run_id: str) -> Plansmith:
        """Returns the Plansmith of a run by its id; the team of a run never changes."""
        if run_id in self._without_team:
            return self._smith
        run = (await self._smith.runs.journals.load_verified(run_id)).run
        if run.options.team is None:
            if len(self._without_team) >= 10_000:
                self._without_team.clear()
            self._without_team.add(run_id)
        return self.of(run)

    def of(self, run: Run) -> Plansmith:
        team, own = run.options.team, self._smith.runs.journals.team
        if team is None or (own is not None and own.name == team.name):
            return self._smith
        return self.of_team(team, needed_by=Sentence("run {run}", run=run.id))

    def of_team(self, team: Team, *, needed_by: str) -> Plansmith:
        if team not in self._made:
            try:
                self._made[team] = teams.rebuild(
                    team,
                    self._settings,
                    store=self._smith.store,
                    model=self._model,
                    tell=self._tell,
                )
            except ImportError as error:
                hint = extras.install_hint("all")
                raise OtherTeam(_cannot(needed_by, team, str(error)), hint=hint) from None
            except PlansmithError as error:
                problem = _cannot(needed_by, team, error.message)
                raise OtherTeam(problem, hint=error.hint) from None
        return self._made[team]

    def of_name(self, name: TeamName, database: str = "") -> Plansmith:
        documents = tuple(str(each.resolve()) for each in self._settings.documents)
        team = Team(name=name, documents=documents)
        if name == "data":
            known = self._settings.builtin.databases
            if database not in known:
                hint = Sentence(
                    "name one of [builtin.databases] in the settings: {names}",
                    names=[*known] or Sentence("hint.none_known"),
                )
                raise wrong("there is no database '{name}'", hint=hint, name=database)
            address = teams.without_password(known[database])
            needed = address != known[database]
            team = team.replace(database=address, password_needed=needed)
        return self.of_team(team, needed_by=Sentence("the request"))

    def all(self) -> list[Plansmith]:
        return [self._smith, *self._made.values()]

    async def close(self) -> None:
        for each in self._made.values():
            await each.close()
