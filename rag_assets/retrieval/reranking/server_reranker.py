"""Rerankers that ask a server: what they share, and ``type: rerank_api``.

It is a reranking model behind the ``/rerank`` endpoint of a server. Two dialects are spoken.
``cohere`` is that of Cohere, Jina, vLLM, llama.cpp and others: ``query``, ``documents`` and
``model`` are sent, ``results`` with ``index`` and ``relevance_score`` come back. ``tei`` is that of
Text Embeddings Inference: ``query`` and ``texts`` are sent, a list of ``index`` and ``score`` comes
back.
"""

from __future__ import annotations

import json
import time
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from rag_assets.llm.endpoint import Endpoint
from rag_assets.options import Number
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.server_scores import (
    DocumentScorer,
    RequestOptions,
    in_order,
    rerank_by_server,
    with_retries,
)
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.servers.failures import Failed, answered
from rag_assets.servers.transport import Transport

TRANSPORT_OPTIONS = frozenset(
    {"api_key_env", "timeout", "retries", "backoff", "concurrency", "batch_size", "max_calls"}
)
"""Options that change no score."""


class Server(DocumentScorer, Protocol):
    """What scores the documents of a query, and counts."""

    @property
    def n_asked(self) -> int:
        """Documents that were scored so far."""

    @property
    def tokens(self) -> int | None:
        """Tokens of what was sent so far, None where the server does not tell."""


def scored_by_server(
    candidates: Sequence[Candidates],
    server: Server,
    options: RequestOptions,
    workspace: Workspace,
) -> Reranked:
    """Return the score of every candidate of every query, from the cache or by the server.

    Args:
        candidates: of each query.
        server: who is asked.
        options: how, with the folder of the cache.
        workspace: shows the progress and keeps the measurement.
    """
    started = time.perf_counter()
    with workspace.progress("rerank", len(candidates)) as advance:
        found = rerank_by_server(candidates, server, options, advance)
    seconds = time.perf_counter() - started
    n_pairs = len({(one.query, text) for one in candidates for text in one.texts})
    workspace.measure(Usage("ask", server.n_asked, seconds, tokens=server.tokens))
    workspace.measure(Usage("ask", max(0, n_pairs - server.n_asked), cached=True))
    return Reranked(*found)


def _address(base_url: str) -> str:
    try:
        parts, _ = urlsplit(base_url), urlsplit(base_url).port
    except ValueError as error:
        raise ValueError("must be an address with a host and a port from 0 to 65535") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password or query; put a key into api_key_env")
    return base_url.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]
"""Where a server is, without a secret."""


class ServerReranker(RerankedRetriever, ABC):
    """A reranker that a server scores for; its key is in the variable ``api_key_env``.

    ``max_calls`` bounds the requests that one ranking may take.
    """

    model_kind: ClassVar[str | None] = "http"

    base_url: Address
    model: str = Field(min_length=1)
    api_key_env: str | None = Field(default=None, min_length=1)
    batch_size: int = Field(default=32, ge=1, strict=True)
    concurrency: int = Field(default=4, ge=1, le=64, strict=True)
    timeout: Number = Field(default=60.0, gt=0)
    retries: int = Field(default=4, ge=0, le=20, strict=True)
    backoff: Number = Field(default=1.0, ge=0)
    max_calls: int | None = Field(default=None, ge=0, strict=True)

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | TRANSPORT_OPTIONS)

    def passages_by_request(self, depth: int) -> list[int]:
        """Return the sizes of the batches of one query's candidates."""
        starts = range(0, depth, self.batch_size)
        return [min(self.batch_size, depth - start) for start in starts]

    def request_options(self, workspace: Workspace, *, listwise: bool = False) -> RequestOptions:
        """Return how candidates are sent; ``listwise``: those of a query in one request."""
        return RequestOptions(
            self.describe(),
            batch_size=self.batch_size,
            listwise=listwise,
            concurrency=self.concurrency,
            cache=workspace.cache_of("pair_scores"),
            max_calls=self.max_calls,
        )

    def endpoint(self) -> Endpoint:
        """Return where the server is and how often it is tried."""
        return Endpoint(
            self.model,
            self.base_url,
            self.api_key_env,
            timeout=self.timeout,
            retries=self.retries,
            backoff=self.backoff,
        )


PATH = "/rerank"


Dialect = Literal["cohere", "tei"]


class RerankApi(ServerReranker):
    """Reranking by ``POST <base_url>/rerank``, as Cohere, Jina, vLLM and others offer it.

    ``api_key_env`` names the environment variable with the key; without it none is sent.
    ``dialect: tei`` is for Text Embeddings Inference, whose model is the one that it was started
    with. ``listwise`` is for models whose scores depend on the other documents of a request. A
    query that the server does not score has no results, and says why.
    """

    type: Literal["rerank_api"]
    dialect: Literal["cohere", "tei"] = "cohere"
    listwise: bool = False

    @model_validator(mode="after")
    def _one_request_has_all(self) -> Self:
        if self.listwise and "batch_size" in self.model_fields_set:
            raise ValueError(
                "batch_size: only without listwise, whose requests have all candidates"
            )
        return self

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model, "dialect": self.dialect}
        return {**named, "listwise": self.listwise}

    def passages_by_request(self, depth: int) -> list[int]:
        """Return the batches of one query's candidates; with ``listwise`` they are all one."""
        return [depth] if self.listwise else super().passages_by_request(depth)

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask the server for the scores of every new pair."""
        options = self.request_options(workspace, listwise=self.listwise)
        with closing(RerankEndpoint(self.endpoint(), self.dialect)) as endpoint:
            return scored_by_server(candidates, endpoint, options, workspace)


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
