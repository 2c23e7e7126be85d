"""Lists of tools that are offered together: few with notes, or as many as a prompt holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, Literal

from lab.training.rows.row import Row
from lab.training.rows.workflow_tools import Dressed, Wardrobe, WorkTool, work_tools
from plansmith.plan.capability import ToolSpec
from plansmith_planner.ranking.pick import shortlist

Size = Literal["few", "many", "near"]
"""Few tools, as many as a prompt holds, or the nearest of many: what the product offers."""
_SIZES: Final[dict[Size, tuple[int, ...]]] = {
    "few": (2, 3, 4, 5, 6, 7, 8, 8, 10, 12),
    "many": (14, 18, 22, 26, 30, 34),
    "near": (18, 24, 30, 40, 60),
}
_NEAREST: Final = (6, 6, 6, 8)
# Tools of one group can stand in for each other.
_ALIKE: Final = (
    frozenset({"mail.send", "chat.post", "chat.message", "sms.send"}),
    frozenset({"files.read", "notes.get", "web.fetch", "mail.latest", "contracts.text"}),
    frozenset({"reminders.set", "alarms.create", "calendar.add", "tasks.add", "timer.start"}),
    frozenset({"calendar.invite", "meetings.schedule", "rooms.reserve", "calendar.add"}),
    frozenset({"people.phone", "people.email", "customers.find"}),
    frozenset({"products.search", "products.price", "cart.add", "inventory.check"}),
    frozenset({"restaurants.find", "restaurants.book", "pizza.order", "recipes.find"}),
    frozenset({"files.save", "tables.export", "slides.make", "charts.line"}),
    frozenset({"math.add", "math.percent", "math.compare", "stats.average", "stats.max"}),
    frozenset({"text.translate", "translate.website", "text.detect_language"}),
    frozenset({"routes.plan", "distance.measure", "taxi.order", "maps.nearby"}),
    frozenset({"pool.temperature", "heating.set", "patients.temperature"}),
    frozenset({"shows.light", "lights.set", "pitches.power"}),
    frozenset({"bakery.recipe", "recipes.find"}),
    frozenset({"salon.appointment", "doctor.appointment", "blood.donate", "meetings.schedule"}),
    frozenset({"ships.arrival", "containers.locate", "shipping.track", "trains.delay"}),
    frozenset({"payroll.find", "patients.find", "customers.find", "people.phone"}),
    frozenset({"salon.price", "products.price", "solar.offer"}),
    frozenset({"courses.upload", "files.copy", "files.save"}),
    frozenset({"cars.available", "bikes.nearby", "taxi.order", "maps.nearby"}),
    frozenset({"stations.play", "stations.count", "music.play", "podcasts.find"}),
    frozenset({"sprinkler.on", "garden.water"}),
    frozenset({"suppers.plan", "suppers.cost", "recipes.find"}),
    frozenset({"parcels.send", "parcels.price", "shipping.track"}),
    frozenset({"crews.halt", "crews.repair", "motor.run", "lifts.report"}),
    frozenset({"classes.timetable", "classes.book", "courses.upload"}),
    frozenset({"flowers.bouquet", "cart.add", "products.search"}),
)


def feeds(first: WorkTool, second: WorkTool) -> bool:
    """Whether the result of one tool is something that another one takes."""
    return bool(first.gives) and any(first.gives in kinds for kinds in second.takes.values())


def can_do(asked: WorkTool, offered: Sequence[WorkTool]) -> bool:
    """Whether a tool of a list could do what another tool is asked for."""
    area = asked.name.partition(".")[0]
    names = {each.name for each in offered}
    near = {name for group in _ALIKE if asked.name in group for name in group}
    return bool(names & {asked.name, *near}) or any(
        name.partition(".")[0] == area for name in names
    )


def some_tools(rng: Random, size: Size) -> list[WorkTool]:
    """Returns some tools, often with those that give what they take."""
    count = rng.choice(_SIZES[size])
    every = work_tools()
    chosen: dict[str, WorkTool] = {}
    while len(chosen) < count:
        tool = rng.choice(every)
        chosen[tool.name] = tool
        if tool.takes and rng.random() < 0.75:
            giving = rng.choice([each for each in every if feeds(each, tool)])
            chosen[giving.name] = giving
        if tool.gives and rng.random() < 0.4:
            taking = [each for each in every if feeds(tool, each)]
            chosen |= {each.name: each for each in (rng.choice(taking),) if taking}
    found = list(chosen.values())
    rng.shuffle(found)
    return found


def dressed_tools(rng: Random, tools: Sequence[WorkTool], lang: str) -> list[Dressed]:
    """Returns tools in one style, without two of the same name."""
    wardrobe = Wardrobe(rng, lang)
    found: dict[str, Dressed] = {}
    for each in tools:
        made = wardrobe.dressed(each)
        found.setdefault(made.name, made)
    return list(found.values())


def nearest_offered(rng: Random, row: Row) -> Row:
    """Returns a row with the tools that the product's shortlist picks, and those it needs."""
    given = [each for each in row.tools if not isinstance(each, str)]
    specs = [ToolSpec(**each) for each in given]
    names = {pick.name for pick in shortlist(row.request, specs, rng.choice(_NEAREST))}
    names |= {str(call["tool"]) for call in row.calls}
    return replace(row, tools=tuple(each for each in given if each["name"] in names))
