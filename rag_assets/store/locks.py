"""Locks between processes: files that are held, in a folder on a local disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_assets.errors import StoreError


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of ``file``; waits while another process holds it.

    Raises:
        StoreError: the folder cannot be written.
    """
    from filelock import FileLock

    lock = FileLock(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise StoreError(f"cannot write {file.parent}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
