"""Chat models behind a server that speaks the OpenAI protocol, by the ``openai`` package."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_assets.errors import UsageError
from rag_assets.llm.client import (
    REFUSAL,
    STOP,
    Answer,
    ChatRequest,
    Completion,
    Failure,
    FailureKind,
    now,
)
from rag_assets.llm.endpoint import Endpoint
from rag_assets.servers.failures import ServerFailure, answered, malformed, wait_before
from rag_assets.servers.transport import Server, Transport

if TYPE_CHECKING:
    from openai import OpenAI

_log = logging.getLogger(__name__)


class _Attempt(NamedTuple):
    """How one attempt ended; ``asked`` are the seconds that the server wants to be left alone."""

    answer: Answer
    again: bool = False
    asked: float | None = None


class OpenAICompatible:
    """A model at an :class:`Endpoint`."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the package ``openai`` is not installed, or the variable is not set.
        """
        self._endpoint = endpoint
        self._sleep = sleep
        server = endpoint.server()
        self._secrets = server.secrets
        self._client = open_client(server)
        self._quiet_until = 0.0

    @property
    def identity(self) -> Mapping[str, str]:
        """The model's name and its server."""
        return self._endpoint.described

    @property
    def concurrency(self) -> int:
        """As the endpoint says."""
        return self._endpoint.concurrency

    def answer(self, request: ChatRequest) -> Answer:
        """Ask, and ask again where the server did not serve.

        A server that says how long it wants to be left alone (``Retry-After``) is left alone by
        the requests after this one too.
        """
        end, quiet = self._endpoint, self._quiet_until - time.monotonic()
        if quiet > 0:
            self._sleep(quiet)
        for attempt in range(end.retries + 1):
            last = self._attempt(request)
            if not last.again or attempt == end.retries:
                return last.answer
            wait = wait_before(attempt, last.asked, end.backoff, end.max_backoff)
            if wait is None:
                break
            if last.asked is not None:
                self._quiet_until = max(self._quiet_until, time.monotonic() + wait)
            _log.info("%s: %s; again in %.1f s", end.place, last.answer, wait)
            self._sleep(wait)
        return Failure(f"told to wait {last.asked:.0f} s, which is too long", "transient")

    def _attempt(self, request: ChatRequest) -> _Attempt:
        started = time.perf_counter()
        try:
            found = answered(lambda: _completion(self._send(request)), self._secrets)
        except ServerFailure as failure:
            return self._failed(failure)
        if isinstance(found, Completion):
            found = found._replace(seconds=time.perf_counter() - started, time=now())
        return _Attempt(found)

    def _send(self, request: ChatRequest) -> object:
        optional = {"temperature": request.temperature, "seed": request.seed}
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [message._asdict() for message in request.messages],
            self._endpoint.token_limit: request.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
        }
        return self._client.chat.completions.create(**body)

    def _failed(self, failure: ServerFailure) -> _Attempt:
        place, reason = self._endpoint.place, str(failure)
        paid = failure.kind != "refused"  # also of an answer that ends too early
        if failure.final is not None:
            place = f"{place}, model '{self._endpoint.model}'"
            return _Attempt(Failure(f"{place}: {failure.final} ({reason})", "endpoint"))
        if failure.kind == "unconnected":
            reason = f"{place}: {reason}"
        kind: FailureKind = "transient" if failure.transient else "answer"
        return _Attempt(Failure(reason, kind, paid), failure.transient, failure.asked)


def open_client(server: Server) -> OpenAI:
    """Return a client of the package ``openai``; nothing is sent yet.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise UsageError(
            "a model behind a server needs the package openai: pip install 'rag-assets[api]'"
        ) from error
    import httpx2

    # Key, user and query are added on the way. Retries are ours: theirs have no settings.
    transport: Any = Transport(httpx2, server)
    carried = httpx2.Client(transport=transport, trust_env=False)
    return openai.OpenAI(
        api_key="unused", base_url=server.place, http_client=carried, max_retries=0
    )


def _completion(response: Any) -> Answer:  # noqa: ANN401  (servers send what they like)
    """Return the first choice of a response, checked: the package believes what it is sent.

    Raises:
        ServerFailure: it is not what the protocol says.
    """
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list):
        raise malformed("no list of choices")
    if not choices:
        raise malformed("it has no choices")
    choice = choices[0]
    message = choice.message
    refusal = getattr(message, "refusal", None)
    filtered = choice.finish_reason == "content_filter"
    text = refusal or message.content
    usage = getattr(response, "usage", None)
    counts = (_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))
    reason = str(choice.finish_reason or STOP)
    if refusal or filtered:
        text, reason = str(text or ""), REFUSAL
    if not isinstance(text, str):
        raise malformed("it has no text")
    served = getattr(response, "model", None)
    served = served if isinstance(served, str) and served else None
    told = f"{text}{reason}{served}"
    if not told.isascii():
        told.encode()  # half a character of JSON, such as \ud800, cannot be stored
    return Completion(text, *counts, reason, served_model=served)


def _count(usage: object, name: str) -> int | None:
    value = getattr(usage, name, None)
    # More than a table holds is no count.
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**31 else None
