"""Code of the user's own, called in threads, so that a call that never ends ends with its time.

Python cannot stop a thread: one that is late is left alone, and another takes its place. With one
call at a time there is one thread, which also loads the code, as in a script.
"""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from rag_assets.called.asked import AskedOptions, Result
from rag_assets.called.hits import Rejected
from rag_assets.errors import UsageError
from rag_assets.plain_text import one_line, shortened
from rag_assets.servers.failures import late

if TYPE_CHECKING:
    import asyncio

MAX_REASON = 300
"""Characters of what a user's code says went wrong."""

Ask = Callable[[Mapping[str, Any]], object]
"""Calls the code with what is asked."""


class CalledCode:
    """A user's code, called in threads of its own; nothing of them outlives the process."""

    def __init__(
        self,
        load: Callable[[], Ask],
        read: Callable[[Any, Mapping[str, Any]], Any],
        options: AskedOptions,
    ) -> None:
        """Load the code, in one of the threads.

        Args:
            load: returns how the code is asked.
            read: makes of what it returned, for the values that it was asked with, what
                :meth:`ask` gives; it runs in a thread too.
            options: how many calls at once, and how long each may take.
        """
        self._read, self._options, self._lock = read, options, threading.Lock()
        self._calls = queue.SimpleQueue[tuple[Callable[[Future[Any]], Any], Future[Any]] | None]()
        self._loop: asyncio.AbstractEventLoop | None = None
        for _ in range(options.concurrency):
            self._start()
        try:
            self._ask: Ask = self._called(lambda _: load()).result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the threads end, but those that are late."""
        for _ in range(self._options.concurrency):
            self._calls.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def line(self, reason: str) -> str:
        """Return the reason: code has no credential that we know."""
        return reason

    def ask(self, values: Mapping[str, Any]) -> tuple[Any, float]:
        """Return what was read of an answer, or why it was rejected, as a :class:`Rejected`."""
        outcome, timeout = self._called(partial(self._result, values)), self._options.timeout
        started = time.perf_counter()
        try:
            result = outcome.result(timeout)
        except TimeoutError:
            if outcome.cancel():
                self._start()
            raise late(timeout) from None
        return result, time.perf_counter() - started

    def _called(self, work: Callable[[Future[Any]], Any]) -> Future[Any]:
        """Let a thread do something; one whose outcome is cancelled meanwhile ends with it."""
        outcome: Future[Any] = Future()
        self._calls.put((work, outcome))
        return outcome

    def _start(self) -> None:
        threading.Thread(target=self._run, name="rag_assets call", daemon=True).start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            work, outcome = call
            try:
                result = work(outcome)
            except BaseException as error:  # of loading the code, which nobody gives up
                outcome.set_exception(error)
                continue
            if not outcome.set_running_or_notify_cancel():
                return
            outcome.set_result(result)

    def _result(self, values: Mapping[str, Any], outcome: Future[Any]) -> object:
        """Call the code, and read what it returns: that of a generator is code too."""
        try:
            answer: Any = self._ask(values)
            if inspect.isawaitable(answer):
                answer = self._wait_for(answer, outcome)
            return self._read(answer, values)
        except BaseException as error:  # whatever a user's code raises, in this thread
            return error if isinstance(error, Rejected) else Rejected(reason_of(error))

    def _wait_for(self, value: Awaitable[Any], outcome: Future[Any]) -> Any:  # noqa: ANN401
        """Wait for a coroutine in the one event loop of all, until whoever asks gives it up."""
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
        waiting = asyncio.run_coroutine_threadsafe(_guarded(value), self._loop)
        outcome.add_done_callback(lambda _: waiting.cancel())
        result, error = waiting.result()
        if error is not None:
            raise error
        return result


async def _guarded(value: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return what a coroutine raises too: an exit would end the event loop of all of them."""
    try:
        return await value, None
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        return None, error


def reason_of(error: BaseException) -> str:
    """Return what a user's code raised, on one line; its message is code of the user too."""
    try:
        text = shortened(str(error), 10 * MAX_REASON)
    except BaseException:
        text = "its message cannot be read"
    reason = " ".join(f"{type(error).__name__}: {text}".split())
    return shortened(one_line(reason), MAX_REASON)


def loaded(call: str, load: Callable[[], Result]) -> Result:
    """Load code, in a thread of its own.

    Raises:
        UsageError: it cannot be loaded, or not be asked; names the ``call``.
    """
    try:
        return load()
    except UsageError:
        raise
    except Rejected as problem:
        raise UsageError(f"call {call}: {problem}") from None
    except BaseException as error:  # whatever a user's code raises, in this thread
        raise UsageError(f"call {call}: cannot be loaded: {reason_of(error)}") from error


def is_factory(target: object, options: Mapping[str, Any]) -> bool:
    """Return whether it is a function that takes neither a query nor k."""
    counts = [inspect.isroutine(target) and takes(target, n, options) for n in (0, 1, 2)]
    return counts == [True, False, False]


def takes(target: Any, n_arguments: int, options: Mapping[str, Any]) -> bool:  # noqa: ANN401
    """Return whether something can be called with so many arguments and these options."""
    try:
        inspect.signature(target).bind(*[None] * n_arguments, **options)
    except TypeError:
        return False
    except ValueError:  # built in: it has no signature
        return n_arguments == 2
    return True
