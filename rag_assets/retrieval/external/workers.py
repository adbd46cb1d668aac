"""Calls a user's code in threads, so that a call that never ends ends with its time.

Python cannot stop a thread: one that is late is left alone, and another one takes its place. With
one call at a time there is one thread, which also loads the code, as in a script.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rag_assets.plain_text import one_line, shortened

Value = TypeVar("Value")
MAX_LATE = 3
"""After so many calls in a row that are late, the others are not made."""

LONGEST_REASON = 300


@dataclass
class Outcome(Generic[Value]):
    """What a call gave, or why it gave nothing; seconds of wall time."""

    value: Value | None = None
    error: str | None = None
    seconds: float | None = None


@dataclass
class _Job:
    work: Callable[[], Any]
    read: Callable[[Any], Any] | None = None
    reason: str = ""
    done: Future[tuple[Any, float]] = field(default_factory=Future)
    is_left: bool = False


class Workers:
    """Threads that call; nothing of them outlives the process."""

    def __init__(self, n_threads: int, timeout: float) -> None:
        """Start ``n_threads``; a call has ``timeout`` seconds."""
        self._n_threads, self._timeout = n_threads, timeout
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._n_late = 0
        for _ in range(n_threads):
            self._start()

    def close(self) -> None:
        """Let the threads end."""
        for _ in range(self._n_threads):
            self._jobs.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def first(self, work: Callable[[], Value]) -> Value:
        """Return what a call gives, however long it takes; raises what it raises."""
        job = _Job(work)
        self._jobs.put(job)
        found: Value = job.done.result()[0]
        return found

    def each(
        self, works: Iterable[Callable[[], Any]], read: Callable[[Any], Value] | None = None
    ) -> Iterator[Outcome[Value]]:
        """Yield the outcome of each call, in order; as many at once as there are threads.

        Args:
            works: the calls.
            read: makes the value of what a call gives, within the time of the call: a generator,
                or an object of the code, may do anything.
        """
        waiting: deque[tuple[_Job, float]] = deque()
        for work in works:
            if len(waiting) == self._n_threads:
                yield self._outcome(*waiting.popleft())
            job = _Job(work, read)
            if self._n_late < MAX_LATE:
                self._jobs.put(job)
            waiting.append((job, time.monotonic()))
        while waiting:
            yield self._outcome(*waiting.popleft())

    def _outcome(self, job: _Job, started: float) -> Outcome[Any]:
        if self._n_late >= MAX_LATE and not job.done.done():
            job.is_left = True
            reason = f"not asked: {MAX_LATE} calls in a row took longer than {self._timeout:g} s"
            return Outcome(error=reason)
        try:
            error = job.done.exception(started + self._timeout - time.monotonic())
        except (TimeoutError, Late):
            job.is_left = not job.done.done()
            if job.is_left:
                self._start()
            return self._late()
        if isinstance(error, TimeoutError | Late) and time.monotonic() - started >= self._timeout:
            return self._late()  # a coroutine
        self._n_late = 0
        if error is not None:
            return Outcome(error=job.reason)
        value, seconds = job.done.result()
        return Outcome(value, None, seconds)

    def _late(self) -> Outcome[Any]:
        self._n_late += 1
        return Outcome(error=f"took longer than {self._timeout:g} s")

    def _start(self) -> None:
        threading.Thread(target=self._run, name="rag_assets call", daemon=True).start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            started = time.perf_counter()
            try:
                value = job.work()
                if inspect.isawaitable(value):
                    value = self._awaited(value)
                if job.read is not None:
                    value = job.read(value)
            except BaseException as error:
                job.reason = reason_of(error)
                job.done.set_exception(error)
            else:
                job.done.set_result((value, time.perf_counter() - started))
            if job.is_left:
                return

    def _awaited(self, value: Awaitable[Any]) -> Any:  # noqa: ANN401 (what the code gives)
        """Wait for a coroutine in the one event loop that all of them share."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
        within = asyncio.wait_for(_as_coroutine(value), self._timeout)
        result = asyncio.run_coroutine_threadsafe(within, self._loop).result()
        if isinstance(result, _Ended):
            raise result.error
        return result


def in_order(works: Sequence[Callable[[], Value]], n_threads: int) -> Iterator[Value]:
    """Yield what each call gives, in order, for calls that end by themselves.

    Args:
        works: the calls.
        n_threads: as many are made at once.
    """
    waiting: deque[Future[Value]] = deque()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="rag_assets search") as pool:
        for work in works:
            if len(waiting) == n_threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work))
        while waiting:
            yield waiting.popleft().result()


def reason_of(error: BaseException) -> str:
    """Return what a user's code raised, on one line; its message is code of the user too."""
    try:
        text = shortened(str(error), 10 * LONGEST_REASON)
    except BaseException:
        text = "its message cannot be read"
    reason = " ".join(f"{type(error).__name__}: {text}".split())
    return shortened(one_line(reason), LONGEST_REASON)


@dataclass
class _Ended:
    """What would end the event loop."""

    error: BaseException


async def _as_coroutine(value: Awaitable[Any]) -> Any:  # noqa: ANN401
    try:
        return await value
    except (KeyboardInterrupt, SystemExit) as error:
        return _Ended(error)
