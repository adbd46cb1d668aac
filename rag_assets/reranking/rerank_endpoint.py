"""One request to a ``/rerank`` endpoint: how it is sent, tried again, and read.

Two dialects are spoken. ``cohere`` is that of Cohere, Jina, vLLM, llama.cpp and others: ``query``,
``documents`` and ``model`` are sent, ``results`` with ``index`` and ``relevance_score`` come back.
``tei`` is that of Text Embeddings Inference: ``query`` and ``texts`` are sent, a list of ``index``
and ``score`` comes back.
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.retries import retry_after, wait_before
from rag_assets.reranking.candidates import Scores

Dialect = Literal["cohere", "tei"]

_REFUSED = {
    401: "the API key is not accepted",
    403: "access is denied",
    404: "there is no such address or model",
}
_TRANSIENT = (408, 409, 425, 429)
_REASON_LENGTH = 200
_MOST_BYTES = 64 * 2**20


class Failed(NamedTuple):
    """Why a request has no scores; ``transient``: the server did not serve, despite retries."""

    reason: str
    transient: bool = False


class _Attempt(NamedTuple):
    """How one attempt ended; ``asked`` are the seconds that the server wants to be left alone."""

    found: Scores | Failed
    asked: float | None = None


class RerankEndpoint:
    """A server that reranks."""

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect = "cohere",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the variable is not set, or holds what no header can.
        """
        self._endpoint = endpoint
        self._dialect = dialect
        self._sleep = sleep
        self._key = _key(endpoint)
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._counted: list[int] = []
        self._answered: list[int] = []

    @property
    def n_asked(self) -> int:
        """Documents that were scored so far."""
        return sum(self._answered)

    @property
    def tokens(self) -> int | None:
        """Tokens of what was sent so far, as the server counts them; None: it does not tell."""
        return sum(self._counted) if self._counted else None

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """
        end = self._endpoint
        for attempt in range(end.retries + 1):
            last = self._attempt(query, documents)
            again = isinstance(last.found, Failed) and last.found.transient
            if not again or attempt == end.retries:
                return last.found
            wait = wait_before(attempt, last.asked, end.backoff, end.max_backoff)
            if wait is None:
                break
            self._sleep(wait)
        return Failed(f"told to wait {last.asked:.0f} s, which is too long", transient=True)

    def _attempt(self, query: str, documents: Sequence[str]) -> _Attempt:
        try:
            with self._opener.open(
                self._request(query, documents), timeout=self._endpoint.timeout
            ) as response:
                content = response.read()  # given a number, it takes a half answer for a whole one
        except urllib.error.HTTPError as error:
            return self._refused(error)
        except TimeoutError:
            return self._late()
        except (OSError, http.client.HTTPException) as error:
            if isinstance(getattr(error, "reason", None), TimeoutError):
                return self._late()
            what = self._plain(str(getattr(error, "reason", None) or error) or type(error).__name__)
            return _Attempt(Failed(f"the connection failed ({what})", transient=True))
        found = _scores(content, len(documents))
        if not isinstance(found, Failed):
            self._answered.append(len(documents))
            counted = _tokens(content)
            self._counted += [] if counted is None else [counted]
        return _Attempt(found)

    def _late(self) -> _Attempt:
        return _Attempt(Failed(f"no answer within {self._endpoint.timeout:g} s", transient=True))

    def _request(self, query: str, documents: Sequence[str]) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        body: dict[str, Any] = {"query": query, "texts": list(documents), "truncate": True}
        if self._dialect == "cohere":
            body = {"query": query, "documents": list(documents), "top_n": len(documents)}
            body["model"] = self._endpoint.model
        return urllib.request.Request(
            f"{self._endpoint.base_url.rstrip('/')}/rerank",
            json.dumps(body).encode(),
            headers,
            method="POST",
        )

    def _refused(self, error: urllib.error.HTTPError) -> _Attempt:
        with error:
            what = self._plain(_message(error))
        reason = f"HTTP {error.code}: {what}"
        if error.code in _REFUSED:
            raise ModelUnavailable(
                f"{self._endpoint.place}/rerank, model '{self._endpoint.model}': "
                f"{_REFUSED[error.code]} ({reason}); check base_url, model and api_key_env"
            )
        transient = error.code in _TRANSIENT or error.code >= 500
        headers = {name.lower(): text for name, text in error.headers.items()}
        return _Attempt(Failed(reason, transient), retry_after(headers) if transient else None)

    def _plain(self, text: str) -> str:
        """Return one short line without the key: some servers repeat it."""
        if self._key is not None:
            text = text.replace(self._key, "[key]")
        line = " ".join(text.split())
        return line if len(line) <= _REASON_LENGTH else f"{line[:_REASON_LENGTH]}..."


def _key(endpoint: Endpoint) -> str | None:
    if endpoint.api_key_variable is None:
        return None
    key = endpoint.api_key()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"environment variable {endpoint.api_key_variable} holds no API key: a key has "
            "printable ASCII characters only"
        )
    return key


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key is for the server that was named."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Return nothing, which makes the redirect an HTTPError."""
        return


def _scores(content: bytes, n: int) -> Scores | Failed:
    """Return the scores of an answer in the order of the documents, checked."""
    try:
        answer = json.loads(content)
        rows = answer["results"] if isinstance(answer, Mapping) else answer
        found = {_index(row, n): _score(row) for row in rows}
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        what = " ".join(str(error).split())[:_REASON_LENGTH]
        return Failed(f"the answer is not what the protocol says: {what}")
    if len(rows) != n or len(found) != n:
        return Failed(f"the answer has {len(found)} scores for {n} documents")
    return np.array([found[place] for place in range(n)], dtype=np.float64)


def _tokens(content: bytes) -> int | None:
    """Return ``usage.total_tokens`` of an answer, which Jina and vLLM tell; None without it."""
    answer = json.loads(content)
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    counted = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return counted if isinstance(counted, int) and not isinstance(counted, bool) else None


def _index(row: Mapping[str, Any], n: int) -> int:
    index = row["index"]
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < n:
        raise ValueError(f"index {index!r} is no number of a document, from 0 to {n - 1}")
    return index


def _score(row: Mapping[str, Any]) -> float:
    score = row["relevance_score"] if "relevance_score" in row else row["score"]
    number = isinstance(score, int | float) and not isinstance(score, bool)
    if not number or not math.isfinite(score):
        raise ValueError(f"score {score!r} is no finite number")
    return float(score)


def _message(error: urllib.error.HTTPError) -> str:
    """Return what the server says is wrong."""
    try:
        body = json.loads(error.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        body = None
    for name in ("message", "detail", "error"):
        told = body.get(name) if isinstance(body, Mapping) else None
        if isinstance(told, Mapping):
            told = told.get("message")
        if told:
            return str(told)
    return str(error.reason) or "no reason given"
