"""`schedule` in an experiment.yaml: read, checked, and part of no fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.experiment import Experiment
from rag_assets.experiment.schedule import ScheduleConfig
from tests.tiny_experiment import Tiny

Load = Callable[[str | bytes], Experiment]
Problem = Callable[[str | bytes], str]


def test_a_schedule_is_read(load: Load) -> None:
    text = "schedule: {cron: '0 3 * * *', timezone: Europe/Berlin}\n"
    assert load(text).config.schedule == ScheduleConfig(cron="0 3 * * *", timezone="Europe/Berlin")
    assert load("schedule: {cron: '0  3 * * mon-fri'}\n").config.schedule == ScheduleConfig(
        cron="0 3 * * mon-fri", timezone="UTC"
    )
    assert load("top_k: [3]\n").config.schedule is None
    stopped = load("schedule: {cron: 0 3 * * *, running: false}\n").config.schedule
    assert stopped == ScheduleConfig(cron="0 3 * * *", running=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "schedule:\n  cron: 0 25 * * *\n",
            ":2: `schedule.cron`: '25' is not a valid hour; allowed: * or a list of 0-23 and "
            "ranges a-b, with /step after * or a range",
        ),
        (
            "schedule: {cron: 0 3 * * *, timezone: Europe/Berln}\n",
            ":1: `schedule.timezone`: unknown time zone 'Europe/Berln' (did you mean "
            "'Europe/Berlin'?); allowed: UTC and the names of the IANA database, such as "
            "Europe/Berlin",
        ),
        (
            "schedule: {cron: 0 3 * * *, timezone: ../UTC}\n",
            ":1: `schedule.timezone`: unknown time zone '../UTC' (did you mean 'UTC'?); allowed: "
            "UTC and the names of the IANA database, such as Europe/Berlin",
        ),
        ("schedule: {timezone: UTC}\n", ":1: `schedule`: needs the key 'cron'"),
        (
            "schedule: {cron: 0 3 * * *, tz: UTC}\n",
            ":1: `schedule.tz`: unknown key 'tz'; allowed: cron, timezone, running",
        ),
        (
            "schedule: 0 3 * * *\n",
            ":1: `schedule`: must be a mapping of keys to values; found '0 3 * * *'",
        ),
        ("schedule: {cron: 5}\n", ":1: `schedule.cron`: should be a valid string; found 5"),
    ],
)
def test_a_wrong_schedule_is_one_line(problem: Problem, text: str, expected: str) -> None:
    assert problem(text) == expected


def test_no_fingerprint_holds_the_schedule(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.run()
    tiny.config["schedule"] = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    tiny.write_config()
    assert tiny.pipeline().experiment.config.schedule is not None
    assert tiny.run() == set()
