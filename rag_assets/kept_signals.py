"""The handler of SIGTERM: ours, and that which packages replace by their own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_sigterm() -> Iterator[None]:
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


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end a program as SIGINT does, by ``KeyboardInterrupt``; an ignored one stays so.

    Schedulers and containers send it: what was begun is then taken back, and a line is written.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
