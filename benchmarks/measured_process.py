"""What a process costs from its start to its end: wall and CPU seconds, and memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

INTERVAL = 0.05


class Cost(NamedTuple):
    """Seconds; bytes; what it printed; of the bytes those that are no pages of files."""

    wall: float
    cpu: float
    peak: int
    printed: str
    private: int = 0


def measured(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end.

    CPU seconds are those of the process and of all that it waited for. The peak is the highest sum
    of the resident memory of it and its descendants, looked at 20 times a second.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        child = subprocess.Popen(
            command, stdout=out, stderr=err, env={**os.environ, **(environment or {})}
        )
        peaks, done = [0, 0], threading.Event()
        watcher = threading.Thread(target=_watch, args=(child.pid, peaks, done))
        watcher.start()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        watcher.join()
        out.seek(0)
        err.seek(0)
        if child.returncode:
            raise SystemExit(f"{command}: {err.read().decode()[-2000:]}")
        return Cost(wall, used.ru_utime + used.ru_stime, peaks[0], out.read().decode(), peaks[1])


def _watch(pid: int, peaks: list[int], done: threading.Event) -> None:
    while not done.wait(INTERVAL):
        pages = [_pages(each) for each in _tree(pid)]
        for number, count in enumerate(map(sum, zip(*pages, strict=True))):
            peaks[number] = max(peaks[number], count * os.sysconf("SC_PAGE_SIZE"))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        try:
            for file in Path(f"/proc/{parent}/task").glob("*/children"):
                found += map(int, file.read_text(encoding="ascii").split())
        except OSError:
            continue
    return found


def _pages(pid: int) -> tuple[int, int]:
    """Return the resident pages of a process, and those of them that are of no file."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1:3]
    except (OSError, ValueError):
        return 0, 0
    return int(resident), int(resident) - int(shared)
