"""The one client of servers: its options, when a request is sent again, when none is sent any more.

Whatever a model is served by, the same options say where it is and how often it is asked.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from rag_assets.errors import ModelUnavailable, NotServed, UsageError
from rag_assets.options import Number, Options
from rag_assets.servers.failures import Failed, ServerFailure, answered, malformed
from rag_assets.servers.secrets import key_of
from rag_assets.servers.transport import MEBIBYTE, Server, Transport

MAX_WAIT = 60.0
"""Seconds before a retry; a server that wants to be left alone for longer is not asked again."""

MAX_UNSERVED = 8
"""Requests in a row that a server did not serve in spite of retries: it will not serve the rest."""

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class RequestOptions(Options):
    """Timeouts and retries of a server; no result depends on them."""

    of_requests: ClassVar[frozenset[str]] = frozenset({"timeout", "retries", "backoff"})

    timeout: Annotated[Number, Field(gt=0)] = 60.0
    retries: Annotated[int, Field(ge=0, le=20, strict=True)] = 4
    backoff: Annotated[Number, Field(ge=0)] = 1.0


def checked_address(base_url: str, *, name: str = "") -> str:
    """Return the address of a server; raises ValueError, with its ``name`` and nothing of it."""
    try:
        parts, _ = urlsplit(base_url), urlsplit(base_url).port
    except ValueError:
        raise ValueError(f"{name}must have a host, and a port from 0 to 65535") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name}must be an address that begins with http:// or https://")
    return base_url


def _without_secret(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password or query; put a key into api_key_env")
    return base_url.rstrip("/")


ServerAddress = Annotated[str, AfterValidator(checked_address)]
"""Where a server is; it may hold a user, a password and a query, which are shown nowhere."""

Address = Annotated[ServerAddress, AfterValidator(_without_secret)]
"""Where a server is, without a secret."""


class ServedModelOptions(RequestOptions):
    """The address of a served model, and its limits; ``api_key_env`` names a variable.

    Only the name of the variable is ever stored: the key is in no fingerprint, log or error.
    """

    of_requests: ClassVar[frozenset[str]] = RequestOptions.of_requests | {
        "api_key_env",
        "concurrency",
        "max_calls",
    }

    model: str = Field(min_length=1)
    base_url: ServerAddress
    api_key_env: str | None = None
    concurrency: Annotated[int, Field(ge=1, strict=True)] = 4
    max_calls: Annotated[int, Field(ge=0, strict=True)] | None = None

    @property
    def place(self) -> str:
        """The address as it may be shown and stored: without user, password and query."""
        return Server(self.base_url).place

    @property
    def served_model(self) -> dict[str, str]:
        """The model's name and its server: what stands for them in caches and fingerprints."""
        return {"model": self.model, "server": self.place}

    def server(self, max_mebibytes: int = 16) -> Server:
        """Return who is asked, with the key, and the bounds of a request.

        Raises:
            UsageError: the key's variable is not set, or holds what no header can.
        """
        key = None if self.api_key_env is None else key_of(self.api_key_env)
        if key == "":
            raise UsageError(
                f"environment variable {self.api_key_env} is not set; it must hold the API key of "
                f"{self.place}"
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"environment variable {self.api_key_env} holds no API key: a key has printable "
                "ASCII characters only"
            )
        most = max_mebibytes * MEBIBYTE
        return Server(self.base_url, key, timeout=self.timeout, most_bytes=most)


@dataclass
class Retries:
    """How often a request is sent again where the server did not serve.

    A server that says how long it wants to be left alone (``Retry-After``) is left alone by the
    requests after this one too.

    Attributes:
        count: further attempts.
        backoff: seconds before the first of them; doubled for each further one.
        server: who is asked.
        quiet_until: when the server may be asked again, on the monotonic clock.
    """

    count: int
    backoff: float
    server: Server
    quiet_until: float = 0.0

    def answer(self, ask: Callable[[], Result]) -> Result:
        """Return what an attempt gives; whatever else ``ask`` raises is a failure of the server.

        Raises:
            ServerFailure: the last attempt failed, or the server asked for too long a wait.
        """
        quiet = self.quiet_until - time.monotonic()
        if quiet > 0:
            time.sleep(quiet)
        for attempt in range(self.count + 1):
            try:
                return answered(ask, self.server.secrets)
            except ServerFailure as failure:
                last = failure
            if not last.retryable or attempt == self.count:
                break
            if last.asked is not None and last.asked > MAX_WAIT:
                problem = f"the server asked for {last.asked:.0f} s (Retry-After)"
                reason = f"{last}: {problem}; at most {MAX_WAIT:g} s are waited"
                last = ServerFailure(reason, last.kind, last.status, last.asked)
                break
            wait = max(min(self.backoff * 2.0**attempt, MAX_WAIT), last.asked or 0.0)
            _log.info("%s: %s; again in %.1f s", self.server.place, last, wait)
            if last.asked is not None:
                self.quiet_until = max(self.quiet_until, time.monotonic() + wait)
            time.sleep(wait)
        raise last  # out here, nothing is its context


