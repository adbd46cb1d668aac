"""The handler of SIGTERM: ours, and that which packages replace by their own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


@contextmanager
def sigterm_guard() -> Iterator[None]:
    """Leave the handler of SIGTERM behind as it was.

    Ray installs its own. Dagster leaves that of SIGINT: a job in the background of a shell script,
    to which SIGINT is nothing, could not be ended any more, nor could its child processes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if is_main else None
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


_Handler = Callable[[int, FrameType | None], Any] | signal.Handlers


class Interrupted(KeyboardInterrupt):
    """Somebody, or a scheduler, ended the program.

    A class of its own: once a plain ``KeyboardInterrupt`` went through an ``exec`` (an import of a
    dataclass), CPython ends the process by SIGINT, whoever caught it, and its exit code is lost.
    """


@contextmanager
def interrupt_handlers() -> Iterator[None]:
    """Raise :class:`Interrupted` for Ctrl-C and for SIGTERM, which would end a program silently.

    Schedulers and containers send SIGTERM. What is ignored stays so, as in the background of a
    shell script, and so does a handler of somebody else.
    """
    usual: dict[int, _Handler] = {signal.SIGINT: signal.default_int_handler}
    usual[signal.SIGTERM] = signal.SIG_DFL
    is_main = threading.current_thread() is threading.main_thread()
    replaced = [n for n, was in usual.items() if is_main and signal.getsignal(n) is was]
    for number in replaced:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, usual[number])


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is an interrupt; DuckDB makes another error of one."""
    duckdb = isinstance(error, RuntimeError) and str(error) == "Query interrupted"
    return duckdb or isinstance(error, KeyboardInterrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted
