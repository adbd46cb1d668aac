"""When a request is sent again: one rule for whatever is served."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rag_assets.servers.failures import ServerFailure

LONGEST_WAIT = 60.0
"""Seconds before a retry; a server that wants to be left alone for longer is not asked again."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retries:
    """How often a request is sent again where the server did not serve.

    Attributes:
        count: further attempts.
        backoff: seconds before the first of them; doubled for each further one.
        longest: seconds before one at most; a longer ``Retry-After`` ends the attempts.
        sleep: waits.
    """

    count: int
    backoff: float
    longest: float = LONGEST_WAIT
    sleep: Callable[[float], None] = time.sleep

    def answer(
        self,
        ask: Callable[[], Result],
        place: str,
        before_wait: Callable[[ServerFailure, float], None] | None = None,
    ) -> Result:
        """Return what an attempt gives.

        Args:
            ask: makes an attempt.
            place: who is asked, for the log.
            before_wait: is told of a failure and of the seconds until the next attempt.

        Raises:
            ServerFailure: the last attempt failed, or the server asked for too long a wait.
        """
        for attempt in range(self.count + 1):
            try:
                return ask()
            except ServerFailure as failure:
                last = failure
            if not last.transient or attempt == self.count:
                break
            wait = self.wait_before(attempt, last.asked)
            if wait is None:
                problem = f"the server asked for {last.asked:.0f} s (Retry-After)"
                reason = f"{problem}; at most {self.longest:g} s are waited"
                last = ServerFailure(f"{last}: {reason}", last.kind, last.status, last.asked)
                break
            _log.info("%s: %s; again in %.1f s", place, last, wait)
            if before_wait is not None:
                before_wait(last, wait)
            self.sleep(wait)
        raise last  # out here, nothing is its context

    def wait_before(self, attempt: int, asked: float | None) -> float | None:
        """Return the seconds to wait before retry number ``attempt`` (from 0); None: give up.

        Exponential: ``backoff * 2^attempt``, at most ``longest``; never less than what the server
        asked for, and no retry at all when that is more than ``longest``.
        """
        if asked is not None and asked > self.longest:
            return None
        return max(min(self.backoff * 2.0 ** min(attempt, 60), self.longest), asked or 0.0)
