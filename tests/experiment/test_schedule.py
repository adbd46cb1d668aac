"""``schedule`` and the times that it names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dagster._utils.schedules import cron_string_iterator, is_valid_cron_string
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_assets.experiment import Experiment
from rag_assets.experiment.schedule import ScheduleConfig, checked_cron
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


LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@st.composite
def fields(draw: st.DrawFn, least: int, most: int) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        low = draw(st.integers(least, most))
        high = draw(st.integers(low, most))
        part = draw(st.sampled_from(["*", str(low), f"{low}-{high}"]))
        step = draw(st.integers(1, most)) if part != str(low) else None
        parts.append(f"{part}/{step}" if step and draw(st.booleans()) else part)
    return ",".join(parts)


@given(st.tuples(*(fields(*limits) for limits in LIMITS)))
@example(("0", "3", "29", "2", "*"))
@example(("0", "3", "31", "2", "1"))
@settings(max_examples=60)
def test_what_is_accepted_dagster_accepts_and_it_comes(parts: tuple[str, ...]) -> None:
    try:
        cron = checked_cron(" ".join(parts))
    except ValueError as error:
        assert "never happens" in str(error)  # noqa: PT017 (not every example is refused)
        return
    assert cron.split() == list(parts)
    if not is_valid_cron_string(cron):
        # Dagster refuses a 30 February by its own rule, also beside a day of the week.
        assert parts[3] == "2"
        return
    started = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    first = next(cron_string_iterator(started, cron, "UTC", ascending=True))
    assert first.timestamp() >= started


@given(st.text(alphabet="*,-/0123456789 @Lmontuejanfeb#W", max_size=24))
@settings(max_examples=300)
def test_nothing_is_accepted_that_dagster_refuses(text: str) -> None:
    try:
        cron = checked_cron(text)
    except ValueError:
        return
    assert is_valid_cron_string(cron)


@pytest.mark.parametrize(
    ("given_text", "cron"),
    [
        ("0 3 * * *", "0 3 * * *"),
        ("  */5\t0-6/2  1,15 jan-mar MON-fri ", "*/5 0-6/2 1,15 jan-mar MON-fri"),
        ("0 0 29 feb *", "0 0 29 feb *"),
        ("0 0 * * 7", "0 0 * * 7"),
    ],
)
def test_blanks_are_one_blank(given_text: str, cron: str) -> None:
    assert checked_cron(given_text) == cron
    assert is_valid_cron_string(cron)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' has 0 fields; a cron expression has five: minute, hour,"),
        ("@daily", "'@daily' has 1 fields"),
        ("0 0 3 * * *", "has 6 fields"),
        ("60 3 * * *", "'60' is not a valid minute; allowed: [*] or a list of 0-59 and ranges a-b"),
        ("0 24 * * *", "'24' is not a valid hour"),
        ("0 3 0 * *", "'0' is not a valid day of the month; allowed: [*] or a list of 1-31"),
        ("0 3 * 13 *", "'13' is not a valid month; allowed: [*] or a list of 1-12 or jan-dec"),
        (
            "0 3 * * 8",
            "'8' is not a valid day of the week; allowed: [*] or a list of 0-7 or sun-sat",
        ),
        ("0 5-3 * * *", "'5-3' is not a valid hour"),
        ("0 3/2 * * *", "'3/2' is not a valid hour"),
        ("0 */0 * * *", r"'\*/0' is not a valid hour"),
        ("0 1,,2 * * *", "'1,,2' is not a valid hour"),
        ("0 -1 * * *", "'-1' is not a valid hour"),
        ("0 3 L * *", "'L' is not a valid day of the month"),
        ("0 3 30 2 *", "'0 3 30 2 [*]' never happens: none of its months has such a day"),
        ("0 3 31 apr,jun *", "never happens"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        checked_cron(text)
