"""One place at the foot of a terminal for all that runs: what is computed, and the bars below."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import Progress
from rich.spinner import Spinner
from rich.text import Text

from rag_assets.cli.terminal import Verbosity, messages, verbosity

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


def is_shown() -> bool:
    """Return whether bars and lines of work are drawn: on a terminal, unless ``--quiet``."""
    return messages().is_terminal and verbosity() is not Verbosity.QUIET


@contextmanager
def work_board(line: Callable[[], str]) -> Iterator[None]:
    """Show, while the block runs, how long it has and what ``line`` says; on a terminal only."""
    if not is_shown():
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
