from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from paceline.core.days import date_of, day_text, first_day, month_of

EPOCH = date(1970, 1, 1)


@given(st.dates())
def test_days_are_those_of_the_calendar(day: date) -> None:
    number = (day - EPOCH).days
    assert date_of(number) == (day.year, day.month, day.day)
    assert day_text(number) == day.isoformat()
    assert month_of(number) == 12 * day.year + day.month - 1
    assert EPOCH + timedelta(first_day(month_of(number))) == day.replace(day=1)
