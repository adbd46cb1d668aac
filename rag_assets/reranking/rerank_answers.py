"""How a request to a reranking server ends: scores, a reason why there are none, or another try."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.retries import retry_after, wait_before
from rag_assets.reranking.candidates import Scores

_REFUSED = {
    401: "the API key is not accepted",
    403: "access is denied",
    404: "there is no such address or model",
}
_TRANSIENT = (408, 409, 425, 429)
_REASON_LENGTH = 200


class Failed(NamedTuple):
    """Why a request has no scores; ``transient``: the server did not serve, despite retries."""

    reason: str
    transient: bool = False


class Attempt(NamedTuple):
    """How one attempt ended; ``asked`` are the seconds that the server wants to be left alone."""

    found: Scores | Failed
    asked: float | None = None


def with_retries(
    attempt: Callable[[], Attempt], endpoint: Endpoint, sleep: Callable[[float], None]
) -> Scores | Failed:
    """Return how the last attempt ended; another one follows where the server did not serve."""
    for number in range(endpoint.retries + 1):
        last = attempt()
        again = isinstance(last.found, Failed) and last.found.transient
        if not again or number == endpoint.retries:
            return last.found
        wait = wait_before(number, last.asked, endpoint.backoff, endpoint.max_backoff)
        if wait is None:
            break
        sleep(wait)
    return Failed(f"told to wait {last.asked:.0f} s, which is too long", transient=True)


def refused(
    endpoint: Endpoint, path: str, status: int, what: str, headers: Mapping[str, str]
) -> Attempt:
    """Return how an attempt ended that was answered by an error.

    Args:
        endpoint: who was asked.
        path: of the request, behind the endpoint's address.
        status: of the answer.
        what: the server's words, as :func:`plain`.
        headers: of the answer, with names in small letters.

    Raises:
        ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
    """
    reason = f"HTTP {status}: {what}"
    if status in _REFUSED:
        raise ModelUnavailable(
            f"{endpoint.place}{path}, model '{endpoint.model}': {_REFUSED[status]} ({reason}); "
            "check base_url, model and api_key_env"
        )
    transient = status in _TRANSIENT or status >= 500
    return Attempt(Failed(reason, transient), retry_after(headers) if transient else None)


def late(endpoint: Endpoint) -> Attempt:
    """Return how an attempt ended that got no answer in time."""
    return Attempt(Failed(f"no answer within {endpoint.timeout:g} s", transient=True))


def unconnected(what: str) -> Attempt:
    """Return how an attempt ended whose connection failed or ended too early."""
    return Attempt(Failed(f"the connection failed ({what})", transient=True))


def malformed(what: str) -> Failed:
    """Return what is said of an answer that cannot be read."""
    return Failed(f"the answer is not what the protocol says: {plain(what, None)}")


def in_order(rows: Sequence[tuple[object, object]], n: int) -> Scores | Failed:
    """Return the scores of ``n`` documents in their order, from pairs of index and score.

    Raises:
        ValueError: an index is none of ``n`` documents, or a score is no finite number.
    """
    found = {_index(index, n): _score(score) for index, score in rows}
    if len(rows) != n or len(found) != n:
        return Failed(f"the answer has {len(found)} scores for {n} documents")
    return np.array([found[place] for place in range(n)], dtype=np.float64)


def plain(text: str, key: str | None) -> str:
    """Return one short line without the key: some servers repeat it."""
    if key:
        text = text.replace(key, "[key]")
    line = " ".join(text.split())
    return line if len(line) <= _REASON_LENGTH else f"{line[:_REASON_LENGTH]}..."


def message_in(body: object) -> str | None:
    """Return what the content of an answer says is wrong, None where it says nothing."""
    for name in ("message", "detail", "error"):
        told = body.get(name) if isinstance(body, Mapping) else None
        if isinstance(told, Mapping):
            told = told.get("message")
        if told:
            return str(told)
    return None


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key, None where none is sent.

    Raises:
        UsageError: its environment variable is not set, or holds what no header can.
    """
    key = endpoint.api_key()
    if key is None:
        return None
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"environment variable {endpoint.api_key_variable} holds no API key: a key has "
            "printable ASCII characters only"
        )
    return key


def _index(index: object, n: int) -> int:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < n:
        raise ValueError(f"index {index!r} is no number of a document, from 0 to {n - 1}")
    return index


def _score(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"score {score!r} is no finite number")
    return float(score)
