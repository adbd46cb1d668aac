"""The shape of ``schedule`` in an ``experiment.yaml``: when Dagster evaluates it again.

A cron expression has five fields: ``minute hour day-of-month month day-of-week``. A field is ``*``
or a list of numbers and ranges, with ``/step`` behind ``*`` or a range. Months and days of the week
may be named by three letters. These are the rules of POSIX crontab with the steps and names that
every cron knows; no seconds, no ``@daily``, no ``L``, ``W`` or ``#``.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator

from rag_assets.options import Options

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES)}
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def _checked_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        near = get_close_matches(name, available_timezones(), n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise ValueError(
            f"unknown time zone {name!r}{hint}; allowed: UTC and the names of the IANA database, "
            f"such as Europe/Berlin"
        ) from error
    return name


def checked_cron(expression: str) -> str:
    """Return a cron expression with one blank between its fields.

    Raises:
        ValueError: it breaks the rules above, or names a day that no month has.
    """
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"{expression!r} has {len(fields)} fields; a cron expression has five: minute, hour, "
            f"day of the month, month, day of the week, such as '0 3 * * *'"
        )
    values = [_values(text, field) for text, field in zip(fields, _FIELDS, strict=True)]
    _, _, days, months, _ = values
    if fields[4] == "*" and min(days) > max(_LONGEST_MONTH.get(month, 31) for month in months):
        raise ValueError(f"{expression!r} never happens: none of its months has such a day")
    return " ".join(fields)


class ScheduleConfig(Options):
    """When the experiment is evaluated again; no result and no fingerprint depends on it.

    ``cron`` has five fields; hours are those of ``timezone``. It is on as soon as it is loaded,
    unless ``running`` is false: then it waits for somebody to start it in the UI.
    """

    cron: Annotated[str, AfterValidator(checked_cron)]
    timezone: Annotated[str, AfterValidator(_checked_zone)] = "UTC"
    running: bool = True


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    names: Mapping[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of the month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)


def _values(text: str, field: _Field) -> set[int]:
    """Return what one field matches."""
    values: set[int] = set()
    for part in text.lower().split(","):
        values |= _part(part, text, field)
    return values


def _part(part: str, text: str, field: _Field) -> set[int]:
    match = re.fullmatch(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/([0-9]{1,4}))?", part, re.ASCII)
    if match is None:
        raise _refused(text, field)
    star, first, last, step = match.groups()
    if step is not None and (int(step) < 1 or (star is None and last is None)):
        raise _refused(text, field)
    low = field.least if star else _number(first, text, field)
    high = field.most if star else low if last is None else _number(last, text, field)
    if low > high:
        raise _refused(text, field)
    return set(range(low, high + 1, int(step or 1)))


def _number(word: str, text: str, field: _Field) -> int:
    number = field.names.get(word, int(word) if word.isdecimal() else -1)
    if not field.least <= number <= field.most:
        raise _refused(text, field)
    return number


def _refused(text: str, field: _Field) -> ValueError:
    named = f" or {'-'.join([*field.names][:: len(field.names) - 1])}" if field.names else ""
    return ValueError(
        f"{text!r} is not a valid {field.name}; allowed: * or a list of {field.least}-{field.most}"
        f"{named} and ranges a-b, with /step after * or a range"
    )
