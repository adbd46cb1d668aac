"""``type: cohere``: a reranking model of Cohere's, asked by Cohere's own client.

The client would try again by itself, after waits of its own: that is switched off, so that every
server is treated alike. It checks little of what comes back, so the answer is checked here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from rag_assets.errors import UsageError
from rag_assets.llm.endpoint import Endpoint
from rag_assets.options import Number
from rag_assets.retrieval.derived import Reranked
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.server_reranker import Address, ServerReranker, scored_by_server
from rag_assets.retrieval.reranking.server_scores import Failed, in_order, with_retries
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.failures import answered, malformed
from rag_assets.servers.transport import Server, Transport

if TYPE_CHECKING:
    from cohere import ClientV2


DEFAULT_BASE_URL = "https://api.cohere.com"


PATH = "/v2/rerank"


class Cohere(ServerReranker):
    """Reranking by Cohere's client, the package ``cohere``.

    The key is read from the environment variable ``api_key_env``, null for a server that needs
    none. ``max_tokens_per_doc`` is where the server cuts a document. ``price`` is that of a
    thousand search units, for the cost that ``leaderboard --latency`` shows, and changes no result.
    A query that the server does not score has no results, and says why.
    """

    provider: ClassVar[str | None] = "cohere"

    type: Literal["cohere"]
    base_url: Address = DEFAULT_BASE_URL
    api_key_env: str | None = Field(default="CO_API_KEY", min_length=1)
    max_tokens_per_doc: int | None = Field(default=None, ge=1, strict=True)
    batch_size: int = Field(default=100, ge=1, le=1000, strict=True)
    price: Number | None = Field(default=None, ge=0)

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | {"price"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model}
        return {**named, "protocol": "cohere v2", "max_tokens_per_doc": self.max_tokens_per_doc}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask for the scores of every new pair."""
        reranker = CohereReranker(self.endpoint(), max_tokens_per_doc=self.max_tokens_per_doc)

        def cost() -> float | None:
            searches, price = reranker.searches, self.price
            return None if searches is None or price is None else searches * price / 1_000

        with closing(reranker):
            return scored_by_server(
                candidates, reranker, self.request_options(workspace), workspace, cost
            )


class CohereReranker:
    """A model of Cohere's, or of a server that speaks its protocol."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        max_tokens_per_doc: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            endpoint: the server; its address is that before ``/v2/rerank``.
            max_tokens_per_doc: after how many tokens the server cuts a document; None leaves it to
                the server.
            sleep: waits between attempts.

        Raises:
            UsageError: the package ``cohere`` is not installed, or the variable is not set, or
                holds what no header can.
        """
        self._endpoint = endpoint
        self._optional: dict[str, Any] = {}
        if max_tokens_per_doc is not None:
            self._optional["max_tokens_per_doc"] = max_tokens_per_doc
        self._sleep = sleep
        self._server = endpoint.server()
        self._client = _open(self._server)
        self._answered: list[int] = []
        self._billed: dict[str, list[float]] = {"input_tokens": [], "search_units": []}

    @property
    def n_asked(self) -> int:
        """Documents that were scored so far."""
        return sum(self._answered)

    @property
    def tokens(self) -> int | None:
        """Tokens that were charged so far; None: the server does not tell."""
        told = self._billed["input_tokens"]
        return round(sum(told)) if told else None

    @property
    def searches(self) -> float | None:
        """Search units that were charged so far; None: the server does not tell."""
        told = self._billed["search_units"]
        return sum(told) if told else None

    def close(self) -> None:
        """Close the connections."""
        with self._client:
            pass

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """

        def ask() -> Scores | Failed:
            return answered(lambda: self._attempt(query, documents), self._server.secrets)

        return with_retries(ask, self._endpoint, PATH, self._sleep)

    def _attempt(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        from cohere.core.api_error import ApiError

        try:
            answer = self._client.rerank(
                model=self._endpoint.model,
                query=query,
                documents=list(documents),
                top_n=len(documents),
                **self._optional,
            )
        except ApiError as error:
            # Errors of the server never come so far: this is an answer that is no JSON.
            raise malformed(f"no JSON: {self._server.secrets.line(str(error.body))}") from None
        rows = [(one.index, one.relevance_score) for one in answer.results]
        found = in_order(rows, len(documents))
        if not isinstance(found, Failed):
            self._answered.append(len(documents))
            for unit, told in self._billed.items():
                told += _billed(answer, unit)
        return found


def _open(server: Server) -> ClientV2:
    """Return a client that tries once, and gets to know no key."""
    try:
        import cohere
        import httpx
    except ImportError as error:
        raise UsageError(
            "type cohere needs the package cohere: pip install 'rag-assets[cohere]'"
        ) from error
    transport: Any = Transport(httpx, server)
    return cohere.ClientV2(
        "",  # with an empty key, no header is sent
        base_url=server.place,
        timeout=server.timeout,
        max_retries=0,
        httpx_client=httpx.Client(transport=transport, trust_env=False),
        log_warning_experimental_features=False,
    )


def _billed(answer: Any, unit: str) -> list[float]:  # noqa: ANN401 (the client's, not checked)
    """Return what an answer says was charged, nothing where it does not."""
    told = getattr(getattr(getattr(answer, "meta", None), "billed_units", None), unit, None)
    if not isinstance(told, int | float) or isinstance(told, bool) or not 0 <= told < 2**31:
        return []
    return [float(told)]
