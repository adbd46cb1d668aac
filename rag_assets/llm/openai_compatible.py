"""Chat models behind a server that speaks the OpenAI protocol, by the ``openai`` package."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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
from rag_assets.servers.failures import ServerFailure, answered, malformed
from rag_assets.servers.transport import Server, Transport

if TYPE_CHECKING:
    from openai import OpenAI


class OpenAICompatible:
    """A model at an :class:`Endpoint`."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the package ``openai`` is not installed, or the variable is not set.
        """
        self._endpoint = endpoint
        self._retries = endpoint.retrying(sleep)
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
        quiet = self._quiet_until - time.monotonic()
        if quiet > 0:
            self._retries.sleep(quiet)
        try:
            place = self._endpoint.place
            return self._retries.answer(lambda: self._attempt(request), place, self._leave_alone)
        except ServerFailure as failure:
            return self._failed(failure)

    def _leave_alone(self, failure: ServerFailure, seconds: float) -> None:
        if failure.asked is not None:
            self._quiet_until = max(self._quiet_until, time.monotonic() + seconds)

    def _attempt(self, request: ChatRequest) -> Answer:
        optional = {"temperature": request.temperature, "seed": request.seed}
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [message._asdict() for message in request.messages],
            "max_tokens": request.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
        }
        started = time.perf_counter()
        create = self._client.chat.completions.create
        completion = answered(lambda: _completion(create(**body)), self._secrets)
        return completion._replace(seconds=time.perf_counter() - started, time=now())

    def _failed(self, failure: ServerFailure) -> Failure:
        place, reason = self._endpoint.place, str(failure)
        paid = failure.kind != "refused"  # also of an answer that ends too early
        if failure.final is not None:
            place = f"{place}, model '{self._endpoint.model}'"
            return Failure(f"{place}: {failure.final} ({reason})", "endpoint")
        if failure.kind == "unconnected":
            reason = f"{place}: {reason}"
        kind: FailureKind = "transient" if failure.retryable else "answer"
        return Failure(reason, kind, paid)


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


def _completion(response: Any) -> Completion:  # noqa: ANN401  (servers send what they like)
    """Return the first choice of a response, checked: the package believes what it is sent.

    Raises:
        ServerFailure: it is not what the protocol says.
    """
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise malformed("it has no list of choices")
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
    f"{text}{reason}{served}".encode()  # half a character of JSON, such as \ud800, is no text
    return Completion(text, *counts, reason, served_model=served)


def _count(usage: object, name: str) -> int | None:
    value = getattr(usage, name, None)
    # More than a table holds is no count.
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**31 else None
