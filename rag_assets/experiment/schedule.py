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


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    names: Mapping[str, int] = {}


_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: day for day, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)
_PART = re.compile(r"(?:\*|(\w+)|(\w+)-(\w+))(/0*[1-9][0-9]{0,3})?", re.ASCII)


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
        ValueError: it breaks the rules above.
    """
    texts = expression.split()
    if len(texts) != len(_FIELDS):
        raise ValueError(
            f"{expression!r} has {len(texts)} fields; a cron expression has five: minute, hour, "
            f"day of the month, month, day of the week, such as '0 3 * * *'"
        )
    values: list[set[int]] = []
    for text, field in zip(texts, _FIELDS, strict=True):
        parts = [_values(part, field) for part in text.lower().split(",")]
        values.append({value for part in parts for value in part})
        if not all(parts):
            names = list(field.names)
            named = f" or {names[0]}-{names[-1]}" if names else ""
            raise ValueError(
                f"{text!r} is not a valid {field.name}; allowed: * or a list of "
                f"{field.least}-{field.most}{named} and ranges a-b, with /step after * or a range"
            )
    _, _, days, months, _ = values
    if texts[4] == "*" and min(days) > max(_LONGEST_MONTH.get(month, 31) for month in months):
        raise ValueError(f"{expression!r} never happens: none of its months has such a day")
    return " ".join(texts)


def _values(part: str, field: _Field) -> range:
    """Return what a part of a field matches; nothing where it is not valid."""
    match = _PART.fullmatch(part)
    if match is None or (match[1] and match[4]):
        return range(0)
    words = [word for word in match.groups()[:3] if word]
    numbers = [field.names.get(w, int(w) if w.isdecimal() else -1) for w in words]
    low, *_, high = [*numbers, *numbers] or [field.least, field.most]
    if not field.least <= low <= high <= field.most:
        return range(0)
    return range(low, high + 1, int((match[4] or "/1")[1:]))


class ScheduleConfig(Options):
    """When the experiment is evaluated again; no result and no fingerprint depends on it.

    ``cron`` has five fields; hours are those of ``timezone``. It is on as soon as it is loaded,
    unless ``running`` is false: then it waits for somebody to start it in the UI.
    """

    cron: Annotated[str, AfterValidator(checked_cron)]
    timezone: Annotated[str, AfterValidator(_checked_zone)] = "UTC"
    running: bool = True
