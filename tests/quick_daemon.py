"""Dagster's daemon; it looks at sensors and at the queue every second, not every five.

``python -m tests.quick_daemon`` with the arguments of ``dagster-daemon``.
"""

from __future__ import annotations

from dagster import QueuedRunCoordinator
from dagster._daemon import sensor
from dagster._daemon.cli import main

SECONDS = 1

if __name__ == "__main__":
    sensor.MIN_INTERVAL_LOOP_TIME = SECONDS
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda self: SECONDS)  # type: ignore[method-assign,assignment]
    main()
