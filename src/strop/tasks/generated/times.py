"""Dates and times of day. The level sets how far apart they lie."""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date, timedelta
from random import Random

from strop.tasks.generated.logic import DAYS
from strop.tasks.generated.problem import Problem

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1900, 2100


def _clock(minutes: int) -> str:
    return f"{minutes // 60 % 24}:{minutes % 60:02}"


def _day(draw: Random, year: int | None = None) -> date:
    return date(year or draw.randrange(FIRST_YEAR, LAST_YEAR), 1, 1) + timedelta(days=draw.randrange(365))


def month_after(draw: Random, level: int) -> Problem:
    place, step = draw.randrange(12), draw.randrange(1, (5, 12, 24, 60, 200)[level - 1])
    after = draw.random() < 0.5
    there = MONTHS[(place + (step if after else -step)) % 12]
    months = "1 month" if step == 1 else f"{step} months"
    return Problem(f"Which month is {months} {'after' if after else 'before'} {MONTHS[place]}?", there)


def clock_after(draw: Random, level: int) -> Problem:
    start = draw.randrange(6 * 60, 18 * 60, (10, 5, 1, 1, 1)[level - 1])
    step = draw.randrange(5, (30, 60, 90, 240, 600)[level - 1], (5, 5, 1, 1, 1)[level - 1])
    return Problem(f"What time is it {step} minutes after {_clock(start)}?", _clock(start + step))


def minutes_between(draw: Random, level: int) -> Problem:
    start = draw.randrange(6 * 60, 18 * 60, (10, 5, 1, 1, 1)[level - 1])
    step = draw.randrange(5, (30, 60, 90, 240, 600)[level - 1], (5, 5, 1, 1, 1)[level - 1])
    return Problem(f"How many minutes are from {_clock(start)} to {_clock(start + step)}?", str(step))


def clock_24(draw: Random, level: int) -> Problem:
    minutes = draw.randrange(0, 24 * 60, (15, 10, 5, 1, 1)[level - 1])
    hour = minutes // 60
    half, shown = ("am" if hour < 12 else "pm"), f"{(hour - 1) % 12 + 1}:{minutes % 60:02}"
    if level == 5 and draw.random() < 0.5:
        return Problem(f"Write {_clock(minutes)} with am or pm.", f"{shown} {half}")
    return Problem(f"Write {shown} {half} as a 24-hour time.", _clock(minutes))


def days_between(draw: Random, level: int) -> Problem:
    start = _day(draw, 2023)
    if level < 3:
        start = start.replace(day=draw.randrange(1, 15))
    step = draw.randrange(1, (10, 14, 40, 100, 300)[level - 1])
    end = start + timedelta(days=step)
    if end.year > start.year:
        return days_between(draw, level)
    shown = [f"{MONTHS[d.month - 1]} {d.day}" for d in (start, end)]
    return Problem(f"How many days are from {shown[0]} to {shown[1]} of one year (no leap year)?", str(step))


def days_of_month(draw: Random, level: int) -> Problem:
    month, year = draw.randrange(12), draw.randrange(FIRST_YEAR, LAST_YEAR)
    if level >= 3 and draw.random() < 0.5:
        month = 1
    return Problem(f"How many days has {MONTHS[month]} {year}?", str(monthrange(year, month + 1)[1]))


def leap_year(draw: Random, level: int) -> Problem:
    year = draw.randrange(*((1980, 2080), (1900, 2100), (1600, 2400), (1000, 3000), (100, 9900))[level - 1])
    year = year - year % (100 if level >= 3 and draw.random() < 0.5 else 4 if draw.random() < 0.4 else 1)
    return Problem(f"Is {year} a leap year? Yes or no.", "yes" if isleap(year) else "no")


def weekday_of_date(draw: Random, level: int) -> Problem:
    start = _day(draw)
    step = draw.randrange(1, (7, 14, 28, 60, 200)[level - 1])
    end = start + timedelta(days=step)
    if (start.month, start.year) != (end.month, end.year) and level < 4:
        return weekday_of_date(draw, level)
    shown = [f"{d.day} {MONTHS[d.month - 1]} {d.year}" for d in (start, end)]
    return Problem(f"{shown[0]} is a {DAYS[start.weekday()]}. Which day is {shown[1]}?", DAYS[end.weekday()])


def earliest_date(draw: Random, level: int) -> Problem:
    year = draw.randrange(FIRST_YEAR, LAST_YEAR - 2)
    days = {_day(draw, year + (draw.randrange(2) if level > 3 else 0)) for _ in range(1 + level)}
    dates = sorted(days)
    draw.shuffle(dates)
    shown = {d: f"{d.day} {MONTHS[d.month - 1]} {d.year}" for d in dates}
    if len(dates) < 2:
        return earliest_date(draw, level)
    return Problem(f"Which is the earliest: {', '.join(shown.values())}?", shown[min(dates)])


def iso_date(draw: Random, level: int) -> Problem:
    day = _day(draw)
    name = MONTHS[day.month - 1]
    forms = (f"{day.day} {name} {day.year}", f"{name} {day.day}, {day.year}", f"{day:%d/%m/%Y} (day first)")
    said = draw.choice(forms[: (1, 2, 3, 3, 3)[level - 1]])
    if level >= 4:
        step = draw.randrange(2, 4 if level == 4 else 40)
        return Problem(f"Write as year-month-day the day {step} days after: {said}", str(day + timedelta(days=step)))
    return Problem(f"Write as year-month-day: {said}", str(day))
