"""The connection of ``type: http``: its pace, its retries, and when a server is left alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rag_assets.retrieval.external.request_template import (
    filled,
    filled_url,
    fixed_headers,
    secret_headers,
)
from rag_assets.servers.client import Retries
from rag_assets.servers.failures import ServerFailure, answered, malformed
from rag_assets.servers.transport import MEBIBYTE, Server, Transport

MOST_BYTES = 64 * MEBIBYTE
"""Of one answer."""

GIVE_UP_AFTER = 3
"""Requests in a row that were not served in spite of retries: the others are not sent."""


@dataclass(frozen=True)
class RequestOptions:
    """What is sent, where to, and how often.

    Attributes:
        url: with places in its query.
        method: of HTTP.
        headers: names -> texts, with ``${NAME}`` for variables of the environment.
        body: JSON with places; None sends none.
        timeout: seconds for a request, to the last byte of its answer.
        per_second: most requests in a second; None: as many as there are.
        retries: further attempts where the server did not serve.
        backoff: seconds before the first of them; doubled for each further one.
    """

    url: str
    method: str
    headers: Mapping[str, str]
    body: Any
    timeout: float
    per_second: float | None
    retries: int
    backoff: float


class Connection:
    """A server that is asked, by several threads at once."""

    def __init__(self, options: RequestOptions) -> None:
        """Read the variables; nothing is sent yet.

        Raises:
            UsageError: a variable of a header is not set, or holds what no header can.
        """
        import httpx2

        secret, values = secret_headers(options.headers)
        self._options = options
        self._retries = Retries(options.retries, options.backoff)
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            **fixed_headers(options.headers),
        }
        self._server = Server(
            options.url.partition("?")[0],
            timeout=options.timeout,
            most_bytes=MOST_BYTES,
            headers=tuple(secret.items()),
            hidden=(*values, *secret.values()),
        )
        self._transport = Transport(httpx2, self._server)
        self._lock = threading.Lock()
        self._next = 0.0

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def line(self, problem: Exception) -> str:
        """Return why there is no result: one short line without a credential."""
        return self._server.secrets.line(str(problem))

    def ask(self, values: Mapping[str, object]) -> tuple[Any, float]:
        """Return the JSON of an answer, and the seconds from the request until it was there.

        Args:
            values: what stands for the places of the request.

        Raises:
            ServerFailure: there is none, in spite of retries.
        """
        return self._retries.answer(lambda: self._timed(values), self._server.place)

    def _timed(self, values: Mapping[str, object]) -> tuple[Any, float]:
        self._wait_for_turn()
        started = time.perf_counter()
        answer = answered(lambda: self._attempt(values), self._server.secrets)
        return answer, time.perf_counter() - started

    def _attempt(self, values: Mapping[str, object]) -> object:
        options = self._options
        parts = urlsplit(filled_url(options.url, values))
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        body = b"" if options.body is None else json.dumps(filled(options.body, values)).encode()
        content = self._transport.send(options.method, target, self._headers, body)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise malformed("it is no JSON") from None

    def _wait_for_turn(self) -> None:
        if self._options.per_second is None:
            return
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + 1 / self._options.per_second
        time.sleep(max(0.0, turn - time.monotonic()))


class Outage:
    """Whether a server serves at all: where it does not, requests that are left are not sent."""

    def __init__(self) -> None:
        """Begin with a server that serves."""
        self._lock = threading.Lock()
        self._n_unserved = 0
        self._reason: str | None = None

    def watched(self, ask: Callable[[], tuple[Any, float]]) -> tuple[Any, float]:
        """Return what a request gives.

        Raises:
            ServerFailure: it has no answer; or none is expected, so it was not sent.
        """
        if self._reason is not None:
            raise ServerFailure(f"not asked: {self._reason}", "unconnected")
        try:
            found = ask()
        except ServerFailure as failure:
            self._note(failure)
            raise
        with self._lock:
            self._n_unserved = 0
        return found

    def _note(self, failure: ServerFailure) -> None:
        with self._lock:
            self._n_unserved = self._n_unserved + 1 if failure.retryable else 0
            if failure.final is not None:
                self._reason = f"{failure.final} ({failure})"
            elif self._n_unserved >= GIVE_UP_AFTER:
                self._reason = f"{GIVE_UP_AFTER} requests in a row failed, the last by: {failure}"
