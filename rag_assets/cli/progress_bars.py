"""Progress of long work on stderr: one place at the foot of a terminal, with a bar for each task.

A bar has rate and remaining time. Where there is no terminal, lines say the same every few seconds.
With ``--verbose`` a line stays for each task; with ``--quiet`` nothing is drawn.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from rag_assets.cli.terminal import Verbosity, messages, seconds_since_beginning, verbosity
from rag_assets.progress import Advance

REDRAWS_PER_SECOND = 8

LINE_INTERVAL_S = 5.0
"""Seconds between two lines about the work, where there is no terminal."""

FIRST_LINE_S = 0.5
"""Seconds before the first of them: what ends sooner needs none."""

RATE_WINDOW_S = 30.0
"""A rate is that of the last so many seconds, and of one step more."""

BAR_WIDTH = 20

_log = logging.getLogger(__name__)

_open_tasks: list[Pace] = []
"""The tasks that progress is told of, in the order in which they began."""

_open_boards: list[object] = []
"""What draws them: a board or a thread of lines for each block of :func:`work_board`."""


class Pace:
    """How fast a task goes, from what is done at which time; time passes between reports too."""

    def __init__(
        self, total: int, clock: Callable[[], float] = time.monotonic, label: str = ""
    ) -> None:
        """Start now, with nothing done."""
        self._clock = clock
        self.started = clock()
        self.label = label
        self.total = total
        self.note = ""
        self._reports = deque([(self.started, 0)])

    @property
    def done(self) -> int:
        """What is done so far."""
        return self._reports[-1][1]

    def report(self, done: int, total: int) -> None:
        """Take note of how far the work is now."""
        self.total = total
        self._reports.append((self._clock(), done))
        while len(self._reports) > 2 and (
            self._reports[1][0] < self._reports[-1][0] - RATE_WINDOW_S
        ):
            self._reports.popleft()

    def rate(self) -> float | None:
        """Return units a second; None before the first report."""
        (first, before), (last, done) = self._reports[0], self._reports[-1]
        return (done - before) / (last - first) if done > before and last > first else None

    def remaining(self) -> float | None:
        """Return the seconds until the end at this rate; None while it is not known."""
        rate = self.rate()
        if rate is None:
            return None
        late = self._clock() - self._reports[-1][0]
        return max(0.0, (self.total - self.done) / rate - late)

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self.started

    def text(self) -> str:
        """Return ``17/s 5:01 left``, as far as it is known, and the note."""
        parts = (rate_text(self.rate()), remaining_text(self.remaining()), self.note)
        return " ".join(filter(None, parts))


def rate_text(rate: float | None) -> str:
    """Return a rate so that slow work does not read as none: ``12/s``, ``0.4/s``, ``3/min``."""
    if rate is None:
        return ""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"


def remaining_text(seconds: float | None) -> str:
    """Return ``0:42 left`` or ``1:02:03 left``."""
    return "" if seconds is None else f"{clock_text(seconds)} left"


def clock_text(seconds: float) -> str:
    """Return ``0:42`` or ``1:02:03``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def work_board(line: Callable[[], str]) -> AbstractContextManager[None]:
    """Show, while the block runs, how long it takes already, what ``line`` says, and the tasks.

    On a terminal at its foot; elsewhere as a line every :data:`LINE_INTERVAL_S` seconds.
    """
    if verbosity() is Verbosity.QUIET:
        return nullcontext()
    return _board(line) if messages().is_terminal else _lines(line)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Advance]:
    """Show how far a task is, on the open board or on one of its own."""
    pace = Pace(total, label=label)

    def advance(done: int, new_total: int | None = None, note: str = "", /) -> None:
        pace.report(done, new_total or total)
        pace.note = note

    _open_tasks.append(pace)
    try:
        with nullcontext() if _open_boards else work_board(lambda: ""):
            yield advance
    finally:
        _open_tasks.remove(pace)
    seconds = max(pace.seconds(), 1e-9)
    rate = rate_text(pace.done / seconds)
    _log.info("%s: %d of %d in %.2f s, %s", label, pace.done, pace.total, seconds, rate)


@contextmanager
def _board(line: Callable[[], str]) -> Iterator[None]:
    board = _Board(line)
    live = Live(board, console=messages(), transient=True, refresh_per_second=REDRAWS_PER_SECOND)
    _open_boards.append(board)
    try:
        with live:
            yield
    finally:
        _open_boards.remove(board)


class _Board:
    """What stands at the foot of the terminal, made anew whenever it is drawn."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line
        self._spinner = Spinner("dots")
        self._started = time.monotonic()

    def __rich__(self) -> RenderableType:
        text = f"{clock_text(time.monotonic() - self._started)} {self._line()}"
        self._spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
        tasks = Table.grid(padding=(0, 1))
        for pace in list(_open_tasks):
            bar = ProgressBar(pace.total or None, pace.done, width=BAR_WIDTH)
            tasks.add_row(Text(pace.label), bar, f"{pace.done}/{pace.total}", pace.text())
        return Group(self._spinner, tasks) if tasks.row_count else self._spinner


@contextmanager
def _lines(line: Callable[[], str]) -> Iterator[None]:
    """Print lines from a thread of its own: what works may be silent for long."""
    console = messages()
    started, ended = time.monotonic(), Event()
    first = max(LINE_INTERVAL_S - seconds_since_beginning(), min(FIRST_LINE_S, LINE_INTERVAL_S))

    def print_lines() -> None:
        pause = first
        while not ended.wait(pause):
            pause = LINE_INTERVAL_S
            tasks = [
                f"{pace.label} {pace.done:,} of {pace.total:,} {pace.text()}".rstrip()
                for pace in list(_open_tasks)
            ]
            text = ": ".join([line().strip() or "at work", *tasks])
            console.print(f"{clock_text(time.monotonic() - started)} {text}", soft_wrap=True)

    thread = Thread(target=print_lines, daemon=True)
    _open_boards.append(thread)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _open_boards.remove(thread)
