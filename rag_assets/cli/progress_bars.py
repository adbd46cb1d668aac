"""Progress of long work on stderr: one place at the foot of a terminal, and the bars in it.

A bar has rate and remaining time; with -v a line of it stays. Where there is no terminal, lines say
the same every few seconds.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Thread

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
)
from rich.spinner import Spinner
from rich.text import Text

from rag_assets.cli.terminal import (
    Verbosity,
    messages,
    seconds_since_beginning,
    verbosity,
)
from rag_assets.progress import Advance

REDRAWN = 8
"""So many times a second."""


class _Board:
    def __init__(self, line: Callable[[], str]) -> None:
        self.bars: list[Progress] = []
        self._line = line
        self._spinner = Spinner("dots")
        self._started = time.monotonic()

    def __rich__(self) -> RenderableType:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        text = f"{minutes}:{seconds:02} {self._line()}"
        self._spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
        return Group(self._spinner, *(bar.get_renderable() for bar in self.bars))


_boards: list[_Board] = []

_at_work: list[tuple[str, Pace]] = []
"""Label and pace of the bars that are open."""

SAID = 5.0
"""Seconds between two lines about the work, where there is no terminal."""

SOONEST = 0.5
"""Seconds before the first of them: what ends sooner needs none."""

_line_printers: list[Thread] = []
"""The threads that print such lines: one for each board that is open."""


def is_significant() -> bool:
    """Return whether bars and lines of work are drawn: on a terminal, unless ``--quiet``."""
    return messages().is_terminal and verbosity() is not Verbosity.QUIET


@contextmanager
def work_board(line: Callable[[], str]) -> Iterator[None]:
    """Show, while the block runs, how long it has and what ``line`` says.

    On a terminal at its foot; elsewhere every :data:`SAID` seconds as a line, with the bars.
    """
    if not is_significant():
        with nullcontext() if verbosity() is Verbosity.QUIET else _lines(line):
            yield
        return
    board = _Board(line)
    live = Live(board, console=messages(), transient=True, refresh_per_second=REDRAWN)
    _boards.append(board)
    try:
        with live:
            yield
    finally:
        _boards.remove(board)


@contextmanager
def _lines(line: Callable[[], str]) -> Iterator[None]:
    """Print lines from a thread of its own: what works may be silent for long."""
    console = messages()
    started, ended = time.monotonic(), Event()
    first = max(SAID - seconds_since_beginning(), min(SOONEST, SAID))

    def say() -> None:
        pause = first
        while not ended.wait(pause):
            pause = SAID
            bars = [f"{label} {pace_text(pace)}" for label, pace in list(_at_work)]
            text = ": ".join([line().strip() or "at work", *bars])
            console.print(f"{clock_text(time.monotonic() - started)} {text}", soft_wrap=True)

    thread = Thread(target=say, daemon=True)
    _line_printers.append(thread)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _line_printers.remove(thread)


@contextmanager
def drawn(bar: Progress) -> Iterator[None]:
    """Draw a bar while the block runs: below the line of work where there is one."""
    if not _boards:
        with bar:
            yield
        return
    bars = _boards[-1].bars
    bars.append(bar)
    try:
        yield
    finally:
        bars.remove(bar)


WINDOW = 30.0
"""A rate is that of the last so many seconds, and of one step more."""

_log = logging.getLogger(__name__)


class Pace:
    """How fast work goes, from what is done at which time; time passes between two reports too."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Start now, with nothing done."""
        self._clock = clock
        self.started = clock()
        self.total = total
        self.note = ""
        self._seen = deque([(self.started, 0)])

    @property
    def done(self) -> int:
        """What is done so far."""
        return self._seen[-1][1]

    def report(self, done: int, total: int) -> None:
        """Take note of how far the work is now."""
        self.total = total
        self._seen.append((self._clock(), done))
        while len(self._seen) > 2 and self._seen[1][0] < self._seen[-1][0] - WINDOW:
            self._seen.popleft()

    def rate(self) -> float | None:
        """Return units a second; None before the first report."""
        (first, before), (last, done) = self._seen[0], self._seen[-1]
        return (done - before) / (last - first) if done > before and last > first else None

    def remaining(self) -> float | None:
        """Return the seconds until the end at this rate; None while it is not known."""
        rate = self.rate()
        if rate is None:
            return None
        late = self._clock() - self._seen[-1][0]
        return max(0.0, (self.total - self.done) / rate - late)

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self.started


def rate_text(rate: float | None) -> str:
    """Return a rate so that slow work does not read as none: ``12/s``, ``0.4/s``, ``3/min``."""
    if rate is None:
        return ""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"


def remaining_text(seconds: float | None) -> str:
    """Return ``0:42 left`` or ``1:02:03 left``."""
    if seconds is None:
        return ""
    return f"{clock_text(seconds)} left"


def clock_text(seconds: float) -> str:
    """Return ``0:42`` or ``1:02:03``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def pace_text(pace: Pace) -> str:
    """Return ``1,216 of 6,328, 17/s, 5:01 left``, as far as it is known, and the pace's note."""
    told = (rate_text(pace.rate()), remaining_text(pace.remaining()), pace.note)
    return ", ".join([f"{pace.done:,} of {pace.total:,}", *filter(None, told)])


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Advance]:
    """Show a bar on stderr that vanishes at the end; without a terminal lines tell of it.

    With ``--verbose`` a line stays, on a terminal or not; with ``--quiet`` there is neither.
    """
    pace = Pace(total)
    bar = _bar(pace)
    has_lines = is_significant() or verbosity() is Verbosity.QUIET or bool(_line_printers)
    with nullcontext() if has_lines else _lines(lambda: ""), drawn(bar), _told(label, pace):
        task = bar.add_task(label, total=total)

        def advance(done: int, new_total: int | None = None, note: str = "", /) -> None:
            pace.report(done, new_total or total)
            pace.note = note
            bar.update(task, completed=done, total=pace.total)

        yield advance
    seconds = max(pace.seconds(), 1e-9)
    rate = rate_text(pace.done / seconds)
    _log.info("%s: %d of %d in %.2f s, %s", label, pace.done, pace.total, seconds, rate)


@contextmanager
def _told(label: str, pace: Pace) -> Iterator[None]:
    """Let the lines about the work tell of a bar."""
    known = (label, pace)
    _at_work.append(known)
    try:
        yield
    finally:
        _at_work.remove(known)


def _bar(pace: Pace) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Live(lambda: rate_text(pace.rate())),
        _Live(lambda: remaining_text(pace.remaining())),
        _Live(lambda: pace.note),
    )
    return Progress(*columns, console=messages(), transient=True, disable=not is_significant())


class _Live(ProgressColumn):
    """A text that is asked for whenever the bar is drawn."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:
        """Return the text as it is now."""
        return Text(self._text(), style="progress.remaining")
