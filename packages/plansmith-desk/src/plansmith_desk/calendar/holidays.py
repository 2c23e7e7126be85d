"""Days that have a name, in English and Chinese, by year."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

ByYear = Callable[[int], date | None]


def _fixed(month: int, day: int) -> ByYear:
    return lambda year: date(year, month, day)


def _weekday(month: int, weekday: int, nth: int, *, later: int = 0) -> ByYear:
    """The nth weekday (Monday is 0) of a month, or some days later."""

    def found(year: int) -> date:
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (nth - 1) + later)

    return found


def _easter(days: int) -> ByYear:
    """Days after Easter Sunday, by the Gregorian rule."""

    def found(year: int) -> date:
        a, b, c = year % 19, year // 100, year % 100
        d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
        e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
        month, day = divmod(d + e - 7 * ((a + 11 * d + 22 * e) // 451) + 114, 31)
        return date(year, month, day + 1) + timedelta(days=days)

    return found


_FIRST_LUNAR: Final = 2025
# The lunar calendar has no short rule: these are its days from 2025 to 2035.
_LUNAR: Final = {
    "spring": "0129 0217 0206 0126 0213 0203 0123 0211 0131 0219 0208",
    "dragon": "0531 0619 0609 0528 0616 0605 0624 0612 0601 0620 0610",
    "autumn": "1006 0925 0915 1003 0922 0912 1001 0919 0908 0927 0916",
}


def _lunar(name: str, days: int = 0) -> ByYear:
    listed = _LUNAR[name].split()

    def found(year: int) -> date | None:
        place = year - _FIRST_LUNAR
        if not 0 <= place < len(listed):
            return None
        month, day = int(listed[place][:2]), int(listed[place][2:])
        return date(year, month, day) + timedelta(days=days)

    return found


def _named(*groups: tuple[str, ByYear]) -> dict[str, ByYear]:
    return {name.strip(): rule for names, rule in groups for name in names.split(",")}


HOLIDAYS: Final = _named(
    ("new year, new year's day, new years day, new years, 元旦, 新年", _fixed(1, 1)),
    ("valentine's day, valentines day, valentine's, 情人节", _fixed(2, 14)),
    ("women's day, international women's day, 妇女节, 三八节", _fixed(3, 8)),
    ("st patrick's day, st. patrick's day, saint patrick's day", _fixed(3, 17)),
    ("april fools, april fools day, april fools' day, april fool's day, 愚人节", _fixed(4, 1)),
    ("may day, international workers' day, 劳动节, 五一, 五一节", _fixed(5, 1)),
    ("children's day, 儿童节, 六一", _fixed(6, 1)),
    ("independence day, fourth of july, the fourth of july", _fixed(7, 4)),
    ("bastille day", _fixed(7, 14)),
    ("teachers' day, 教师节", _fixed(9, 10)),
    ("china's national day, 国庆, 国庆节, 十一国庆节", _fixed(10, 1)),
    ("halloween, 万圣节, 万圣夜", _fixed(10, 31)),
    ("singles' day, singles day, 双十一, 光棍节", _fixed(11, 11)),
    ("christmas eve, xmas eve, 平安夜", _fixed(12, 24)),
    ("christmas, christmas day, xmas, 圣诞, 圣诞节", _fixed(12, 25)),
    ("boxing day", _fixed(12, 26)),
    ("new year's eve, new years eve, nye, 跨年, 跨年夜", _fixed(12, 31)),
    ("end of the year, end of year, year end, year's end, 年底, 年末", _fixed(12, 31)),
    ("mother's day, mothers day, 母亲节", _weekday(5, 6, 2)),
    ("father's day, fathers day, 父亲节", _weekday(6, 6, 3)),
    ("thanksgiving, thanksgiving day, 感恩节", _weekday(11, 3, 4)),
    ("black friday, 黑色星期五", _weekday(11, 3, 4, later=1)),
    ("good friday, 耶稣受难日", _easter(-2)),
    ("easter, easter sunday, 复活节", _easter(0)),
    ("easter monday", _easter(1)),
    (
        "chinese new year, lunar new year, spring festival, 春节, 农历新年, 大年初一",
        _lunar("spring"),
    ),
    ("chinese new year's eve, 除夕, 大年三十", _lunar("spring", -1)),
    ("lantern festival, 元宵节", _lunar("spring", 14)),
    ("dragon boat festival, 端午节, 端午", _lunar("dragon")),
    ("mid-autumn festival, moon festival, 中秋节, 中秋", _lunar("autumn")),
)
