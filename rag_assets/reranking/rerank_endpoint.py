"""One request to a ``/rerank`` endpoint: how it is sent, tried again, and read.

Two dialects are spoken. ``cohere`` is that of Cohere, Jina, vLLM, llama.cpp and others: ``query``,
``documents`` and ``model`` are sent, ``results`` with ``index`` and ``relevance_score`` come back.
``tei`` is that of Text Embeddings Inference: ``query`` and ``texts`` are sent, a list of ``index``
and ``score`` comes back.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from rag_assets.llm.endpoint import Endpoint
from rag_assets.reranking.candidates import Scores
from rag_assets.reranking.rerank_answers import (
    Attempt,
    Failed,
    in_order,
    key_of,
    late,
    malformed,
    message_in,
    plain,
    refused,
    unconnected,
    with_retries,
)

Dialect = Literal["cohere", "tei"]

_MOST_BYTES = 64 * 2**20


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
        self._key = key_of(endpoint)
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
        return with_retries(lambda: self._attempt(query, documents), self._endpoint, self._sleep)

    def _attempt(self, query: str, documents: Sequence[str]) -> Attempt:
        try:
            with self._opener.open(
                self._request(query, documents), timeout=self._endpoint.timeout
            ) as response:
                content = response.read()  # given a number, it takes a half answer for a whole one
        except urllib.error.HTTPError as error:
            with error:
                what = plain(_message(error), self._key)
            headers = {name.lower(): text for name, text in error.headers.items()}
            return refused(self._endpoint, "/rerank", error.code, what, headers)
        except TimeoutError:
            return late(self._endpoint)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(getattr(error, "reason", None), TimeoutError):
                return late(self._endpoint)
            told = str(getattr(error, "reason", None) or error) or type(error).__name__
            return unconnected(plain(told, self._key))
        found = _scores(content, len(documents))
        if not isinstance(found, Failed):
            self._answered.append(len(documents))
            counted = _tokens(content)
            self._counted += [] if counted is None else [counted]
        return Attempt(found)

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
        return in_order([(row["index"], _score(row)) for row in rows], n)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        return malformed(str(error))


def _score(row: Mapping[str, Any]) -> object:
    return row["relevance_score"] if "relevance_score" in row else row["score"]


def _tokens(content: bytes) -> int | None:
    """Return ``usage.total_tokens`` of an answer, which Jina and vLLM tell; None without it."""
    answer = json.loads(content)
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    counted = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return counted if isinstance(counted, int) and not isinstance(counted, bool) else None


def _message(error: urllib.error.HTTPError) -> str:
    """Return what the server says is wrong."""
    try:
        body = json.loads(error.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        body = None
    return message_in(body) or str(error.reason) or "no reason given"
