"""When a request is sent again, and when a server is left alone: one rule for all servers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from rag_assets.options import Number, Options
from rag_assets.servers.failures import Failed, ServerFailure

MAX_WAIT = 60.0
"""Seconds before a retry; a server that wants to be left alone for longer is not asked again."""

MAX_UNSERVED = 8
"""Requests in a row that a server did not serve in spite of retries: it will not serve the rest."""

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class RequestOptions(Options):
    """How long and how often a server is asked; no result depends on it."""

    of_requests: ClassVar[frozenset[str]] = frozenset({"timeout", "retries", "backoff"})

    timeout: Annotated[Number, Field(gt=0)] = 60.0
    retries: Annotated[int, Field(ge=0, le=20, strict=True)] = 4
    backoff: Annotated[Number, Field(ge=0)] = 1.0


def _address(base_url: str) -> str:
    try:
        parts, _ = urlsplit(base_url), urlsplit(base_url).port
    except ValueError as error:
        raise ValueError("must be an address with a host and a port from 0 to 65535") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password or query; put a key into api_key_env")
    return base_url.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]
"""Where a server is, without a secret."""


class ServedModelOptions(RequestOptions):
    """Where a model is served, and how much it may be asked; ``api_key_env`` names a variable."""

    of_requests: ClassVar[frozenset[str]] = RequestOptions.of_requests | {
        "api_key_env",
        "concurrency",
        "max_calls",
    }

    model: str = Field(min_length=1)
    base_url: str
    api_key_env: str | None = None
    concurrency: Annotated[int, Field(ge=1, strict=True)] = 4
    max_calls: Annotated[int, Field(ge=0, strict=True)] | None = None


@dataclass
class Retries:
    """How often a request is sent again where the server did not serve.

    A server that says how long it wants to be left alone (``Retry-After``) is left alone by the
    requests after this one too.

    Attributes:
        count: further attempts.
        backoff: seconds before the first of them; doubled for each further one.
        longest: seconds before one at most; a longer ``Retry-After`` ends the attempts.
        sleep: waits.
        quiet_until: when the server may be asked again, on the monotonic clock.
    """

    count: int
    backoff: float
    longest: float = MAX_WAIT
    sleep: Callable[[float], None] = time.sleep
    quiet_until: float = 0.0

    def answer(self, ask: Callable[[], Result], place: str) -> Result:
        """Return what an attempt gives; ``place`` is who is asked, for the log.

        Raises:
            ServerFailure: the last attempt failed, or the server asked for too long a wait.
        """
        quiet = self.quiet_until - time.monotonic()
        if quiet > 0:
            self.sleep(quiet)
        for attempt in range(self.count + 1):
            try:
                return ask()
            except ServerFailure as failure:
                last = failure
            if not last.retryable or attempt == self.count:
                break
            wait = self.wait_before(attempt, last.asked)
            if wait is None:
                problem = f"the server asked for {last.asked:.0f} s (Retry-After)"
                reason = f"{problem}; at most {self.longest:g} s are waited"
                last = ServerFailure(f"{last}: {reason}", last.kind, last.status, last.asked)
                break
            _log.info("%s: %s; again in %.1f s", place, last, wait)
            if last.asked is not None:
                self.quiet_until = max(self.quiet_until, time.monotonic() + wait)
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


class Outage:
    """Whether a server serves at all: where it does not, requests that are left are not sent.

    It does not where no request can succeed, or after ``MAX_UNSERVED`` in a row that failed in
    spite of retries. For any thread.

    Attributes:
        reason: why nothing is sent any more; None: the server serves.
    """

    def __init__(self) -> None:
        """Begin with a server that serves."""
        self.reason: str | None = None
        self._lock = threading.Lock()
        self._n_unserved = 0

    def note(self, failure: Failed | ServerFailure | None) -> None:
        """Take notice of how a request ended; None: it has an answer."""
        with self._lock:
            is_unserved = failure is not None and failure.retryable
            self._n_unserved = self._n_unserved + 1 if is_unserved else 0
            if self._n_unserved >= MAX_UNSERVED:
                row = f"{MAX_UNSERVED} requests in a row were not served in spite of retries"
                reason = failure.reason if failure is not None else ""
                self.reason = f"{row}, the last one: {reason}"
            elif isinstance(failure, ServerFailure) and failure.final is not None:
                self.reason = f"{failure.final} ({failure})"
