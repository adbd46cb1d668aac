"""What is printed where: results to stdout, progress and notes to stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from rag_assets.progress import Advance


def output() -> Console:
    """Return the console for results."""
    return Console(highlight=False, soft_wrap=False)


def messages() -> Console:
    """Return the console for everything that is not the result."""
    return Console(stderr=True, highlight=False)


def shown_path(path: Path) -> str:
    """Return a path as short as it can be typed from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Advance]:
    """Show a bar on stderr that vanishes at the end; nothing when stderr is not a terminal."""
    console = messages()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(label, total=total, rate="")

        def advance(done: int, new_total: int | None = None, /) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:,.0f}/s" if speed else ""
            bar.update(task, completed=done, total=new_total or total, rate=rate)

        yield advance
