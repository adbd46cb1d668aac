"""One request to a ``/rerank`` endpoint: how it is sent, tried again, and read.

Two dialects are spoken. ``cohere`` is that of Cohere, Jina, vLLM, llama.cpp and others: ``query``,
``documents`` and ``model`` are sent, ``results`` with ``index`` and ``relevance_score`` come back.
``tei`` is that of Text Embeddings Inference: ``query`` and ``texts`` are sent, a list of ``index``
and ``score`` comes back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from rag_assets.llm.endpoint import Endpoint
from rag_assets.retrieval.reranking.candidates import Scores
from rag_assets.retrieval.reranking.rerank_answers import Failed, in_order, with_retries
from rag_assets.servers.failures import answered
from rag_assets.servers.transport import Transport

Dialect = Literal["cohere", "tei"]

PATH = "/rerank"


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
        import httpx2

        self._endpoint = endpoint
        self._dialect = dialect
        self._sleep = sleep
        self._server = endpoint.server()
        self._transport = Transport(httpx2, self._server)
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

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """

        def ask() -> Scores | Failed:
            return answered(lambda: self._attempt(query, documents), self._server.secrets)

        return with_retries(ask, self._endpoint, PATH, self._sleep)

    def _attempt(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        body: dict[str, Any] = {"query": query, "texts": list(documents), "truncate": True}
        if self._dialect == "cohere":
            body = {"query": query, "documents": list(documents), "top_n": len(documents)}
            body["model"] = self._endpoint.model
        answer = json.loads(self._transport.post(PATH, body))
        rows = answer["results"] if isinstance(answer, Mapping) else answer
        found = in_order([(row["index"], _score(row)) for row in rows], len(documents))
        if not isinstance(found, Failed):
            self._answered.append(len(documents))
            counted = _tokens(answer)
            self._counted += [] if counted is None else [counted]
        return found


def _score(row: Mapping[str, Any]) -> object:
    return row["relevance_score"] if "relevance_score" in row else row["score"]


def _tokens(answer: object) -> int | None:
    """Return ``usage.total_tokens`` of an answer, which Jina and vLLM tell; None without it."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    counted = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    if not isinstance(counted, int) or isinstance(counted, bool) or not 0 <= counted < 2**31:
        return None
    return counted
