"""Days and months of UTC as whole numbers, and as text.

A day is its number since 1 January 1970, a month is 12 x year + month - 1. The arithmetic is that
of Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that
the leap day is the last, and 400 years have 146,097 days.
"""

from __future__ import annotations

from paceline.core.rates import Day

DAY_US = 86_400_000_000
"""Microseconds in a day of UTC, which knows no leap seconds."""

_ERA_DAYS = 146_097
_EPOCH = 719_468  # days from 1 March of year 0 to 1 January 1970


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day."""
    era, of_era = divmod(day + _EPOCH, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return era * 400 + year + (month <= 2), month, of_year - (153 * from_march + 2) // 5 + 1


def month_of(day: int) -> int:
    """The month that a day is in."""
    year, month, _ = date_of(day)
    return 12 * year + month - 1


def first_day(month: int) -> int:
    """The first day of a month."""
    year, index = divmod(month, 12)
    if index < 2:
        year -= 1
    era, of_era = divmod(year, 400)
    from_march = (index - 2) % 12
    of_year = (153 * from_march + 2) // 5
    return era * _ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _EPOCH


def day_text(day: int) -> Day:
    """A day as rate cards have it: `2026-08-21`."""
    year, month, of_month = date_of(day)
    return f"{year:04}-{month:02}-{of_month:02}"
