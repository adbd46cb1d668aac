"""Dagster's daemon, which looks twice a second where it would look every five seconds.

``python -m tests.prompt_daemon run ...`` is ``dagster-daemon run ...``.
"""

from __future__ import annotations

from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster._daemon import controller, sensor
from dagster._daemon.cli import main

PAUSE = 0.5
"""Seconds between two looks at the sensors, at the queue of runs, and at its own threads."""

if __name__ == "__main__":
    for module, name in (
        (sensor, "MIN_INTERVAL_LOOP_TIME"),
        (controller, "THREAD_CHECK_INTERVAL"),
    ):
        if not hasattr(module, name):
            raise LookupError(f"{module.__name__} has no {name} any more")
        setattr(module, name, PAUSE)
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda self: PAUSE)  # type: ignore[assignment,method-assign]
    main()
