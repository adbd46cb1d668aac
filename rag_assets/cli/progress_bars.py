"""Progress of long work on stderr: one place at the foot of a terminal, with a bar for each task.

A bar has rate and remaining time. Where there is no terminal, lines say the same every few seconds.
With ``--verbose`` a line stays for each task; with ``--quiet`` nothing is drawn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.spinner import Spinner
from rich.text import Text

from rag_assets.cli.terminal import Verbosity, messages, verbosity
from rag_assets.progress import Advance

LINE_INTERVAL_S = 5.0
"""Seconds between two lines about the work, where there is no terminal."""

RATE_WINDOW_S = 30.0
"""A rate is that of the reports in so many seconds; before the second, of the whole task."""

_log = logging.getLogger(__name__)

_open_boards: list[_Board] = []
"""What draws the tasks: a board for each block of :func:`work_board`."""


class _Pace(ProgressColumn):
    """``100/200 17/s 5:01 left``, as far as it is known, and the note of a task."""

    def render(self, task: Task) -> Text:
        """Return the text of a task."""
        return Text(f"{task.completed:.0f}/{task.total or 0:.0f} {_pace_text(task)}".rstrip())


def _pace_text(task: Task) -> str:
    rate = task.speed or (
        task.completed / task.elapsed if task.completed and task.elapsed else None
    )
    left = None if rate is None else max(0.0, ((task.total or 0) - task.completed) / rate)
    parts = (rate_text(rate), "" if left is None else f"{clock_text(left)} left")
    return " ".join(filter(None, (*parts, task.fields["note"])))


def rate_text(rate: float | None) -> str:
    """Return a rate so that slow work does not read as none: ``12/s``, ``0.4/s``, ``3/min``."""
    if rate is None:
        return ""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"


def clock_text(seconds: float) -> str:
    """Return ``0:42`` or ``1:02:03``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class _Board(Progress):
    """A line about the work, with how long it takes already, and the bars of its tasks."""

    def __init__(self, line: Callable[[], str]) -> None:
        name, bar = TextColumn("{task.description}", markup=False), BarColumn(bar_width=20)
        super().__init__(
            *(name, bar, _Pace()),
            console=messages(),
            transient=True,
            refresh_per_second=8,
            speed_estimate_period=RATE_WINDOW_S,
        )
        self._line = line
        self._spinner = Spinner("dots")
        self._started = time.monotonic()

    def text(self, otherwise: str = "") -> str:
        """Return the line."""
        passed = clock_text(time.monotonic() - self._started)
        return f"{passed} {self._line().strip() or otherwise}".rstrip()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield what stands at the foot of the terminal, whenever it is drawn."""
        if hasattr(self, "_spinner"):  # rich draws once before it is made
            self._spinner.update(text=Text(self.text(), no_wrap=True, overflow="ellipsis"))
            yield self._spinner
        if self.tasks:
            yield self.make_tasks_table(self.tasks)


@contextmanager
def work_board(line: Callable[[], str]) -> Iterator[None]:
    """Show, while the block runs, how long it takes already, what ``line`` says, and the tasks.

    On a terminal at its foot; elsewhere as a line every :data:`LINE_INTERVAL_S` seconds.
    """
    if verbosity() is Verbosity.QUIET:
        yield
        return
    board = _Board(line)
    _open_boards.append(board)
    try:
        with board if messages().is_terminal else _lines(board):
            yield
    finally:
        _open_boards.remove(board)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Advance]:
    """Show how far a task is, on the open board or on one of its own."""
    with ExitStack() as stack:
        if not _open_boards:
            stack.enter_context(work_board(lambda: ""))
        board = _open_boards[-1] if _open_boards else _Board(lambda: "")
        task = board.add_task(label, total=total, note="")

        def advance(done: int, new_total: int | None = None, note: str = "", /) -> None:
            board.update(task, completed=done, total=new_total or total, note=note)

        try:
            yield advance
        finally:
            (ended,) = (task_row for task_row in board.tasks if task_row.id == task)
            board.remove_task(task)
    seconds = max(ended.elapsed or 0, 1e-9)
    done, rate = ended.completed, rate_text(ended.completed / seconds)
    _log.info("%s: %d of %d in %.2f s, %s", label, done, ended.total, seconds, rate)


@contextmanager
def _lines(board: _Board) -> Iterator[None]:
    """Print lines from a thread of its own: what works may be silent for long."""
    console, ended = messages(), Event()

    def print_lines() -> None:
        while not ended.wait(LINE_INTERVAL_S):
            lines = [board.text("at work")]
            for task in board.tasks:
                text = f"{task.description} {task.completed:,} of {task.total or 0:,}"
                lines.append(f"{text} {_pace_text(task)}".rstrip())
            console.print(": ".join(lines), soft_wrap=True)

    thread = Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
