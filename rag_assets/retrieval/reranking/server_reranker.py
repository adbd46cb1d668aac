"""Options of the rerankers that ask a server, with the measure of what was asked and charged."""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from rag_assets.llm.endpoint import Endpoint
from rag_assets.options import Number
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.server_scores import (
    DocumentScorer,
    RequestOptions,
    rerank_by_server,
)
from rag_assets.retrieval.workspace import Usage, Workspace

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
