"""Chat models behind a server that speaks the OpenAI protocol, by the ``openai`` package."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_assets.errors import UsageError
from rag_assets.llm.client import REFUSAL, STOP, Answer, ChatRequest, Completion, Failure
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.retries import retry_after, wait_before

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

ENDPOINT_STATUSES = {
    401: "the API key is not accepted",
    403: "access is denied",
    404: "there is no such address or model",
}
TRANSIENT_STATUSES = (408, 409, 425, 429)
_REASON_LENGTH = 200

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
        self._key = endpoint.api_key()
        self._sleep = sleep
        self._client = open_client(endpoint, self._key)

    @property
    def identity(self) -> Mapping[str, str]:
        """The model's name and its server."""
        return self._endpoint.described

    def complete(self, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Answer each request, several at a time, in the order of the requests."""
        workers = min(self._endpoint.concurrency, len(requests)) or 1
        with ThreadPoolExecutor(workers, thread_name_prefix="llm") as pool:
            return list(pool.map(self._answer, requests))

    def _answer(self, request: ChatRequest) -> Answer:
        end = self._endpoint
        for attempt in range(end.retries + 1):
            last = self._attempt(request)
            if not last.again or attempt == end.retries:
                return last.answer
            wait = wait_before(attempt, last.asked, end.backoff, end.max_backoff)
            if wait is None:
                break
            _log.info("%s: %s; again in %.1f s", end.place, last.answer, wait)
            self._sleep(wait)
        return Failure(f"told to wait {last.asked:.0f} s, which is too long", "transient")

    def _attempt(self, request: ChatRequest) -> _Attempt:
        import openai

        try:
            return _Attempt(_completion(self._send(request)))
        except openai.APIStatusError as error:
            return self._refused(error)
        except openai.APITimeoutError:
            reason = f"no answer within {self._endpoint.timeout:g} s"
            return _Attempt(Failure(reason, "transient", maybe_paid=True), again=True)
        except openai.APIConnectionError as error:
            # Also an answer that ends before its announced length.
            return self._unreachable(error)
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
            what = self._plain(str(error) or type(error).__name__)
            return _Attempt(_malformed(what))

    def _send(self, request: ChatRequest) -> object:
        optional = {"temperature": request.temperature, "seed": request.seed}
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [message._asdict() for message in request.messages],
            self._endpoint.token_limit: request.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
            **without_key(self._key),
        }
        return self._client.chat.completions.create(**body)

    def _refused(self, error: APIStatusError) -> _Attempt:
        status = error.status_code
        what = self._plain(server_message(error))
        if status in ENDPOINT_STATUSES:
            place = f"{self._endpoint.place}, model '{self._endpoint.model}'"
            reason = f"{place}: {ENDPOINT_STATUSES[status]} (HTTP {status}: {what})"
            return _Attempt(Failure(reason, "endpoint"))
        reason = f"HTTP {status}: {what}"
        if status in TRANSIENT_STATUSES or status >= 500:
            asked = retry_after(error.response.headers)
            return _Attempt(Failure(reason, "transient"), again=True, asked=asked)
        return _Attempt(Failure(reason))

    def _unreachable(self, error: Exception) -> _Attempt:
        what = self._plain(str(error.__cause__ or error))
        reason = f"{self._endpoint.place}: the connection failed ({what})"
        return _Attempt(Failure(reason, "transient", maybe_paid=True), again=True)

    def _plain(self, text: str) -> str:
        """Return one short line without the key: some servers repeat it."""
        return plain(text, self._endpoint, self._key)


def open_client(endpoint: Endpoint, key: str | None) -> OpenAI:
    """Return a client of the package ``openai``; nothing is sent yet.

    Its requests need :func:`without_key` where there is none: the package insists on a key.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        from openai import OpenAI
    except ImportError as error:
        raise UsageError(
            "a model behind a server needs the package openai: pip install 'rag-assets[api]'"
        ) from error
    own = key or "unused"
    # Retries are ours: theirs have no settings.
    return OpenAI(api_key=own, base_url=endpoint.base_url, timeout=endpoint.timeout, max_retries=0)


def without_key(key: str | None) -> dict[str, Any]:
    """Return what keeps a request from sending a key where there is none."""
    from openai import Omit

    return {} if key else {"extra_headers": {"Authorization": Omit()}}


def plain(text: str, endpoint: Endpoint, key: str | None) -> str:
    """Return one short line without the key, and without user and password of the address."""
    secrets = {endpoint.base_url: endpoint.place}
    if key is not None:
        secrets[key] = "[key]"
    for secret, shown in secrets.items():
        text = text.replace(secret, shown)
    line = " ".join(text.split())
    return line if len(line) <= _REASON_LENGTH else f"{line[:_REASON_LENGTH]}..."


def _completion(response: Any) -> Answer:  # noqa: ANN401  (servers send what they like)
    """Return the first choice of a response, checked: the package believes what it is sent."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list):
        return _malformed("no list of choices")
    if not choices:
        return _malformed("it has no choices")
    choice = choices[0]
    message = choice.message
    refusal = getattr(message, "refusal", None)
    filtered = choice.finish_reason == "content_filter"
    text = refusal or message.content
    usage = getattr(response, "usage", None)
    counts = (_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))
    if refusal or filtered:
        return Completion(str(text or ""), *counts, REFUSAL)
    if not isinstance(text, str):
        return _malformed("it has no text")
    return Completion(text, *counts, str(choice.finish_reason or STOP))


def _malformed(what: str) -> Failure:
    return Failure(f"the answer is not what the protocol says: {what}", maybe_paid=True)


def _count(usage: object, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value >= 0 else None


def server_message(error: APIStatusError) -> str:
    """Return what the server says is wrong."""
    body = error.body
    if isinstance(body, dict) and body.get("message"):
        return str(body["message"])
    return error.response.reason_phrase or "no reason given"
