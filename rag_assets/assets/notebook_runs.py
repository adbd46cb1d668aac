"""Work of Dagster inside a notebook, whose process has a running event loop and no terminal."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_in_a_script() -> Iterator[None]:
    """Let synchronous work do what it does in a script.

    At the end of a run Dagster starts an event loop, and where one is running no other may start.
    The running one is set aside, in place of a thread for the work, because an interrupt of the
    notebook's cell must reach the work. tqdm, which libraries of models import, warns where
    ipywidgets are not installed; its bars are not shown.
    """
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")
            yield
    finally:
        asyncio._set_running_loop(running)
