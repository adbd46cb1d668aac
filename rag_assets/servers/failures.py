"""The one place where what went wrong with a request becomes an error of ours, or another attempt.

Nothing foreign is chained to it: errors of libraries hold requests, answers and addresses, and
Dagster stores an error with all that led to it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Literal, NamedTuple, TypeVar

from rag_assets.errors import RagAssetsError
from rag_assets.servers.secrets import Secrets

REFUSED: Mapping[int, str] = {
    401: "the API key is not accepted",
    403: "access is denied",
    404: "no such address or model",
}
"""Statuses after which no request can succeed."""

_TRANSIENT = (408, 409, 425, 429)
MAX_WRAPPERS = 20
"""Errors around ours, of which each has the next as its cause."""

Kind = Literal["refused", "late", "unconnected", "malformed"]
Result = TypeVar("Result")


class Failed(NamedTuple):
    """Why something has no result, where the others have theirs.

    Attributes:
        reason: one phrase, without any secret.
        retryable: the server did not serve in spite of retries; it may later.
        maybe_paid: whether the server may have done the work and charged for it.
    """

    reason: str
    retryable: bool = False
    maybe_paid: bool = False


class ServerFailure(Exception):
    """Why a request has no answer; ``str(failure)`` is one line without credentials.

    Attributes:
        kind: ``refused``: by a status; ``late``: the time was over; ``unconnected``: there was no
            connection, or it ended too early; ``malformed``: the answer cannot be read.
        status: of a refusal.
        asked: seconds that the server wants to be left alone.
    """

    def __init__(
        self, reason: str, kind: Kind, status: int | None = None, asked: float | None = None
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.status = status
        self.asked = asked

    @property
    def reason(self) -> str:
        """The line."""
        return str(self)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        status = self.status or 0
        return self.kind in ("late", "unconnected") or status in _TRANSIENT or status >= 500

    @property
    def final(self) -> str | None:
        """What is wrong with the address, the key or the model, where no request can succeed."""
        return REFUSED.get(self.status or 0)


def late(timeout: float) -> ServerFailure:
    """Return the failure of a request whose time is over."""
    return ServerFailure(f"no answer within {timeout:g} s", "late")


def unconnected(what: str) -> ServerFailure:
    """Return the failure of a request whose connection failed or ended too early."""
    return ServerFailure(f"the connection failed ({what})", "unconnected")


def malformed(what: str) -> ServerFailure:
    """Return the failure of a request whose answer cannot be read."""
    return ServerFailure(f"the answer does not follow the protocol: {what}", "malformed")


def refused(status: int, what: str, asked: float | None = None) -> ServerFailure:
    """Return the failure of a request that is answered by an error; ``what`` may be empty."""
    reason = what or next((s.phrase for s in HTTPStatus if s == status), "no reason given")
    return ServerFailure(f"HTTP {status}: {reason}", "refused", status, asked)


def answered(ask: Callable[[], Result], secrets: Secrets) -> Result:
    """Return what a client gives, with whatever it raises made a failure.

    Args:
        ask: sends a request and reads the answer, by whatever library.
        secrets: what must not be repeated.

    Raises:
        ServerFailure: the library raised something.
        RagAssetsError: ``ask`` did.
    """
    try:
        return ask()
    except (RagAssetsError, MemoryError):
        raise
    except Exception as error:
        failure = _failure_of(error, secrets)
    raise failure  # out here, nothing is its context


def message_in(body: object) -> str | None:
    """Return what the content of an answer says is wrong, None where it says nothing."""
    for name in ("message", "detail", "error"):
        message = body.get(name) if isinstance(body, Mapping) else None
        if isinstance(message, list) and message:  # Weaviate's and FastAPI's
            message = message[0]
        if isinstance(message, Mapping):  # `reason` is Elasticsearch's, `msg` FastAPI's
            message = message.get("message") or message.get("reason") or message.get("msg")
        if message:
            return str(message)
    return None


def _failure_of(error: BaseException, secrets: Secrets) -> ServerFailure:
    """Return our transport's failure, which libraries wrap; else the answer was not understood."""
    inner: BaseException | None = error
    for _ in range(MAX_WRAPPERS):
        if isinstance(inner, ServerFailure):
            return ServerFailure(str(inner), inner.kind, inner.status, inner.asked)
        if inner is not None:
            inner = inner.__cause__ or inner.__context__ or getattr(inner, "source", None)
    if isinstance(error, RecursionError):
        return malformed("it is nested too deeply")
    if isinstance(error, TypeError | AttributeError | LookupError):
        return malformed("it has another structure")
    return malformed(secrets.line(str(error)) or type(error).__name__)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, None without a valid one.

    Args:
        headers: of the response; looked up as ``retry-after``.
        now: seconds since the epoch, for a header that holds a date; default: the clock's.
    """
    value = (headers.get("retry-after") or "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:  # a date (RFC 9110, section 10.2.3)
            date = parsedate_to_datetime(value).timestamp()
        except (ValueError, OverflowError):
            return None
        seconds = date - (time.time() if now is None else now)
    return max(seconds, 0.0) if math.isfinite(seconds) else None