def token_count(value: object) -> int | None:
    """Return a number of tokens that a server tells; None where it is no count."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    return None


class ModelClient:
    """Asks a model on a server: what chat models, embeddings and rerankers have in common."""

    def __init__(self, options: ServedModelOptions, *, max_mebibytes: int = 16) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            options: where the model is, and how often it is asked.
            max_mebibytes: of an answer.

        Raises:
            UsageError: the variable is not set, or holds what no header can.
        """
        import httpx2

        self.options = options
        self.server = options.server(max_mebibytes)
        self._transport = Transport(httpx2, self.server)
        self._retries = Retries(options.retries, options.backoff, self.server)
        self._token_counts: list[int] = []

    @property
    def tokens(self) -> int | None:
        """Tokens of what was sent so far, as the server counts them; None: it does not tell."""
        return sum(self._token_counts) if self._token_counts else None

    def count_tokens(self, told: object) -> None:
        """Add the tokens of a request, where the server told a number."""
        if (number := token_count(told)) is not None:
            self._token_counts.append(number)

    @property
    def concurrency(self) -> int:
        """How many requests it may be given at a time."""
        return self.options.concurrency

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401 (JSON)
        """Return the JSON that answers one that is sent, once, to a path behind the address's own.

        Raises:
            ServerFailure: there is no answer within the bounds, or it is an error or no JSON.
        """
        headers = {"content-type": "application/json", "accept": "application/json"}
        target = f"{urlsplit(self.server.address).path.rstrip('/')}{path}"
        answer = self._transport.send("POST", target, headers, json.dumps(body).encode())
        try:
            return json.loads(answer)
        except ValueError:
            problem = malformed("it is not JSON")
        raise problem  # out here, nothing is its context

    def result(self, ask: Callable[[], Result]) -> Result | Failed:
        """Return what an attempt gives, or why this request has no result.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """
        try:
            return self._retries.answer(ask)
        except ServerFailure as failure:
            last = failure
        if last.final is not None:
            raise ModelUnavailable(
                f"model '{self.options.model}' at {self.server.place} is not available: "
                f"{last.final} ({last}); check base_url, model and api_key_env"
            )
        place = f"{self.server.place}: " if last.kind == "unconnected" else ""
        return Failed(f"{place}{last}", last.retryable, maybe_paid=last.kind != "refused")


class Outage:
    """Whether a server serves at all: where it does not, requests that are left are not sent.

    It does not where no request can succeed, or after ``MAX_UNSERVED`` in a row that failed in
    spite of retries. For any thread.

    Attributes:
        server: what it is called in the error.
        reason: why nothing is sent any more; None: the server serves.
    """

    def __init__(self, server: str = "") -> None:
        """Begin with a server that serves."""
        self.server = server
        self.reason: str | None = None
        self._lock = threading.Lock()
        self._n_unserved = 0

    def note(self, failure: Failed | ServerFailure | None) -> None:
        """Take notice of how a request ended; None: it has an answer."""
        with self._lock:
            is_unserved = failure is not None and failure.retryable
            self._n_unserved = self._n_unserved + 1 if is_unserved else 0
            if self._n_unserved >= MAX_UNSERVED:
                row = f"{MAX_UNSERVED} requests in a row failed in spite of retries"
                reason = failure.reason if failure is not None else ""
                self.reason = f"{row}, the last one: {reason}"
            elif isinstance(failure, ServerFailure) and failure.final is not None:
                self.reason = f"{failure.final} ({failure})"

    def check(self) -> None:
        """Check that the server serves.

        Raises:
            NotServed: it does not.
        """
        if self.reason is not None:
            problem = f"{self.server}: {self.reason}; the answers so far are stored"
            raise NotServed(f"{problem}, run again later")
