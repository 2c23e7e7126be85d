"""Numbers of a range as expressions of a grammar, digit by digit."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 15  # digits: beyond this a number is no longer exact everywhere


def whole_range(low: int | None, high: int | None) -> str:
    """An expression for exactly the whole numbers from `low` to `high`; None is no limit."""
    least = -(10**_LONGEST) + 1 if low is None else low
    most = 10**_LONGEST - 1 if high is None else high
    if least > most:
        return ""
    parts: list[str] = []
    if least < 0:
        below = _between(max(1, -most), -least)
        parts.append(f'"-" ({below})')
    if least <= 0 <= most:
        parts.append('"0"')
    if most > 0:
        parts.append(_between(max(1, least), most))
    return " | ".join(parts)


def number_range(low: int | None, high: int | None) -> str:
    """An expression for numbers from `low` to `high`, with fractions; whole limits only."""
    parts: list[str] = []
    if low is None or low < 0:
        sizes = _sizes(max(0, -high) if high is not None else 0, None if low is None else -low)
        parts += [f'"-" ({sizes})'] if sizes else []
    if high is None or high >= 0:
        sizes = _sizes(max(0, low or 0), high)
        parts += [sizes] if sizes else []
    return " | ".join(parts)


def _sizes(least: int, most: int | None) -> str:
    """Numbers without a sign; a fraction leads on from a whole number, so not from the last."""
    inner = whole_range(least, None if most is None else most - 1)
    parts = [f'({inner}) ("." [0-9]{{1,12}})?'] if inner else []
    if most is not None and most >= least:
        parts.append(f'"{most}"')
    return " | ".join(parts)


def _between(low: int, high: int) -> str:
    """The numbers between two positive ones, by their number of digits."""
    parts: list[str] = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = str(max(low, 10 ** (length - 1)))
        last = str(min(high, 10**length - 1))
        parts.append(_digits(first, last))
    return " | ".join(parts)


def _digits(low: str, high: str) -> str:
    """The texts of digits between two of the same length."""
    if low == high:
        return f'"{low}"'
    if low == "0" * len(low) and high == "9" * len(high):
        return f"[0-9]{{{len(low)}}}"
    if len(low) == 1:
        return f"[{low}-{high}]"
    if low[0] == high[0]:
        return f'"{low[0]}" ({_digits(low[1:], high[1:])})'
    return _spread(low, high)


def _spread(low: str, high: str) -> str:
    """Texts whose first digits differ: the lowest ones, those between, the highest ones."""
    rest = len(low) - 1
    zeros, nines = "0" * rest, "9" * rest
    parts: list[str] = []
    start, end = int(low[0]), int(high[0])
    if low[1:] != zeros:
        parts.append(f'"{low[0]}" ({_digits(low[1:], nines)})')
        start += 1
    if high[1:] != nines:
        end -= 1
    if start <= end:
        parts.append(f"[{start}-{end}] [0-9]{{{rest}}}")
    if high[1:] != nines:
        parts.append(f'"{high[0]}" ({_digits(zeros, high[1:])})')
    return " | ".join(parts)
