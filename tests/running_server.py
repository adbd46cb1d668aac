"""A server of this machine, run in a thread beside a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rag_assets.labels.page.server import LabelServer


@contextmanager
def running(server: LabelServer) -> Iterator[LabelServer]:
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
