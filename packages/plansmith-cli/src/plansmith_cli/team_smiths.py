"""Finds the Plansmith that continues a run; makes the teams of runs when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from plansmith.errors import Misconfigured, OtherTeam, PlansmithError
from plansmith.lazy import lazy_modules
from plansmith.plan.run_options import Team, TeamName
from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.plan.data import Json
    from plansmith.plan.run import Run
    from plansmith.ports import ChatModel
    from plansmith_cli import extras, teams
    from plansmith_cli.config import Settings
else:
    lazy_modules(globals(), extras="plansmith_cli.extras", teams="plansmith_cli.teams")

_MOST_KNOWN: Final = 10_000


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
        self._smith = smith
        self._settings = settings
        self._tell = tell
        self._model = model
        self._made: dict[Team, Plansmith] = {}
        self._without_team: set[str] = set()

    async def of_id(self, run_id: str) -> Plansmith:
        """Returns the Plansmith of a run by its id; the team of a run never changes."""
        if run_id in self._without_team:
            return self._smith
        run = (await self._smith.runs.journals.load(run_id)).run
        if run.options.team is None:
            if len(self._without_team) >= _MOST_KNOWN:
                self._without_team.clear()
            self._without_team.add(run_id)
        return self.of(run)

    def of(self, run: Run) -> Plansmith:
        """Returns the Plansmith of a run; raises `OtherTeam` if its team cannot be made here."""
        team, own = run.options.team, self._smith.runs.journals.team
        if team is None or (own is not None and own.name == team.name):
            return self._smith
        return self.of_team(team, needed_by=Sentence("run {run}", run=run.id))

    def of_team(self, team: Team, *, needed_by: str) -> Plansmith:
        """Returns the Plansmith of a team; raises `OtherTeam` if it cannot be made here."""
        if team not in self._made:
            try:
                self._made[team] = self._make(team)
            except PlansmithError as error:
                problem = Sentence(
                    "{what} needs the {team} team, which cannot be made here: {why}",
                    what=needed_by,
                    team=team.name,
                    why=error.message,
                )
                raise OtherTeam(problem, hint=error.hint) from None
        return self._made[team]

    def _make(self, team: Team) -> Plansmith:
        try:
            rebuild = teams.rebuild
        except ImportError as error:
            raise Misconfigured(str(error), hint=extras.install_hint("all")) from None
        return rebuild(
            team, self._settings, store=self._smith.store, model=self._model, tell=self._tell
        )

    def of_name(self, name: TeamName, database: str = "") -> Plansmith:
        """Returns the Plansmith of a team of these settings, for a new run."""
        documents = tuple(str(each.resolve()) for each in self._settings.documents)
        team = Team(name=name, documents=documents)
        if name == "data":
            team = team.replace(**self._database(database))
        return self.of_team(team, needed_by=Sentence("the request"))

    def _database(self, name: str) -> dict[str, Json]:
        """Returns the fields of a team about a database of the settings."""
        known = self._settings.builtin.databases
        if name not in known:
            none = Sentence("hint.none_known")
            hint = Sentence(
                "name one of [builtin.databases] in the settings: {names}", names=[*known] or none
            )
            raise Misconfigured(Sentence("there is no database '{name}'", name=name), hint=hint)
        address = teams.without_password(known[name])
        return {"database": address, "password_needed": address != known[name]}

    def all(self) -> list[Plansmith]:
        """Returns our own Plansmith and those of the teams that were made."""
        return [self._smith, *self._made.values()]

    async def close(self) -> None:
        """Closes every team that was made."""
        for each in self._made.values():
            await each.close()
