"""Who works on a store now: locks of files between processes, and leases between machines.

A lock is a file that is held, in a folder on a local disk.

Many evaluations may work on a store at once; what removes is alone. A lease is a small file in
``<store>/_leases``, or such an object on S3, so all machines see it.
Each side writes its own and then looks for others: whatever the order, one of two sees the other.
What removes gives way with an error; an evaluation waits, since nobody removes for long. So nothing
is read or written between the moment when garbage is found and the moment when it goes.

A lease is renewed while its process lives, and ends with it: at once where the one who looks is on
the same machine, else when it was not renewed for :data:`ENDS`. (Locks of files would not do: S3
has none, and those of shared folders are often not seen by other machines.) Times are the store's
own, of its files and objects, so clocks of machines may differ. Whoever finds a lease that has
ended deletes it; so its owner, if it was only asleep, knows that nothing was kept for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from rag_assets.errors import StoreError
from rag_assets.store.atomic import write_text
from rag_assets.store.remote import LEASES_DIR

if TYPE_CHECKING:
    from rag_assets.store.settings import StoreSettings

RENEWED = 30.0
"""Seconds after which a lease is renewed."""

ENDS = 300.0
"""Seconds after which one that was not renewed has ended."""

_POLL = 0.2

_EVALUATES, _REMOVES = "evaluates", "removes"


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of ``file``; waits while another process holds it."""
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


@contextmanager
def shared_lease(settings: StoreSettings, what: str) -> Iterator[None]:
    """Keep all that is in a store, and comes to it, from being removed.

    Waits while something is removed. In a block of one process another costs nothing. ``what`` is
    for people: ``an evaluation of handbook``.
    """
    with _leased(settings, _EVALUATES, what):
        yield


@contextmanager
def exclusive_lease(settings: StoreSettings, what: str) -> Iterator[None]:
    """Have a store alone, to remove something from it.

    Raises:
        StoreError: an evaluation runs, or something else removes.
    """
    with _leased(settings, _REMOVES, what):
        yield


@contextmanager
def _leased(settings: StoreSettings, kind: str, what: str) -> Iterator[None]:
    with _opening:
        lease = _held.get(settings.store) if kind == _EVALUATES else None
        if lease is None:
            lease = _held[settings.store] = _Lease(settings, kind, what)
        lease.blocks += 1
    try:
        yield
    finally:
        with _opening:
            lease.blocks -= 1
            if not lease.blocks:
                del _held[settings.store]
                lease.end()


def check_lease(settings: StoreSettings) -> None:
    """Check that what this process holds was held all the time; without a lease, nothing is.

    Raises:
        StoreError: the process was asleep for so long that its lease was taken for ended.
    """
    lease = _held.get(settings.store)
    if lease is not None and not lease.is_held():
        raise StoreError(
            f"{lease.what} was suspended or cut off from the store for more than {ENDS / 60:.0f} "
            "minutes, and files may have been removed meanwhile; start it again"
        )


class _Lease:
    """One of this process, written when it is made, and renewed by a thread."""

    def __init__(self, settings: StoreSettings, kind: str, what: str) -> None:
        """Write it; wait for what removes, or refuse where this one removes and is not alone."""
        self.what = what
        self._store = settings.store
        self._remote = settings.remote
        self._name = f"{uuid.uuid4().hex}.json"
        self.blocks = 0
        self._ended, self._writing = Event(), Lock()
        fields = {
            "kind": kind,
            "what": what,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": platform.node(),
            "machine": _machine(),
            "process": os.getpid(),
        }
        self._text = json.dumps(fields)
        self._write()
        Thread(target=self._renew, daemon=True, name="lease").start()
        try:
            if kind == _REMOVES and (others := self._others(_EVALUATES, _REMOVES)):
                raise StoreError(f"{others[0]} uses the store; try again when it has finished")
            while kind == _EVALUATES and self._others(_REMOVES):
                time.sleep(_POLL)
        except BaseException:
            self.end()
            raise

    def is_held(self) -> bool:
        """Return whether nobody took it for ended."""
        return self._name in self._modified()

    def _others(self, *kinds: str) -> list[str]:
        """Return who else holds a lease of some kinds, in words; delete those that have ended."""
        modified = self._modified()
        # By the store's own clock, and what has passed here since then.
        now = modified.get(self._name, 0.0) + time.monotonic() - self._written
        descriptions = []
        for name in sorted(modified.keys() - {self._name}):
            fields = self._read(name)
            if now - modified[name] > ENDS or _is_dead(fields):
                self._delete(name)
            elif fields.get("kind") in kinds:
                who = "{what} ({host}, process {process}, since {since})"
                descriptions.append(who.format(**fields))
        return descriptions

    def end(self) -> None:
        """Delete it."""
        self._ended.set()
        # One that cannot be deleted ends by itself.
        with self._writing, suppress(StoreError, OSError):
            self._delete(self._name)

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED):
            # What fails now may do the next time; else the lease ends.
            with self._writing, suppress(StoreError, OSError):
                if self.is_held() and not self._ended.is_set():
                    self._write()

    def _write(self) -> None:
        if self._remote is not None:
            self._remote.objects.write(f"{LEASES_DIR}/{self._name}", self._text.encode())
        else:
            write_text(self._store / LEASES_DIR / self._name, self._text, durable=False)
        self._written = time.monotonic()

    def _read(self, name: str) -> dict[str, Any]:
        """Return the fields of a lease; none where it is gone."""
        try:
            if self._remote is not None:
                return dict(json.loads(self._remote.objects.read(f"{LEASES_DIR}/{name}") or "{}"))
            return dict(json.loads((self._store / LEASES_DIR / name).read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return {}

    def _modified(self) -> dict[str, float]:
        """Return name -> when it was written, in seconds."""
        if self._remote is not None:
            listed = self._remote.objects.listed(LEASES_DIR)
            return {n.rpartition("/")[2]: entry.modified / 1e9 for n, entry in listed.items()}
        times = {}
        for file in (self._store / LEASES_DIR).glob("*.json"):
            with suppress(FileNotFoundError):  # ended since it was listed
                times[file.name] = file.stat().st_mtime
        return times

    def _delete(self, name: str) -> None:
        if self._remote is not None:
            self._remote.objects.delete(f"{LEASES_DIR}/{name}")
        else:
            (self._store / LEASES_DIR / name).unlink(missing_ok=True)


def _is_dead(fields: dict[str, Any]) -> bool:
    """Return whether it was of a process of this machine that is no more."""
    if fields.get("machine") != _machine():
        return False
    try:
        os.kill(int(fields["process"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


@cache
def _machine() -> str:
    """Return what processes have in common that see each other's ids: a container has its own."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


_held: dict[Path, _Lease] = {}
"""Store -> the lease of this process."""

_opening = Lock()
