"""Rate and remaining time of long work, and where a bar is drawn."""

from __future__ import annotations

import re
import time

import pytest

from rag_assets.cli.progress_bars import (
    RATE_WINDOW_S,
    Pace,
    progress_bar,
    rate_text,
    remaining_text,
    work_board,
)
from tests.terminal import ESCAPE, written_to_terminal


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_pace_is_known_after_the_first_step_and_time_runs_on_between_two() -> None:
    clock = Clock()
    pace = Pace(100, clock)
    assert (pace.rate(), pace.remaining()) == (None, None)
    clock.now += 4
    pace.report(20, 100)
    assert (pace.rate(), pace.remaining()) == (5.0, 16.0)
    clock.now += 6
    assert pace.remaining() == 10.0
    clock.now += 60
    assert pace.remaining() == 0.0


def test_a_slow_start_is_forgotten() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    clock.now += 100
    pace.report(1, 1000)
    for _ in range(int(RATE_WINDOW_S) + 2):
        clock.now += 1
        pace.report(pace.done + 10, 1000)
    assert pace.rate() == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, ""), (12345.6, "12,346/s"), (12.4, "12/s"), (3.14, "3.1/s"), (0.05, "3.0/min")],
)
def test_rates(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.4, "0:00 left"), (65, "1:05 left"), (3723, "1:02:03 left")]
)
def test_remaining_times(seconds: float | None, text: str) -> None:
    assert remaining_text(seconds) == text


def test_nothing_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("search", 2) as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def drawn() -> str:
    """What a terminal of 80 columns gets from work of two steps."""
    code = (
        "import time\n"
        "from rag_assets.cli.progress_bars import progress_bar\n"
        "with progress_bar('search bm25', 200) as advance:\n"
        "    time.sleep(0.2); advance(100, None, '2 failed, cost 0.31'); time.sleep(0.3)\n"
    )
    return ESCAPE.sub("", written_to_terminal(["-c", code], {}))


def test_a_terminal_sees_rate_and_remaining_time(drawn: str) -> None:
    lines = [line for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert any(
        re.search(r"search bm25 .*100/200 \d+/s 0:0\d left 2 failed, cost 0.31", line)
        for line in lines
    )


def test_without_a_terminal_lines_tell_of_the_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nothing advances: a line is printed all the same."""
    monkeypatch.setattr("rag_assets.cli.progress_bars.LINE_INTERVAL_S", 0.01)
    with work_board(lambda: "3 of at most 9 computed  a[b=c]"):
        with progress_bar("embed chunks for minilm", 6328) as advance:
            advance(1216, None, "cached")
            wait_for_line(capsys, r"c\]: embed chunks for minilm 1,216 of 6,328 .* left cached$")
        wait_for_line(capsys, r"^0:00 3 of at most 9 computed  a\[b=c\]$")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_a_bar_alone_has_its_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assets.cli.progress_bars.LINE_INTERVAL_S", 0.01)
    with progress_bar("compare documents", 9) as advance:
        advance(3)
        wait_for_line(capsys, r"^0:00 at work: compare documents 3 of 9 ")


def test_the_first_line_counts_from_the_beginning_of_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading a command may take as long as the pause between two lines."""
    monkeypatch.setattr("rag_assets.cli.progress_bars.LINE_INTERVAL_S", 3600.0)
    monkeypatch.setattr("rag_assets.cli.progress_bars.seconds_since_beginning", lambda: 3599.99)
    monkeypatch.setattr("rag_assets.cli.progress_bars.FIRST_LINE_S", 0.01)
    with work_board(lambda: "reading"):
        wait_for_line(capsys, "^0:00 reading$")


def wait_for_line(capsys: pytest.CaptureFixture[str], pattern: str) -> None:
    for _ in range(1000):
        out, err = capsys.readouterr()
        assert out == ""
        if re.search(pattern, err, re.M):
            return
        time.sleep(0.01)
    raise AssertionError(f"no line like {pattern}")
