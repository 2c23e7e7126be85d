"""Finds the time zone of a city or country by its English or Chinese name."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import available_timezones

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence

_DATA: Final = Path(__file__).with_name("places.json")
_ENDINGS: Final = (" local time", " time zone", " timezone", " time", "时间", "时区", "市")


class _Places(NamedTuple):
    zones: dict[str, str]
    several: dict[str, str]


@cache
def _places() -> _Places:
    """Reads the names once: zones by place, and the cities to choose from by country."""
    data: dict[str, dict[str, str]] = json.loads(_DATA.read_text(encoding="utf-8"))
    zones = {name: zone for zone, names in data["zones"].items() for name in names.split(", ")}
    several = {name: ask for names, ask in data["several"].items() for name in names.split(", ")}
    return _Places(zones, several)


def zone_name(text: str) -> str:
    """Returns the IANA name of the zone that a place has; any other text as it is."""
    name = " ".join(unicodedata.normalize("NFKC", text).casefold().replace("_", " ").split())
    name = name.removeprefix("in ").removeprefix("the ")
    for ending in ("", *_ENDINGS):
        if ending and not name.endswith(ending):
            continue
        found = _zone(name.removesuffix(ending).strip())
        if found:
            return found
    return _in_country(name) or text


def _in_country(name: str) -> str:
    """Returns the zone of a city named with its country: Paris, France or 日本东京."""
    places = _places()
    city, comma, country = (part.strip() for part in name.partition(","))
    if comma:
        # The country decides where it has one zone: San José is in Costa Rica, too.
        return places.zones.get(country) or _of_region(city, country)
    countries = places.zones.keys() | places.several.keys()
    halves = ((name[:at], name[at:]) for at in range(2, len(name) - 1))
    return next((places.zones.get(b, "") for a, b in halves if a in countries), "")


def _of_region(city: str, region: str) -> str:
    """Returns the zone of a city if it can be in that region: Paris, Texas is not Paris."""
    zone, several = _zone(city), _places().several
    near = re.split(", | or ", several[region].casefold()) if region in several else ["new york"]
    # A region that is not known is taken for a state of the Americas, where people name it.
    return (
        zone if zone.partition("/")[0] in {_zone(each).partition("/")[0] for each in near} else ""
    )


def _zone(name: str) -> str:
    places = _places()
    if name in places.several:
        hint = Sentence("name a city, such as {names}", names=places.several[name])
        raise ToolFailed(Sentence("{name} has several time zones", name=name), hint=hint)
    return places.zones.get(name) or _by_last_part().get(name, "")


@cache
def _by_last_part() -> dict[str, str]:
    """Zones by the city in their names, where only one has it."""
    found: dict[str, list[str]] = {}
    for zone in available_timezones():
        if "/" in zone and not zone.startswith(("Etc/", "US/", "posix/", "right/", "SystemV/")):
            last = zone.rpartition("/")[2].replace("_", " ").casefold()
            found.setdefault(last, []).append(zone)
    return {name: zones[0] for name, zones in found.items() if len(zones) == 1}
