"""The shape of ``schedule`` in an ``experiment.yaml``: when Dagster evaluates it again."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator

from rag_assets.experiment.cron import checked_cron
from rag_assets.options import Options


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


class ScheduleConfig(Options):
    """When the experiment is evaluated again; no result and no fingerprint depends on it.

    ``cron`` has five fields; hours are those of ``timezone``.
    """

    cron: Annotated[str, AfterValidator(checked_cron)]
    timezone: Annotated[str, AfterValidator(_checked_zone)] = "UTC"
