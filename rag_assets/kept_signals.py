"""The handler of SIGTERM, which packages that are used here replace by their own."""

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
